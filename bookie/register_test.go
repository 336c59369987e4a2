package bookie

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/memstore"
)

// testTTL is the default of RegisterOptions.
const testTTL = 10 * time.Second

// sessions is a store that keeps the session that was opened last.
type sessions struct {
	metadata.Store
	mu   sync.Mutex // guards last
	last metadata.Session
}

func (s *sessions) Session(ctx context.Context, o metadata.SessionOptions) (metadata.Session, error) {
	ses, err := s.Store.Session(ctx, o)
	if err == nil {
		s.mu.Lock()
		s.last = ses
		s.mu.Unlock()
	}
	return ses, err
}

func (s *sessions) current() metadata.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// list is what the cluster lists once everything that can happen at this moment
// has happened.
func (l *listed) list(t *testing.T) layout.Bookies {
	t.Helper()
	synctest.Wait()
	b, err := l.cluster.Bookies(t.Context())
	require.NoError(t, err)
	return b
}

var (
	asWritable = layout.Bookies{Writable: []bk.BookieID{"b1:1"}}
	asReadOnly = layout.Bookies{ReadOnly: []bk.BookieID{"b1:1"}}
)

func (l *listed) require(t *testing.T, want layout.Bookies) {
	t.Helper()
	got := l.list(t)
	require.ElementsMatch(t, want.Writable, got.Writable)
	require.ElementsMatch(t, want.ReadOnly, got.ReadOnly)
}

// eachTree runs a test in a synctest bubble, once with a cluster in etcd's tree
// and once with one in ZooKeeper's.
func eachTree(t *testing.T, test func(t *testing.T, tree *memstore.Tree)) {
	for kind, newTree := range map[layout.Kind]func() *memstore.Tree{
		layout.Etcd: memstore.NewTree, layout.Hierarchical: memstore.NewStrictTree,
	} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := newTree()
				s := tree.Open()
				_, err := layout.InitKind(t.Context(), s, "/bk", kind)
				require.NoError(t, err)
				require.NoError(t, s.Close())
				test(t, tree)
			})
		})
	}
}

// TestLostSessionIsReplaced ends the session of a bookie behind its back: it is
// listed again at once, as what it is by then.
func TestLostSessionIsReplaced(t *testing.T) {
	eachTree(t, func(t *testing.T, tree *memstore.Tree) {
		store := &sessions{Store: tree.Open()}
		b := open(t, smallOptions(vfs.NewMem()))
		l := registerIn(t, b, store)
		l.require(t, asWritable)
		for range 3 {
			old := store.current().ID()
			tree.Expire(old)
			l.require(t, asWritable)
			require.NotEqual(t, old, store.current().ID())
		}
		b.SetReadOnly(true)
		tree.Expire(store.current().ID())
		l.require(t, asReadOnly)
		b.SetReadOnly(false)
		l.require(t, asWritable)
		require.NoError(t, l.reg.Close(t.Context()))
		l.require(t, layout.Bookies{})
		require.NoError(t, b.Close())
		require.NoError(t, store.Close())
	})
}

// TestOwnOldNodeIsWaitedOut: a session that only its holder lost keeps its node
// for a TTL; then the bookie is listed by its new one.
func TestOwnOldNodeIsWaitedOut(t *testing.T) {
	eachTree(t, func(t *testing.T, tree *memstore.Tree) {
		store := &sessions{Store: tree.Open()}
		b := open(t, smallOptions(vfs.NewMem()))
		l := registerIn(t, b, store)
		store.current().Abandon()
		b.SetReadOnly(true) // the old node says writable until it goes
		<-time.After(testTTL - time.Millisecond)
		l.require(t, asWritable)
		<-time.After(time.Second)
		l.require(t, asReadOnly)
		<-time.After(3 * testTTL)
		l.require(t, asReadOnly)
		require.NoError(t, l.reg.Close(t.Context()))
		require.NoError(t, b.Close())
		require.NoError(t, store.Close())
	})
}

// TestR18RestartAfterAKillWaitsOutItsOldLease: the node of the killed process is
// there for a TTL; the new one is listed right after, and not before.
func TestR18RestartAfterAKillWaitsOutItsOldLease(t *testing.T) {
	eachTree(t, func(t *testing.T, tree *memstore.Tree) {
		killed, store := tree.Open(), tree.Open()
		b := open(t, smallOptions(vfs.NewMem()))
		old := registerIn(t, b, killed)
		killed.Crash()
		start := time.Now()
		l := registerIn(t, b, store)
		require.GreaterOrEqual(t, time.Since(start), testTTL)
		require.Less(t, time.Since(start), testTTL+time.Second)
		l.require(t, asWritable)
		require.NoError(t, old.reg.Close(t.Context()))
		<-time.After(3 * testTTL)
		l.require(t, asWritable)
		require.NoError(t, l.reg.Close(t.Context()))
		require.NoError(t, b.Close())
		require.NoError(t, store.Close())
	})
}

// TestR18TwoBookiesWithOneID: the second one is refused, in bounded time, and the
// first one stays listed.
func TestR18TwoBookiesWithOneID(t *testing.T) {
	eachTree(t, func(t *testing.T, tree *memstore.Tree) {
		first, store := tree.Open(), tree.Open()
		b := open(t, smallOptions(vfs.NewMem()))
		l := registerIn(t, b, first)
		start := time.Now()
		_, err := b.Register(t.Context(), RegisterOptions{Cluster: testCluster(t, store), ID: "b1:1"})
		require.ErrorIs(t, err, metadata.ErrExists)
		require.Less(t, time.Since(start), 2*testTTL+15*time.Second)
		l.require(t, asWritable)
		require.NoError(t, l.reg.Close(t.Context()))
		require.NoError(t, b.Close())
		require.NoError(t, first.Close())
		require.NoError(t, store.Close())
	})
}

// diskFS tells of a disk of which so many thousandths are free.
type diskFS struct {
	vfs.FS
	free atomic.Uint64
}

func (d *diskFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	const thousandth = 1 << 30
	free := d.free.Load() * thousandth
	return vfs.DiskUsage{TotalBytes: 1000 * thousandth, AvailBytes: free, UsedBytes: 1000*thousandth - free}, nil
}

// TestDiskSpaceThresholds: read-only below 5 % of free space, writable again
// above 8 %, nothing changes in between.
func TestDiskSpaceThresholds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &diskFS{FS: vfs.NewMem()}
		fs.free.Store(500)
		b := open(t, smallOptions(fs))
		l := register(t, b)
		require.Equal(t, bk.StatusOK, add(b, 0, body(1, 0, "x"))[0])
		for _, step := range []struct {
			free uint64
			want State
		}{
			{60, Writable}, {50, Writable}, {49, ReadOnly}, {51, ReadOnly}, {79, ReadOnly}, {80, ReadOnly},
			{0, ReadOnly}, {81, Writable}, {79, Writable}, {51, Writable}, {10, ReadOnly}, {900, Writable},
		} {
			fs.free.Store(step.free)
			<-time.After(tickInterval + time.Millisecond)
			require.Equal(t, step.want, b.State(), "%d/1000 free", step.free)
			want, status := asWritable, bk.StatusOK
			if step.want == ReadOnly {
				want, status = asReadOnly, bk.StatusReadOnly
			}
			l.require(t, want)
			require.Equal(t, status, add(b, 0, body(1, bk.EntryID(step.free), "x"))[0])
			require.Equal(t, bk.StatusOK, add(b, AddHighPriority, body(2, bk.EntryID(step.free), "x"))[0])
			require.Equal(t, bk.StatusOK, b.Fence(t.Context(), bk.LedgerID(1000+step.free), testKey))
			_, status = b.Read(1, 0, nil)
			require.Equal(t, bk.StatusOK, status)
		}
		require.NoError(t, l.reg.Close(t.Context()))
		require.NoError(t, b.Close())
	})
}

// TestFailedJournalIsListedReadOnly: within 5 s of a failed sync, and for good.
func TestFailedJournalIsListedReadOnly(t *testing.T) {
	for _, op := range []string{"write at", "sync data"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				fs := newFaults(mem, syscall.EIO, func(o, name string) bool { return o == op && hasSuffix(name, ".journal") })
				b := open(t, smallOptions(fs))
				l := register(t, b)
				require.Equal(t, bk.StatusOK, add(b, 0, body(1, 0, "x"))[0])
				synctest.Wait() // the next journal file is ready
				fs.armed.Store(true)
				require.Equal(t, bk.StatusIO, add(b, 0, body(1, 1, "x"))[0])
				l.within(t, false)
				require.Equal(t, Failed, b.State())
				fs.armed.Store(false)
				<-time.After(time.Hour)
				l.require(t, asReadOnly)
				require.Equal(t, bk.StatusReadOnly, add(b, 0, body(1, 2, "x"))[0])
				require.Equal(t, bk.StatusIO, add(b, AddHighPriority, body(1, 2, "x"))[0])
				_, status := b.Read(1, 0, nil)
				require.Equal(t, bk.StatusOK, status)
				require.NoError(t, l.reg.Close(t.Context()))
				require.NoError(t, b.Close())

				c := open(t, smallOptions(mem))
				_, status = c.Read(1, 0, nil)
				require.Equal(t, bk.StatusOK, status)
				require.Equal(t, bk.StatusOK, add(c, 0, body(1, 2, "x"))[0])
				require.NoError(t, c.Close())
			})
		})
	}
}
