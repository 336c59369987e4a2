package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

// storedMetadata is a ledger's metadata as this client last read or wrote it:
// what the next compare-and-set compares with (rule 47).
type storedMetadata struct {
	cluster *layout.Cluster
	id      bk.LedgerID
	meta    *layout.LedgerMetadata // immutable
	version metadata.Version
}

// core is the part that the protocol decides over.
func (s *storedMetadata) core() quorum.Metadata {
	m := quorum.Metadata{LastEntry: s.meta.LastEntry, Length: s.meta.Length}
	switch s.meta.State {
	case layout.StateOpen:
		m.State = quorum.StateOpen
	case layout.StateInRecovery:
		m.State = quorum.StateInRecovery
	case layout.StateClosed:
		m.State = quorum.StateClosed
	}
	for _, seg := range s.meta.Segments {
		m.Segments = append(m.Segments, quorum.Segment{First: seg.First, Ensemble: seg.Ensemble})
	}
	return m
}

// check refuses metadata that reads could not be steered by: there is a first
// segment at entry 0, and every ensemble has its bookies.
func (s *storedMetadata) check() error {
	if err := s.meta.Quorum.Validate(); err != nil {
		return fmt.Errorf("%w: %w", bk.ErrCorrupt, err)
	}
	if len(s.meta.Segments) == 0 || s.meta.Segments[0].First != 0 {
		return fmt.Errorf("no segment at entry 0: %w", bk.ErrCorrupt)
	}
	for i, seg := range s.meta.Segments {
		if len(seg.Ensemble) != s.meta.Quorum.Ensemble {
			return fmt.Errorf("segment %d has %d bookies, want %d: %w", i, len(seg.Ensemble), s.meta.Quorum.Ensemble, bk.ErrCorrupt)
		}
	}
	return nil
}

// with is a copy of the metadata with the protocol's part replaced. Everything
// else, fields this version does not know among it, stays.
func (s *storedMetadata) with(m quorum.Metadata) *layout.LedgerMetadata {
	out := s.meta.Clone()
	switch m.State {
	case quorum.StateOpen:
		out.State = layout.StateOpen
	case quorum.StateInRecovery:
		out.State = layout.StateInRecovery
	case quorum.StateClosed:
		out.State = layout.StateClosed
		out.LastEntry, out.Length = m.LastEntry, m.Length
	}
	kept := out.Segments
	out.Segments = nil
	for i, seg := range m.Segments {
		var to layout.Segment
		if i < len(kept) && kept[i].First == seg.First {
			to = kept[i]
		}
		to.First, to.Ensemble = seg.First, seg.Ensemble
		out.Segments = append(out.Segments, to)
	}
	return out
}

// errStale says that the metadata may not be what was compared with: the caller
// looks at what is stored now.
var errStale = errors.New("ledger metadata has to be looked at again")

// Pauses between attempts to read or write metadata.
const (
	storeRetryMin = 10 * time.Millisecond
	storeRetryMax = time.Second
)

// update writes m by compare-and-set. When it finds that another write came
// first, or its own whose answer was lost, it re-reads and gives errStale; any
// other error means that what is stored cannot be learned, or not be changed
// until ctx ends (rules 17, 47, 48).
func (s *storedMetadata) update(ctx context.Context, m quorum.Metadata) error {
	next := s.with(m)
	for wait := storeRetryMin; ; wait = min(2*wait, storeRetryMax) {
		before := s.version
		v, err := s.cluster.UpdateLedger(ctx, s.id, next, before)
		if err == nil {
			s.meta, s.version = next, v
			return nil
		}
		if errors.Is(err, bk.ErrNoSuchLedger) {
			return err
		}
		if rerr := s.reread(ctx); rerr != nil {
			return errors.Join(err, rerr)
		}
		if s.version != before {
			return errStale
		}
		// Nothing was written so far. The same write over the same version can
		// be sent again: of all attempts one at most succeeds.
		if werr := sleep(ctx, wait); werr != nil {
			return fmt.Errorf("%w: %w", err, werr)
		}
	}
}

// sleep waits for d; it gives why ctx ended if that comes first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// reread loads what is stored now, trying again until ctx ends.
func (s *storedMetadata) reread(ctx context.Context) error {
	for wait := storeRetryMin; ; wait = min(2*wait, storeRetryMax) {
		m, v, err := s.cluster.Ledger(ctx, s.id)
		if err == nil {
			s.meta, s.version = m, v
			return s.check()
		}
		if errors.Is(err, bk.ErrNoSuchLedger) || errors.Is(err, bk.ErrCorrupt) || errors.Is(err, metadata.ErrClosed) {
			return err
		}
		if werr := sleep(ctx, wait); werr != nil {
			return fmt.Errorf("%w: %w", err, werr)
		}
	}
}
