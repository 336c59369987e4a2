package bookie

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/memstore"
)

var otherKey = func() []byte { k := bk.MasterKey([]byte("other")); return k[:] }()

func TestStatuses(t *testing.T) {
	ctx := t.Context()
	b := open(t, smallOptions(vfs.NewMem()))
	defer func() { require.NoError(t, b.Close()) }()
	one := func(key []byte, flags AddFlags, body []byte) bk.Status {
		sink := newSink(1)
		b.AddBatch(sink, []Add{{MasterKey: key, Body: body, Flags: flags}})
		return (<-sink.c).Status
	}
	_, s := b.Read(1, bk.InvalidEntryID, nil)
	require.Equal(t, bk.StatusNoLedger, s)
	_, s = b.LAC(1)
	require.Equal(t, bk.StatusNoLedger, s)
	_, s = b.Entries(1)
	require.Equal(t, bk.StatusNoLedger, s)
	_, _, s = b.ReadLAC(1)
	require.Equal(t, bk.StatusNoEntry, s)
	require.Equal(t, bk.StatusOK, b.Force(ctx, 99))

	require.Equal(t, bk.StatusBadRequest, one(testKey, 0, make([]byte, 23)))
	require.Equal(t, bk.StatusBadRequest, one(testKey, 0, body(-4, 0, "negative ledger")))
	require.Equal(t, bk.StatusOK, one(testKey, 0, body(1, 0, "a")))
	require.Equal(t, bk.StatusOK, one(testKey, 0, body(1, 5, "gap")))
	require.Equal(t, bk.StatusOK, one(testKey, 0, body(1, 4, "below")))
	require.Equal(t, bk.StatusOK, one(testKey, 0, body(1, -5, "negative entry id")))
	require.Equal(t, bk.StatusUnauthorized, one(otherKey, 0, body(1, 6, "x")))
	require.Equal(t, bk.StatusOK, one(nil, 0, body(6, 0, "empty key")))
	require.Equal(t, bk.StatusOK, one([]byte("abc"), 0, body(7, 0, "short key")))
	got, s := b.Read(1, bk.InvalidEntryID, nil)
	require.Equal(t, bk.StatusOK, s)
	require.Equal(t, bk.EntryID(5), bk.BodyEntry(got))
	ids, s := b.Entries(1)
	require.Equal(t, bk.StatusOK, s)
	require.Equal(t, []bk.EntryID{-5, 0, 4, 5}, slices.Collect(ids))

	// Fence.
	require.Equal(t, bk.StatusUnauthorized, b.Fence(ctx, 1, otherKey))
	require.Equal(t, bk.StatusUnauthorized, b.Fence(ctx, 1, nil))
	require.Equal(t, bk.StatusOK, one(testKey, 0, body(1, 6, "not fenced by those")))
	require.Equal(t, bk.StatusOK, b.Fence(ctx, 1, testKey))
	require.Equal(t, bk.StatusOK, b.Fence(ctx, 1, testKey))
	require.Equal(t, bk.StatusFenced, one(testKey, 0, body(1, 7, "x")))
	require.Equal(t, bk.StatusUnauthorized, one(otherKey, 0, body(1, 7, "x")))
	require.Equal(t, bk.StatusOK, one(testKey, AddRecovery, body(1, 7, "x")))
	require.Equal(t, bk.StatusOK, b.Fence(ctx, 500, testKey), "unknown ledger")
	_, s = b.Read(500, bk.InvalidEntryID, nil)
	require.Equal(t, bk.StatusNoEntry, s)
	_, _, s = b.ReadLAC(500)
	require.Equal(t, bk.StatusNoEntry, s)
	require.Equal(t, bk.StatusFenced, one(testKey, 0, body(500, 0, "x")))

	// Explicit LAC.
	lac := func(l bk.LedgerID, e bk.EntryID) []byte { return testDigest.AppendLAC(nil, l, e) }
	require.Equal(t, bk.StatusOK, b.WriteLAC(ctx, 1, testKey, lac(1, 6)), "fenced")
	require.Equal(t, bk.StatusOK, b.WriteLAC(ctx, 1, testKey, lac(1, 2)), "lower")
	require.Equal(t, bk.StatusUnauthorized, b.WriteLAC(ctx, 1, otherKey, lac(1, 8)))
	require.Equal(t, bk.StatusBadRequest, b.WriteLAC(ctx, 1, testKey, make([]byte, 15)))
	text, last, s := b.ReadLAC(1)
	require.Equal(t, bk.StatusOK, s)
	require.Equal(t, lac(1, 2), text)
	require.Equal(t, bk.EntryID(7), bk.BodyEntry(last))
	known, _ := b.LAC(1)
	require.Equal(t, bk.EntryID(6), known)
	require.Equal(t, bk.StatusOK, b.WriteLAC(ctx, 600, testKey, lac(600, 3)), "creates the ledger")
	text, last, s = b.ReadLAC(600)
	require.Equal(t, bk.StatusOK, s)
	require.NotNil(t, text)
	require.Nil(t, last)

	// Read-only.
	b.SetReadOnly(true)
	require.Equal(t, ReadOnly, b.State())
	require.Equal(t, bk.StatusReadOnly, one(testKey, 0, body(7, 0, "x")))
	require.Equal(t, bk.StatusReadOnly, one(testKey, AddRecovery, body(9, 0, "x")))
	require.Equal(t, bk.StatusOK, one(testKey, AddHighPriority, body(9, 0, "x")))
	require.Equal(t, bk.StatusReadOnly, b.WriteLAC(ctx, 9, testKey, lac(9, 0)))
	require.Equal(t, bk.StatusOK, b.Fence(ctx, 9, testKey))
	require.Equal(t, bk.StatusOK, b.Force(ctx, 9))
	b.SetReadOnly(false)
	require.Equal(t, bk.StatusOK, one(testKey, 0, body(10, 0, "x")))
}

func TestAddedAgainLastOneWins(t *testing.T) {
	fs := vfs.NewMem()
	b := open(t, smallOptions(fs))
	add(b, 0, body(1, 0, "a"), body(1, 1, "b"), body(1, 2, "c"))
	require.NoError(t, b.Flush())
	add(b, 0, body(1, 0, "A"), body(1, 2, "C"))
	check := func() {
		t.Helper()
		for e, want := range []string{"A", "b", "C"} {
			got, s := b.Read(1, bk.EntryID(e), nil)
			require.Equal(t, bk.StatusOK, s)
			require.Equal(t, body(1, bk.EntryID(e), want), got)
		}
		ids, _ := b.Entries(1)
		require.Equal(t, []bk.EntryID{0, 1, 2}, slices.Collect(ids))
	}
	check()
	require.NoError(t, b.Flush())
	check()
	require.NoError(t, b.Close())
	b = open(t, smallOptions(fs))
	check()
	require.NoError(t, b.Close())
}

// TestR02FenceSurvivesRestartRollAndCheckpoint fences, then lets the fence's
// record go with its journal file.
func TestR02FenceSurvivesRestartRollAndCheckpoint(t *testing.T) {
	fs := vfs.NewCrashableMem()
	b := open(t, smallOptions(fs))
	for e := range bk.EntryID(5) {
		require.Equal(t, bk.StatusOK, add(b, 0, body(1, e, "x"))[0])
	}
	require.Equal(t, bk.StatusOK, b.Fence(t.Context(), 1, testKey))
	require.Equal(t, bk.StatusOK, b.Fence(t.Context(), 2, testKey))
	refuses := func(fs vfs.FS) {
		t.Helper()
		c := open(t, smallOptions(fs))
		require.Equal(t, bk.StatusFenced, add(c, 0, body(1, 5, "old writer"))[0])
		require.Equal(t, bk.StatusFenced, add(c, 0, body(2, 0, "old writer"))[0])
		require.NoError(t, c.Close())
	}
	refuses(fs.CrashClone(vfs.CrashCloneCfg{})) // from the journal
	for e := range bk.EntryID(60) {             // rolls and recycles
		require.Equal(t, bk.StatusOK, add(b, 0, body(3, e, strings.Repeat("y", 3000)))[0])
	}
	require.NoError(t, b.Flush())
	refuses(fs.CrashClone(vfs.CrashCloneCfg{})) // from the index
	require.NoError(t, b.Close())
	refuses(fs)
}

// TestR11MarkIsTheMinimumOverDirectories flushes one ledger directory while
// another one still has its entries in memory.
func TestR11MarkIsTheMinimumOverDirectories(t *testing.T) {
	fs := vfs.NewCrashableMem()
	o := smallOptions(fs)
	o.LedgerDirs = []string{"/l0", "/l1", "/l2", "/l3"}
	b := open(t, o)
	var want [][]byte
	for l := range bk.LedgerID(16) {
		for e := range bk.EntryID(8) {
			want = append(want, body(l, e, strings.Repeat("z", 1500)))
		}
	}
	for _, s := range add(b, 0, want...) {
		require.Equal(t, bk.StatusOK, s)
	}
	for i := range b.shards {
		require.NoError(t, b.shards[i].flush(true))
		c := open(t, func() Options { o := o; o.FS = fs.CrashClone(vfs.CrashCloneCfg{}); return o }())
		for _, w := range want {
			got, s := c.Read(bk.BodyLedger(w), bk.BodyEntry(w), nil)
			require.Equal(t, bk.StatusOK, s)
			require.Equal(t, w, got)
		}
		require.NoError(t, c.Close())
	}
	require.NoError(t, b.Close())
}

// TestR13DamageIsAnErrorNotAMissingEntry flips each byte of a stored entry.
func TestR13DamageIsAnErrorNotAMissingEntry(t *testing.T) {
	fs := vfs.NewMem()
	o := smallOptions(fs)
	var corrupt atomic.Int64
	o.Events.Corrupt = func(*bk.CorruptError) { corrupt.Add(1) }
	b := open(t, o)
	var all [][]byte
	for e := range bk.EntryID(10) {
		all = append(all, body(1, e, "some payload"))
	}
	add(b, 0, all...)
	require.NoError(t, b.Flush())
	p, ok, err := b.shards[0].index.Find(1, 5, false)
	require.NoError(t, err)
	require.True(t, ok)
	data, err := fs.UnsafeGetFileDataBuffer(fmt.Sprintf("/l/current/%08x.log", uint32(p.Log)))
	require.NoError(t, err)
	for i := range int64(8 + len(all[5])) {
		data[p.Offset+i] ^= 0x10
		_, s := b.Read(1, 5, nil)
		require.Equal(t, bk.StatusIO, s, "byte %d", i)
		data[p.Offset+i] ^= 0x10
	}
	require.EqualValues(t, 8+len(all[5]), corrupt.Load())
	for e := range bk.EntryID(10) {
		_, s := b.Read(1, e, nil)
		require.Equal(t, bk.StatusOK, s)
	}
	require.NoError(t, b.Close())
}

// TestR16FailedSyncLeavesTheWritableSet fails a sync of one of three journals.
func TestR16FailedSyncLeavesTheWritableSet(t *testing.T) {
	disk := errors.New("disk error")
	var armed atomic.Bool
	fs := &hookFS{FS: vfs.NewMem(), before: func(op, name string) error {
		if armed.Load() && op == "sync data" && strings.HasPrefix(name, "/j1/") {
			return disk
		}
		return nil
	}}
	o := smallOptions(fs)
	o.JournalDirs = []string{"/j0", "/j1", "/j2"}
	store := memstore.New()
	defer func() { require.NoError(t, store.Close()) }()
	_, err := layout.Init(t.Context(), store, "/bk")
	require.NoError(t, err)
	cluster, err := layout.Open(t.Context(), store, "/bk")
	require.NoError(t, err)
	b := open(t, o)
	reg, err := b.Register(t.Context(), RegisterOptions{Cluster: cluster, ID: "b1:1"})
	require.NoError(t, err)
	l := bk.LedgerID(0)
	for b.journalOf(l).id != 1 {
		l++
	}
	require.Equal(t, bk.StatusOK, add(b, 0, body(l, 0, "x"))[0])
	armed.Store(true)
	require.Equal(t, bk.StatusIO, add(b, 0, body(l, 1, "x"))[0])
	require.Equal(t, Failed, b.State())
	require.Equal(t, bk.StatusReadOnly, add(b, 0, body(l, 2, "x"))[0])
	require.Equal(t, bk.StatusIO, add(b, AddHighPriority, body(l, 2, "x"))[0])
	require.Equal(t, bk.StatusIO, b.Fence(t.Context(), l, testKey))
	require.Equal(t, bk.StatusIO, b.Force(t.Context(), l))
	_, s := b.Read(l, 0, nil)
	require.Equal(t, bk.StatusOK, s)
	w, err := cluster.WatchBookies(t.Context())
	require.NoError(t, err)
	for range w.C() {
		list, err := cluster.Bookies(t.Context())
		require.NoError(t, err)
		if len(list.Writable) == 0 && len(list.ReadOnly) == 1 {
			break
		}
	}
	require.NoError(t, reg.Close(t.Context()))
	require.NoError(t, b.Close())
}

// TestR32EmptyPayloads stores records of no length and ledgers of one entry.
func TestR32EmptyPayloads(t *testing.T) {
	fs := vfs.NewCrashableMem()
	b := open(t, smallOptions(fs))
	none := testDigest.AppendEntry(nil, 1, 0, bk.InvalidEntryID, 0, nil)
	bare := body(2, 0, "")[:bk.HeaderSize] // no digest, no payload
	for _, s := range add(b, 0, none, bare, body(3, 0, ""), body(3, 1, "x"), body(3, 2, "")) {
		require.Equal(t, bk.StatusOK, s)
	}
	check := func(b *Bookie) {
		t.Helper()
		for _, w := range [][]byte{none, bare, body(3, 0, ""), body(3, 1, "x"), body(3, 2, "")} {
			got, s := b.Read(bk.BodyLedger(w), bk.BodyEntry(w), nil)
			require.Equal(t, bk.StatusOK, s)
			require.Equal(t, w, got)
		}
		got, s := b.Read(1, bk.InvalidEntryID, nil)
		require.Equal(t, bk.StatusOK, s)
		require.Equal(t, none, got)
	}
	check(b)
	c := open(t, smallOptions(fs.CrashClone(vfs.CrashCloneCfg{})))
	check(c)
	require.NoError(t, c.Close())
	require.NoError(t, b.Flush())
	check(b)
	require.NoError(t, b.Close())
}

func TestWaitLAC(t *testing.T) {
	b := open(t, smallOptions(vfs.NewMem()))
	got := make(chan bk.EntryID, 10)
	fn := func(lac bk.EntryID) { got <- lac }
	b.WaitLAC(1, bk.InvalidEntryID, fn)
	cancel := b.WaitLAC(1, 3, fn)
	require.Equal(t, bk.StatusOK, add(b, 0, body(1, 0, "x"))[0]) // carries LAC -1
	require.Empty(t, got)
	add(b, 0, body(1, 1, "x"))
	require.Equal(t, bk.EntryID(0), <-got)
	require.True(t, cancel())
	require.False(t, cancel() && len(got) > 0)
	add(b, 0, body(1, 9, "x"))
	require.Empty(t, got)
	require.False(t, b.WaitLAC(1, 7, fn)())
	require.Equal(t, bk.EntryID(8), <-got)
	b.WaitLAC(1, 8, fn)
	b.WriteLAC(t.Context(), 1, testKey, testDigest.AppendLAC(nil, 1, 9))
	require.Equal(t, bk.EntryID(9), <-got)
	require.NoError(t, b.Close())
}

func TestFailedFlushIsTriedAgain(t *testing.T) {
	disk := errors.New("no space")
	var armed atomic.Bool
	mem := vfs.NewMem()
	fs := &hookFS{FS: mem, before: func(op, name string) error {
		if armed.Load() && isEntryLog(name) && op == "sync data" {
			return disk
		}
		return nil
	}}
	b := open(t, smallOptions(fs))
	add(b, 0, body(1, 0, "x"))
	armed.Store(true)
	require.ErrorIs(t, b.Flush(), disk)
	require.Equal(t, bk.StatusOK, add(b, 0, body(1, 1, "y"))[0])
	armed.Store(false)
	require.NoError(t, b.Flush())
	require.NoError(t, b.Flush())
	for e := range bk.EntryID(2) {
		_, s := b.Read(1, e, nil)
		require.Equal(t, bk.StatusOK, s)
	}
	require.NoError(t, b.Close())
}

func TestFullWriteCacheSaysBusy(t *testing.T) {
	disk := errors.New("no space")
	fs := &hookFS{FS: vfs.NewMem(), before: func(op, name string) error {
		if isEntryLog(name) {
			return disk
		}
		return nil
	}}
	o := smallOptions(fs)
	o.AddWait = 1
	b := open(t, o)
	count := map[bk.Status]int{}
	for e := range bk.EntryID(200) {
		count[add(b, AddHighPriority, body(1, e, strings.Repeat("x", 1000)))[0]]++
	}
	require.Equal(t, 200, count[bk.StatusOK]+count[bk.StatusTooManyRequests], "%v", count)
	require.LessOrEqual(t, count[bk.StatusOK]*1000, 2*o.WriteCacheBytes)
	require.Positive(t, count[bk.StatusOK])
	require.ErrorIs(t, b.Close(), disk)
}

func TestIdentity(t *testing.T) {
	store := memstore.New()
	defer func() { require.NoError(t, store.Close()) }()
	cluster := func(scope string) *layout.Cluster {
		_, err := layout.Init(t.Context(), store, scope)
		if !errors.Is(err, metadata.ErrExists) {
			require.NoError(t, err)
		}
		c, err := layout.Open(t.Context(), store, scope)
		require.NoError(t, err)
		return c
	}
	fs := vfs.NewMem()
	o := smallOptions(fs)
	o.Identity = &Identity{ID: "b1:1", Cluster: cluster("/bk")}
	for range 2 { // a new bookie, and the same one again
		b := open(t, o)
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, ErrDirInUse)
		require.NoError(t, b.Close())
	}
	refuse := func(o Options, part string) {
		t.Helper()
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, ErrIdentity)
		require.ErrorContains(t, err, part)
	}
	other := o
	other.Identity = &Identity{ID: "b1:1", Cluster: cluster("/other")}
	refuse(other, "another cluster")
	other.Identity = &Identity{ID: "b2:1", Cluster: o.Identity.Cluster}
	refuse(other, "another bookie")
	wiped := o
	wiped.FS = vfs.NewMem()
	refuse(wiped, "/j, /l")
	require.NoError(t, fs.RemoveAll("/l"))
	refuse(o, "/l")
}

func isEntryLog(name string) bool {
	return strings.HasSuffix(name, ".log") && !strings.Contains(name, "/index/")
}
