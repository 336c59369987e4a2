package bookie

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// gate holds back syncs of entry logs: each says so in entered and waits for
// open.
type gate struct {
	armed         atomic.Bool
	entered, open chan struct{}
}

func newGate(mem vfs.FS) (*gate, vfs.FS) {
	g := &gate{entered: make(chan struct{}), open: make(chan struct{})}
	return g, &hookFS{FS: mem, before: func(op, name string) error {
		if g.armed.Load() && isEntryLog(name) && op == "sync data" {
			g.entered <- struct{}{}
			<-g.open
		}
		return nil
	}}
}

// TestEntryAddedDuringAFlush adds to a ledger whose state the flush under way
// is about to store: the highest entry must be in memory whatever is evicted,
// and in the index after the next flush.
func TestEntryAddedDuringAFlush(t *testing.T) {
	mem := vfs.NewCrashableMem()
	g, fs := newGate(mem)
	b := open(t, smallOptions(fs))
	require.Equal(t, bk.StatusOK, add(b, 0, body(1, 0, "before"))[0])
	g.armed.Store(true)
	flushed := make(chan error)
	go func() { flushed <- b.Flush() }()
	<-g.entered
	require.Equal(t, bk.StatusOK, add(b, 0, body(1, 1, "while the entry log is synced"))[0])
	g.armed.Store(false)
	g.open <- struct{}{}
	require.NoError(t, <-flushed)
	last := func(b *Bookie) {
		t.Helper()
		got, s := b.Read(1, bk.InvalidEntryID, nil)
		require.Equal(t, bk.StatusOK, s)
		require.Equal(t, bk.EntryID(1), bk.BodyEntry(got))
	}
	for range 5 {
		b.shards[0].table.Evict(0, math.MaxUint64)
	}
	last(b)
	require.NoError(t, b.Flush())
	for range 5 {
		b.shards[0].table.Evict(0, math.MaxUint64)
	}
	last(b)
	c := open(t, smallOptions(mem.CrashClone(vfs.CrashCloneCfg{})))
	last(c)
	require.NoError(t, c.Close())
	require.NoError(t, b.Close())
}

// TestReadThatBeganBeforeExtentsOverlapped looks an entry up with what was
// known of its ledger before a flush put another extent above its own.
func TestReadThatBeganBeforeExtentsOverlapped(t *testing.T) {
	b := open(t, smallOptions(vfs.NewMem()))
	for e := range bk.EntryID(10) {
		add(b, 0, body(1, e, "x"))
	}
	require.NoError(t, b.Flush())
	add(b, 0, body(1, 3, "again"), body(1, 4, "again"))
	require.NoError(t, b.Flush())
	_, ok, err := b.shards[0].find(1, 5, false)
	require.NoError(t, err)
	require.True(t, ok, "entry 5 is stored")
	require.NoError(t, b.Close())
}

// TestBatchOfManyLedgersWaitsOnce offers a batch of many runs to a bookie that
// has no room: it waits AddWait in all.
func TestBatchOfManyLedgersWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fs := newGate(vfs.NewMem())
		b := open(t, smallOptions(fs))
		g.armed.Store(true)
		fill := func() (tooMany bool) {
			for e := range bk.EntryID(200) {
				if add(b, 0, body(9, e, strings.Repeat("x", 2000)))[0] == bk.StatusTooManyRequests {
					return true
				}
			}
			return false
		}
		go func() { <-g.entered }()
		require.True(t, fill(), "the flush does not end")
		var batch [][]byte
		for i := range 40 {
			batch = append(batch, body(bk.LedgerID(i%2), bk.EntryID(i), strings.Repeat("x", 2000)))
		}
		start := time.Now()
		for _, s := range add(b, 0, batch...) {
			require.Equal(t, bk.StatusTooManyRequests, s)
		}
		require.Less(t, time.Since(start), 2*b.o.AddWait)
		g.armed.Store(false)
		g.open <- struct{}{}
		require.NoError(t, b.Close())
	})
}
