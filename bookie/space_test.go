package bookie

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// listing is a listing of ledgers that goes wrong in its own way; the look-up of
// one ledger does not.
type listing struct {
	live map[bk.LedgerID]bool
	give func(ids []bk.LedgerID, yield func(bk.LedgerID, error) bool)
}

func (m *listing) Ledgers(context.Context) iter.Seq2[bk.LedgerID, error] {
	var ids []bk.LedgerID
	for l := range m.live {
		ids = append(ids, l)
	}
	slices.Sort(ids)
	return func(yield func(bk.LedgerID, error) bool) { m.give(ids, yield) }
}

func (m *listing) Exists(_ context.Context, l bk.LedgerID) (bool, error) { return m.live[l], nil }

// TestR09_ListingThatEndsEarly collects 500 ledgers of several id ranges against
// listings that stop, fail, skip or mix up: no live ledger is removed, and a
// pass with an error removes nothing at all.
func TestR09_ListingThatEndsEarly(t *testing.T) {
	boom := errors.New("the metadata went away")
	live := map[bk.LedgerID]bool{}
	var all, dead []bk.LedgerID
	for i := range bk.LedgerID(500) {
		l := []bk.LedgerID{0, 1 << 31, 1 << 40, 1 << 61}[i%4] + i
		all = append(all, l)
		if i%50 == 7 {
			dead = append(dead, l)
		} else {
			live[l] = true
		}
	}
	some := func(from, to int) func([]bk.LedgerID, func(bk.LedgerID, error) bool) {
		return func(ids []bk.LedgerID, yield func(bk.LedgerID, error) bool) {
			for i, l := range ids {
				if (i < from || i >= to) && !yield(l, nil) {
					return
				}
			}
		}
	}
	type kind struct {
		name  string
		fails bool
		give  func([]bk.LedgerID, func(bk.LedgerID, error) bool)
	}
	kinds := []kind{
		{"empty", false, some(0, 500)},
		{"first page dropped", false, some(0, 100)},
		{"page dropped", false, some(200, 300)},
		{"unsorted", false, func(ids []bk.LedgerID, yield func(bk.LedgerID, error) bool) {
			slices.Reverse(ids)
			some(0, 0)(ids, yield)
		}},
		{"unreachable", true, func(_ []bk.LedgerID, yield func(bk.LedgerID, error) bool) { yield(0, boom) }},
	}
	for _, at := range []int{1, 99, 100, 250, 489} {
		kinds = append(kinds, kind{fmt.Sprintf("error after %d", at), true, func(ids []bk.LedgerID, yield func(bk.LedgerID, error) bool) {
			some(0, 0)(ids[:at], yield)
			yield(0, boom)
		}})
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			o := smallOptions(vfs.NewMem())
			o.Collect.Ledgers = &listing{live, k.give}
			b := open(t, o)
			for _, l := range all {
				require.Equal(t, bk.StatusOK, add(b, 0, body(l, 0, "x"))[0])
			}
			require.NoError(t, b.Flush())
			require.NoError(t, b.Flush())
			info, err := b.Collect(t.Context(), true)
			if k.fails {
				require.ErrorIs(t, err, boom)
				require.Zero(t, info.Deleted)
			} else {
				require.NoError(t, err)
				require.Equal(t, len(dead), info.Deleted)
			}
			for _, l := range all {
				want := bk.StatusOK
				if !k.fails && slices.Contains(dead, l) {
					want = bk.StatusNoLedger
				}
				require.Equal(t, want, statusOfRead(b, l, 0), "ledger %d", l)
			}
			require.NoError(t, b.Close())
		})
	}
}

// TestR10_HalfFailedCompaction has the index fail for 20 passes over logs that
// are mostly dead: the disk does not fill with copies, and the first pass that
// can ends it.
func TestR10_HalfFailedCompaction(t *testing.T) {
	f := newFaults(vfs.NewMem(), syscall.EIO, func(op, name string) bool { return op == "create" && hasSuffix(name, ".sst") })
	m := &someLedgers{}
	o := collectOptions(f.FS, m)
	b := open(t, o)
	fillLogs(t, b, 10, 100)
	size := func() (n int64) {
		logs, err := b.shards[0].logs.Logs()
		require.NoError(t, err)
		for _, log := range logs {
			s, err := b.shards[0].logs.Size(log)
			require.NoError(t, err)
			n += s
		}
		return n
	}
	for l := bk.LedgerID(1); l < 10; l++ {
		m.remove(l)
	}
	require.Equal(t, 9, func() int { i, _ := b.Collect(t.Context(), false); return i.Deleted }(), "the logs are a tenth live")
	// The pass has compacted already: make logs to compact anew.
	for l := bk.LedgerID(20); l < 29; l++ {
		for e := range bk.EntryID(60) {
			require.Equal(t, bk.StatusOK, add(b, 0, body(l, e, strings.Repeat("x", 1000)), body(10, 100+bk.EntryID(l)*100+e, "y"))[0])
		}
		m.remove(l)
	}
	require.NoError(t, b.Flush())
	require.NoError(t, b.Flush())
	b.o.Collect.MajorRatio = 0 // dead logs alone
	collect(t, b, true)
	b.o.Collect.MajorRatio = 0.9
	before := size()
	f.armed.Store(true)
	for range 20 {
		_, err := b.Collect(t.Context(), true)
		require.Error(t, err)
		require.LessOrEqual(t, size(), before+2*o.EntryLogBytes, "copies pile up")
	}
	f.armed.Store(false)
	require.Eventually(t, func() bool { _, err := b.Collect(t.Context(), true); return err == nil }, 10*time.Second, 10*time.Millisecond)
	require.Less(t, size(), before)
	for e := range bk.EntryID(100) {
		require.Equal(t, bk.StatusOK, statusOfRead(b, 10, e))
	}
	require.NoError(t, b.Close())
}

// TestR14_StartOnAFullDisk fills the disk, kills, takes the last byte, and
// starts: the bookie is read-only, has everything, deletes, and is writable
// again by itself once that made room.
func TestR14_StartOnAFullDisk(t *testing.T) {
	for name, full := range map[string][]string{"both": {"/j", "/l"}, "ledgers": {"/l"}} {
		t.Run(name, func(t *testing.T) { testFullDisk(t, full) })
	}
}

func testFullDisk(t *testing.T, full []string) {
	const total = 64 << 20
	mem, m := vfs.NewCrashableMem(), &someLedgers{}
	options := func(fs vfs.FS) Options {
		o := Options{FS: fs, JournalDirs: []string{"/j"}, LedgerDirs: []string{"/l"},
			JournalFileBytes: 4 << 20, JournalBytesMax: 12 << 20, WriteCacheBytes: 4 << 20, EntryLogBytes: 8 << 20,
			AddWait: 100 * time.Millisecond}
		o.Collect = CollectOptions{Ledgers: m, BytesPerSec: 1 << 40}
		return o
	}
	fs := newLimitFS(mem, total)
	b := open(t, options(fs))
	acked := map[entryKey][]byte{}
	text := strings.Repeat("x", 32<<10)
	for e := bk.EntryID(0); b.State() == Writable; e++ {
		l := 1 + bk.LedgerID(e)/50
		x := body(l, e, text)
		if add(b, 0, x)[0] == bk.StatusOK {
			acked[entryKey{l, e}] = x
		}
	}
	require.Greater(t, len(acked), 500)
	check := func(b *Bookie) {
		t.Helper()
		for k, want := range acked {
			got, s := b.Read(k.l, k.e, nil)
			require.Equal(t, bk.StatusOK, s, "entry %d of ledger %d", k.e, k.l)
			require.Equal(t, want, got)
		}
	}
	check(b)
	require.Equal(t, bk.StatusReadOnly, add(b, 0, body(900, 0, text))[0])

	after := newLimitFS(mem.CrashClone(vfs.CrashCloneCfg{}), total) // kill -9
	fs.mu.Lock()
	after.files = maps.Clone(fs.files)
	fs.mu.Unlock()
	for _, d := range full {
		after.takeRest(d)
	}
	c, err := Open(t.Context(), options(after))
	require.NoError(t, err)
	require.Equal(t, ReadOnly, c.State())
	check(c)
	require.Equal(t, bk.StatusReadOnly, add(c, 0, body(900, 0, text))[0])
	last := bk.LedgerID(0)
	for k := range acked {
		last = max(last, k.l)
	}
	for k := range acked {
		if k.l < last*2/3 {
			m.remove(k.l)
			delete(acked, k)
		}
	}
	require.Eventually(t, func() bool { // what was added last waits for a flush, which waits for room
		_, err := c.Collect(t.Context(), false)
		return err == nil && c.State() == Writable
	}, 20*time.Second, 50*time.Millisecond)
	check(c)
	require.Equal(t, bk.StatusOK, add(c, 0, body(900, 0, text))[0])
	require.NoError(t, c.Close())
	require.ErrorIs(t, b.Close(), syscall.ENOSPC, "the one that was killed has no room for its write cache")
}
