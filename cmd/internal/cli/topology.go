package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/placement"
)

// clientPlacement gives the placement of ledgers that this command makes, from
// --placement and --topology.
func (a *app) clientPlacement() (ledger.Placement, error) {
	p, err := placement.ParsePolicy(a.placement)
	if err != nil {
		return ledger.Placement{}, usageError{fmt.Errorf("--placement: %w", err)}
	}
	if a.topology == "" {
		return ledger.Placement{Policy: p}, nil
	}
	t := &topologyFile{path: a.topology, log: a.log}
	if err := t.read(); err != nil {
		return ledger.Placement{}, usageError{fmt.Errorf("--topology: %w", err)}
	}
	return ledger.Placement{Policy: p, Locate: t.locate}, nil
}

// topologyAgeMax is how long a change of the file may go unseen.
const topologyAgeMax = 5 * time.Second

// topologyFile is a topology that is read again when its file changes.
type topologyFile struct {
	path string
	log  *zap.Logger

	mu      sync.Mutex // guards all below
	known   placement.Topology
	stat    os.FileInfo
	checked time.Time
}

// locate gives what the file says of a bookie. A file that cannot be read, or
// used, leaves the last one that could.
func (t *topologyFile) locate(id bk.BookieID) (placement.Site, bool) {
	t.mu.Lock()
	stale := time.Since(t.checked) >= topologyAgeMax
	if stale {
		t.checked = time.Now() // one look is enough
	}
	t.mu.Unlock()
	if stale {
		if err := t.read(); err != nil {
			t.log.Warn("topology file is passed over", zap.Error(err))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known.Lookup(id)
}

// read reads the file if it has changed.
func (t *topologyFile) read() error {
	stat, err := os.Stat(t.path)
	if err != nil {
		return err
	}
	t.mu.Lock()
	same := t.stat != nil && stat.ModTime().Equal(t.stat.ModTime()) && stat.Size() == t.stat.Size() && os.SameFile(stat, t.stat)
	t.mu.Unlock()
	if same {
		return nil
	}
	text, err := os.ReadFile(t.path)
	if err != nil {
		return err
	}
	known, err := placement.ParseTopology(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.stat, t.checked = known, stat, time.Now()
	return nil
}

// labelList shows labels as key=value, sorted; nil for none.
func labelList(labels map[string]string) any {
	if len(labels) == 0 {
		return nil
	}
	out := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return out
}
