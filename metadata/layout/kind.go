package layout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind says which of BookKeeper's trees a cluster has. Its text is what a
// metadata URI says behind the plus, as in zk+hierarchical://.
type Kind string

const (
	// AnyKind is whichever kind there is; for a new cluster, Etcd.
	AnyKind Kind = ""
	// Etcd is the tree of Apache's etcd driver. The memory store uses it too.
	Etcd Kind = "etcd"
	// Hierarchical is what ZooKeeper clusters have by default: short ledger ids
	// in a tree of three levels, ids from 2147483647 on in one of five.
	Hierarchical Kind = "hierarchical"
	// LongHierarchical has all ledgers in a tree of five levels.
	LongHierarchical Kind = "longhierarchical"
	// LegacyHierarchical has all ledgers in a tree of three levels.
	LegacyHierarchical Kind = "legacyhierarchical"
	// Flat has all ledgers directly below the cluster's root.
	Flat Kind = "flat"
)

// ErrLayout says that a cluster's LAYOUT is not the one that was asked for, or
// not one that this version can use.
var ErrLayout = errors.New("layout of the cluster does not fit")

// zkKinds has the kinds that ZooKeeper clusters may have and, beside each, what
// Java loads it by. On disk: do not change.
var zkKinds = []struct {
	kind    Kind
	factory string
}{
	{Hierarchical, "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"},
	{LongHierarchical, "org.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory"},
	{LegacyHierarchical, "org.apache.bookkeeper.meta.LegacyHierarchicalLedgerManagerFactory"},
	{Flat, "org.apache.bookkeeper.meta.FlatLedgerManagerFactory"},
}

func (k Kind) onZooKeeper() bool { return k.factory() != "" }

func (k Kind) factory() string {
	for _, z := range zkKinds {
		if z.kind == k {
			return z.factory
		}
	}
	return ""
}

// Versions in a LAYOUT. On disk: do not change.
const (
	layoutFormat    = 2 // of the text; 1 names the kind in place of the class
	zkLayoutVersion = 1 // of the tree
)

// layoutText is the value of LAYOUT. Java loads the class by this name.
func (k Kind) layoutText() []byte {
	return fmt.Appendf(nil, "%d\n%s:%d", layoutFormat, k.factory(), zkLayoutVersion)
}

// parseLayout takes the value of LAYOUT apart; ErrLayout.
func parseLayout(text []byte) (Kind, error) {
	bad := func(format string, args ...any) (Kind, error) {
		return AnyKind, fmt.Errorf("LAYOUT: %s: %w", fmt.Sprintf(format, args...), ErrLayout)
	}
	lines := strings.Split(string(text), "\n")
	format, err := strconv.Atoi(lines[0])
	if err != nil || len(lines) < 2 {
		return bad("not valid: %q", clip(string(text)))
	}
	name, versionText, _ := strings.Cut(lines[1], ":")
	version, err := strconv.Atoi(versionText)
	if err != nil {
		return bad("not valid: %q", clip(string(text)))
	}
	if format < 1 || format > layoutFormat {
		return bad("format %d, want 1 or %d", format, layoutFormat)
	}
	for _, z := range zkKinds {
		if (format == layoutFormat && name != z.factory) || (format == 1 && name != string(z.kind)) {
			continue
		}
		if version != zkLayoutVersion {
			return bad("%s has version %d, want %d", z.kind, version, zkLayoutVersion)
		}
		return z.kind, nil
	}
	return bad("ledger manager %q is not supported", clip(name))
}

// clip shortens foreign bytes for an error text.
func clip(s string) string { return s[:min(len(s), 100)] }
