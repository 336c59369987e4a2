package bookie

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/memstore"
)

// someLedgers is metadata that has every ledger but those removed.
type someLedgers struct {
	mu      sync.Mutex
	removed map[bk.LedgerID]bool
	hidden  map[bk.LedgerID]bool // not listed, though there
	listErr error                // ends each listing, after all
	lookErr error
}

func (m *someLedgers) Ledgers(context.Context) iter.Seq2[bk.LedgerID, error] {
	return func(yield func(bk.LedgerID, error) bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for l := range bk.LedgerID(1000) {
			if !m.removed[l] && !m.hidden[l] && !yield(l, nil) {
				return
			}
		}
		if m.listErr != nil {
			yield(0, m.listErr)
		}
	}
}

func (m *someLedgers) Exists(_ context.Context, l bk.LedgerID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.removed[l], m.lookErr
}

func (m *someLedgers) remove(ledgers ...bk.LedgerID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.removed == nil {
		m.removed = map[bk.LedgerID]bool{}
	}
	for _, l := range ledgers {
		m.removed[l] = true
	}
}

func collectOptions(fs vfs.FS, m *someLedgers) Options {
	o := smallOptions(fs)
	o.Collect = CollectOptions{Ledgers: m, BytesPerSec: 1 << 40}
	return o
}

// fillLogs writes ledgers 1 to n in turn, entries of 1 KiB, over several entry
// logs.
func fillLogs(t *testing.T, b *Bookie, n bk.LedgerID, entries bk.EntryID) {
	t.Helper()
	for e := range entries {
		for l := range n {
			require.Equal(t, bk.StatusOK, add(b, 0, body(l+1, e, strings.Repeat("x", 1000)))[0])
		}
	}
	require.NoError(t, b.Flush())
	require.NoError(t, b.Flush())
}

func statusOfRead(b *Bookie, l bk.LedgerID, e bk.EntryID) bk.Status {
	_, s := b.Read(l, e, nil)
	return s
}

func collect(t *testing.T, b *Bookie, major bool) CollectInfo {
	t.Helper()
	info, err := b.Collect(t.Context(), major)
	require.NoError(t, err)
	return info
}

// TestCollectFreesWhatWasDeleted deletes half of the ledgers, then all but one:
// their space comes back, the rest is read as before, also after a restart.
func TestCollectFreesWhatWasDeleted(t *testing.T) {
	mem, m := vfs.NewMem(), &someLedgers{}
	b := open(t, collectOptions(mem, m))
	fillLogs(t, b, 10, 100)
	logs, err := b.shards[0].logs.Logs()
	require.NoError(t, err)
	require.Greater(t, len(logs), 4)
	require.Zero(t, collect(t, b, true).Deleted)
	check := func(b *Bookie, live ...bk.LedgerID) {
		t.Helper()
		for l := bk.LedgerID(1); l <= 10; l++ {
			want := bk.StatusNoLedger
			for _, x := range live {
				if x == l {
					want = bk.StatusOK
				}
			}
			for e := range bk.EntryID(100) {
				require.Equal(t, want, statusOfRead(b, l, e), "ledger %d entry %d", l, e)
			}
		}
	}
	m.remove(2, 4, 6, 8, 10)
	info := collect(t, b, true)
	require.Equal(t, 5, info.Deleted)
	require.Equal(t, 10, info.Ledgers)
	require.Positive(t, info.Compacted)
	require.Positive(t, info.Freed)
	check(b, 1, 3, 5, 7, 9)
	m.remove(1, 3, 5, 7)
	info = collect(t, b, true)
	require.Equal(t, 4, info.Deleted)
	check(b, 9)
	again := collect(t, b, true)
	require.Zero(t, again.Deleted+again.Logs+again.Waiting, "nothing is left to do")
	require.NoError(t, b.Close())
	b = open(t, collectOptions(mem, m))
	check(b, 9)
	collect(t, b, true) // the log that was being written is closed by now
	var size int64
	logs, err = b.shards[0].logs.Logs()
	require.NoError(t, err)
	for _, l := range logs {
		n, err := b.shards[0].logs.Size(l)
		require.NoError(t, err)
		size += n
	}
	require.Less(t, size, int64(300<<10), "100 entries of 1 KiB are live")
	check(b, 9)
	require.NoError(t, b.Close())
}

// TestCollectTrustsNoFailedListing: a listing that ends with an error, a ledger
// that it left out, and a look-up that fails delete nothing.
func TestCollectTrustsNoFailedListing(t *testing.T) {
	boom := errors.New("metadata is away")
	for name, m := range map[string]*someLedgers{
		"the listing fails":      {removed: map[bk.LedgerID]bool{1: true}, listErr: boom},
		"the listing is partial": {hidden: map[bk.LedgerID]bool{1: true, 2: true}},
		"the look-up fails":      {removed: map[bk.LedgerID]bool{1: true}, lookErr: boom},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, collectOptions(vfs.NewMem(), m))
			fillLogs(t, b, 3, 3)
			info, err := b.Collect(t.Context(), true)
			if m.listErr != nil || m.lookErr != nil {
				require.ErrorIs(t, err, boom)
			} else {
				require.NoError(t, err)
			}
			require.Zero(t, info.Deleted)
			for l := bk.LedgerID(1); l <= 3; l++ {
				require.Equal(t, bk.StatusOK, statusOfRead(b, l, 2))
			}
			require.NoError(t, b.Close())
		})
	}
}

// TestCollectLeavesWhatTheJournalStillNeeds: a ledger whose records a replay
// would meet without its key waits for the next pass.
func TestCollectLeavesWhatTheJournalStillNeeds(t *testing.T) {
	mem, m := vfs.NewCrashableMem(), &someLedgers{}
	b := open(t, collectOptions(mem, m))
	fillLogs(t, b, 2, 5)
	require.Equal(t, bk.StatusOK, add(b, 0, body(1, 5, "new"), body(2, 5, "new"))[0])
	m.remove(1)
	info := collect(t, b, false)
	require.Equal(t, 1, info.Waiting)
	require.Zero(t, info.Deleted)
	c := open(t, collectOptions(mem.CrashClone(vfs.CrashCloneCfg{}), m))
	require.NoError(t, c.Close())
	require.Equal(t, 1, collect(t, b, false).Deleted, "the pass before has flushed it")
	require.Equal(t, bk.StatusNoLedger, statusOfRead(b, 1, 5))

	// A writer that does not know goes on: that is a new ledger, which a crash
	// may not turn into one that cannot be replayed.
	require.Equal(t, bk.StatusOK, add(b, 0, body(1, 6, "zombie"))[0])
	c = open(t, collectOptions(mem.CrashClone(vfs.CrashCloneCfg{}), m))
	require.Equal(t, bk.StatusOK, statusOfRead(c, 1, 6))
	require.Equal(t, bk.StatusNoEntry, statusOfRead(c, 1, 5))
	require.NoError(t, c.Flush())
	require.Equal(t, 1, collect(t, c, false).Deleted)
	require.Equal(t, bk.StatusNoLedger, statusOfRead(c, 1, 6))
	require.NoError(t, c.Close())
	require.NoError(t, b.Close())
}

// TestReadsGoOnWhileLogsAreCompacted reads, adds to and flushes live ledgers
// while others are deleted and all logs compacted.
func TestReadsGoOnWhileLogsAreCompacted(t *testing.T) {
	m := &someLedgers{}
	b := open(t, collectOptions(vfs.NewMem(), m))
	fillLogs(t, b, 20, 40)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for k := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(k), 1))
			for {
				select {
				case <-stop:
					return
				default:
				}
				l, e := bk.LedgerID(1+2*rng.IntN(10)), bk.EntryID(rng.IntN(40))
				if s := statusOfRead(b, l, e); s != bk.StatusOK {
					t.Errorf("entry %d of ledger %d: %v", e, l, s)
					return
				}
			}
		})
	}
	next := bk.EntryID(40)
	for l := bk.LedgerID(2); l <= 20; l += 2 {
		m.remove(l)
		collect(t, b, true)
		for range 20 {
			require.Equal(t, bk.StatusOK, add(b, 0, body(1, next, strings.Repeat("y", 1000)))[0])
			next++
		}
		require.NoError(t, b.Flush())
	}
	close(stop)
	wg.Wait()
	for e := range next {
		require.Equal(t, bk.StatusOK, statusOfRead(b, 1, e))
	}
	require.NoError(t, b.Close())
}

// TestCompactionKeepsTheNewestCopy moves extents that overlap: the copy that was
// written last still wins.
func TestCompactionKeepsTheNewestCopy(t *testing.T) {
	mem, m := vfs.NewMem(), &someLedgers{}
	b := open(t, collectOptions(mem, m))
	want := map[bk.EntryID]string{}
	rng := rand.New(rand.NewPCG(1, 7))
	for round := range 12 {
		for range 25 {
			e := bk.EntryID(rng.IntN(60))
			want[e] = strings.Repeat(string(rune('a'+round)), 700)
			require.Equal(t, bk.StatusOK, add(b, 0, body(1, e, want[e]), body(bk.LedgerID(2+round), e, want[e]))[0])
		}
		require.NoError(t, b.Flush())
		if round%3 == 2 {
			m.remove(bk.LedgerID(round), bk.LedgerID(round+1))
			collect(t, b, true)
		}
	}
	for l := range bk.LedgerID(14) {
		if l != 1 {
			m.remove(l)
		}
	}
	collect(t, b, true)
	collect(t, b, true)
	for e, text := range want {
		got, s := b.Read(1, e, nil)
		require.Equal(t, bk.StatusOK, s)
		require.Equal(t, body(1, e, text), got, "entry %d", e)
	}
	require.NoError(t, b.Close())
}

// TestCollectEndsWithTheBookie: a pass that is throttled does not hold up Close.
func TestCollectEndsWithTheBookie(t *testing.T) {
	m := &someLedgers{}
	o := collectOptions(vfs.NewMem(), m)
	o.Collect.BytesPerSec = 1
	moved := make(chan error, 1)
	o.Events.Collected = func(_ CollectInfo, err error) { moved <- err }
	b := open(t, o)
	fillLogs(t, b, 2, 200)
	m.remove(1)
	failed := make(chan error)
	go func() {
		_, err := b.Collect(context.Background(), true)
		failed <- err
	}()
	require.Eventually(t, func() bool { return statusOfRead(b, 1, 0) == bk.StatusNoLedger }, 10*time.Second, time.Millisecond)
	require.NoError(t, b.Close())
	require.ErrorIs(t, <-failed, context.Canceled)
	require.Error(t, <-moved)
	_, err := b.Collect(t.Context(), false)
	require.ErrorIs(t, err, errClosed)
}

// TestClusterLedgers lists a cluster's ledgers; metadata that were made anew
// list none, with an error.
func TestClusterLedgers(t *testing.T) {
	ctx, store := t.Context(), memstore.New()
	defer store.Close()
	start := func() *layout.Cluster {
		_, err := layout.Init(ctx, store, "/bk")
		require.NoError(t, err)
		c, err := layout.Open(ctx, store, "/bk")
		require.NoError(t, err)
		return c
	}
	c := start()
	m := ClusterLedgers(c)
	ids := func() (ids []bk.LedgerID, err error) {
		for l, err := range m.Ledgers(ctx) {
			if err != nil {
				return nil, err
			}
			ids = append(ids, l)
		}
		return ids, nil
	}
	for l := range bk.LedgerID(3) {
		_, err := c.CreateLedger(ctx, l, &layout.LedgerMetadata{Quorum: bk.Quorum{Ensemble: 1, Write: 1, Ack: 1},
			State: layout.StateOpen, LastEntry: bk.InvalidEntryID, HasPassword: true, Digest: bk.DigestCRC32C,
			Segments: []layout.Segment{{Ensemble: []bk.BookieID{"127.0.0.1:1"}}}})
		require.NoError(t, err)
	}
	require.NoError(t, c.DeleteLedger(ctx, 1))
	got, err := ids()
	require.NoError(t, err)
	require.Equal(t, []bk.LedgerID{0, 2}, got)
	for l, want := range []bool{true, false, true, false} {
		ok, err := m.Exists(ctx, bk.LedgerID(l))
		require.NoError(t, err)
		require.Equal(t, want, ok)
	}
	removeTree(t, store, "/bk")
	_, err = ids()
	require.Error(t, err)
	start()
	_, err = ids()
	require.ErrorIs(t, err, ErrIdentity)
}

// removeTree deletes a node and all below it.
func removeTree(t *testing.T, store metadata.Store, key string) {
	t.Helper()
	for n, err := range metadata.Children(t.Context(), store, key, metadata.ListOptions{KeysOnly: true}) {
		require.NoError(t, err)
		removeTree(t, store, n.Key)
	}
	if _, err := store.Txn(t.Context(), metadata.Delete(key, metadata.AnyVersion)); err != nil {
		require.ErrorIs(t, err, metadata.ErrNotFound)
	}
}
