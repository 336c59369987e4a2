package bookietest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/memstore"
)

// scope is the key of the cluster in its metadata store.
const scope = "/bk"

// Options sets up a cluster.
type Options struct {
	Store  metadata.Store // nil: a new memstore
	Bookie bookie.Options // FS, directories and identity are filled in
	Server server.Options
	Seed   uint64      // of what a crash keeps of unsynced bytes
	Kind   layout.Kind // of the cluster's tree; default that of etcd
}

// Cluster is a number of bookies, their network and their metadata. Its
// methods may be called by any number of goroutines, but not two that act on
// one bookie.
type Cluster struct {
	Store   metadata.Store
	Cluster *layout.Cluster
	Net     *Network

	t       testing.TB
	o       Options
	mu      sync.Mutex // guards rng
	rng     *rand.Rand
	bookies []*Bookie
}

// Bookie is one of a Cluster.
type Bookie struct {
	ID      bk.BookieID
	c       *Cluster
	fs      *vfs.MemFS
	running bool
	b       *bookie.Bookie
	reg     *bookie.Registration
	srv     *server.Server
	served  chan error
}

// Start runs n bookies until the test ends. Small options make a test fast:
// see Small.
func Start(t testing.TB, n int, o Options) *Cluster {
	t.Helper()
	if o.Store == nil {
		o.Store = memstore.New()
	}
	ctx := context.Background()
	_, err := layout.InitKind(ctx, o.Store, scope, o.Kind)
	require.NoError(t, err)
	cl, err := layout.Open(ctx, o.Store, scope)
	require.NoError(t, err)
	c := &Cluster{Store: o.Store, Cluster: cl, Net: NewNetwork(), t: t, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	t.Cleanup(c.Close)
	for range n {
		c.Add()
	}
	return c
}

// Small is options of bookies with small files and caches.
func Small() bookie.Options {
	return bookie.Options{
		JournalFileBytes: 64 << 10, WriteCacheBytes: 256 << 10, EntryLogBytes: 256 << 10, IndexCacheBytes: 1 << 20,
	}
}

// Add starts one more bookie and gives its index.
func (c *Cluster) Add() int {
	c.t.Helper()
	i := len(c.bookies)
	id := bk.BookieID(fmt.Sprintf("bookie-%d:3181", i))
	c.bookies = append(c.bookies, &Bookie{ID: id, c: c, fs: vfs.NewCrashableMem()})
	c.Restart(i)
	return i
}

// Len is the number of bookies, running or not.
func (c *Cluster) Len() int { return len(c.bookies) }

// ID is the id of a bookie, and its address.
func (c *Cluster) ID(i int) bk.BookieID { return c.bookies[i].ID }

// Bookie is the store of a bookie, good until it is stopped or crashed.
func (c *Cluster) Bookie(i int) *bookie.Bookie { return c.bookies[i].b }

// Server is the server of a bookie, good until it is stopped or crashed.
func (c *Cluster) Server(i int) *server.Server { return c.bookies[i].srv }

// Dial connects to a bookie by its address.
func (c *Cluster) Dial(ctx context.Context, address string) (net.Conn, error) {
	return c.Net.Dial(ctx, address)
}

// Restart starts a bookie that was stopped or crashed, on what its disk holds.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	require.NoError(c.t, c.bookies[i].start(context.Background()))
}

// Stop ends a bookie in order: it unregisters, drains and closes.
func (c *Cluster) Stop(i int) {
	c.t.Helper()
	require.NoError(c.t, c.bookies[i].stop(context.Background()))
}

// Crash ends a bookie as a power cut does: connections break, and of what was
// written but not synced the disk keeps a part that the seed decides. It leaves
// the list of bookies at once, as if its session had timed out.
func (c *Cluster) Crash(i int) {
	c.t.Helper()
	c.mu.Lock()
	seed := c.rng.Uint64()
	c.mu.Unlock()
	require.NoError(c.t, c.bookies[i].crash(seed))
}

// Stall freezes a bookie as SIGSTOP does: connections are accepted, nothing is
// answered. false lets it go on.
func (c *Cluster) Stall(i int, on bool) { c.Net.Stall(string(c.ID(i)), on) }

// Partition cuts a bookie off its clients, not off metadata, until it is
// called with false.
func (c *Cluster) Partition(i int, on bool) { c.Net.Partition(string(c.ID(i)), on) }

// Cut breaks the open connections of a bookie.
func (c *Cluster) Cut(i int) { c.Net.Cut(string(c.ID(i))) }

// Close ends what runs. It may be called twice.
func (c *Cluster) Close() {
	for i, b := range c.bookies {
		c.Partition(i, false)
		if b.running {
			require.NoError(c.t, b.stop(context.Background()))
		}
	}
	require.NoError(c.t, c.Store.Close())
}

func (b *Bookie) start(ctx context.Context) error {
	o := b.c.o.Bookie
	o.FS, o.JournalDirs, o.LedgerDirs = b.fs, []string{"/journal"}, []string{"/ledgers"}
	o.Identity = &bookie.Identity{ID: b.ID, Cluster: b.c.Cluster}
	var err error
	if b.b, err = bookie.Open(ctx, o); err != nil {
		return err
	}
	if b.srv, err = server.New(b.b, b.c.o.Server); err != nil {
		return err
	}
	l, err := b.c.Net.Listen(string(b.ID))
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func(s *server.Server) { served <- s.Serve(l) }(b.srv)
	b.served, b.running = served, true
	b.reg, err = b.b.Register(ctx, bookie.RegisterOptions{Cluster: b.c.Cluster, ID: b.ID})
	return err
}

func (b *Bookie) stop(ctx context.Context) error {
	b.running = false
	if err := b.reg.Close(ctx); err != nil {
		return err
	}
	if err := b.srv.Drain(ctx); err != nil {
		return err
	}
	<-b.served
	return b.b.Close()
}

// crash copies the disk as a power cut leaves it, and only then ends what
// still runs on the old one.
func (b *Bookie) crash(seed uint64) error {
	b.running = false
	rng := rand.New(rand.NewPCG(seed, 1))
	disk := b.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	b.c.Net.Cut(string(b.ID))
	if err := b.srv.Close(); err != nil {
		return err
	}
	<-b.served
	if err := b.reg.Close(context.Background()); err != nil {
		return err
	}
	// What the old disk still gets, and whether that goes well, is of no
	// concern to the new one.
	_ = b.b.Close()
	b.fs = disk
	return nil
}
