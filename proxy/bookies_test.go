package proxy

import (
	"context"
	"fmt"
	"iter"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/memstore"
	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

const bookiesURI = "mem://test/ns"

// system is real bookies and real proxies on them, each with its own client of
// the metadata store.
type system struct {
	*bookietest.Cluster
	t  testing.TB
	ns *namespace.Namespace // of the test itself
}

func startSystem(t testing.TB) *system {
	t.Helper()
	c := bookietest.Start(t, 3, bookietest.Options{Bookie: bookietest.Small()})
	s := &system{Cluster: c, t: t}
	require.NoError(t, namespace.CreateNamespace(context.Background(), bookiesURI, "mem://test/bk", namespace.WithStore(c.Store)))
	s.ns = s.open(c.Store)
	return s
}

func (s *system) open(st metadata.Store) *namespace.Namespace {
	s.t.Helper()
	n, err := namespace.Open(context.Background(), bookiesURI, namespace.WithStore(st), namespace.WithDialer(s.Dial),
		namespace.WithLedgerOptions(ledger.Options{AddTimeout: 2 * time.Second, ReadTimeout: 2 * time.Second}))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, n.Close()) })
	return n
}

// store is a client of the metadata store of its own.
func (s *system) store() metadata.Store {
	st := s.Store.(*memstore.Store).Tree().Open()
	s.t.Cleanup(func() { require.NoError(s.t, st.Close()) })
	return st
}

// real is one running proxy of a system.
type real struct {
	*Proxy
	addr string
	done chan error
	over bool
}

func (s *system) proxy(addr string) *real {
	s.t.Helper()
	p, err := New(s.open(s.store()), Options{Shard: ShardAuto, LeaseTTL: time.Second, RequestTimeout: 2 * time.Second})
	require.NoError(s.t, err)
	ln, err := net.Listen("tcp", addr)
	require.NoError(s.t, err)
	r := &real{Proxy: p, addr: ln.Addr().String(), done: make(chan error, 1)}
	go func() { r.done <- p.Serve(ln) }()
	select {
	case <-p.Ready():
	case err := <-r.done:
		require.NoError(s.t, err)
	}
	s.t.Cleanup(func() { r.end(r.Close) })
	return r
}

func (r *real) end(how func() error) {
	if !r.over {
		r.over = true
		if err := how(); err != nil {
			panic(err)
		}
		if err := <-r.done; err != nil {
			panic(err)
		}
	}
}

func (s *system) client(opts ...func(*client.Options)) *client.Client {
	s.t.Helper()
	o := client.Options{Resolve: func(ctx context.Context, name stream.Name, after, through stream.DLSN) iter.Seq2[stream.Record, error] {
		return func(yield func(stream.Record, error) bool) {
			st, err := s.ns.Stream(ctx, name)
			if err != nil {
				yield(stream.Record{}, err)
				return
			}
			for r, err := range st.Tail(ctx, stream.After(after)) {
				if !yield(r, err) || err != nil || !r.DLSN.Less(through) {
					return
				}
			}
		}
	}}
	for _, f := range opts {
		f(&o)
	}
	st := s.store()
	cl, err := client.Open(context.Background(), st, s.ns.Root(), o)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, cl.Close()) })
	return cl
}

// TestProducerOverRealBookies: kills of the owner and of a bookie, a drain, and
// a release, while one producer goes on: what it got acknowledged stands in the
// stream once, in order, at the DLSNs that it was told.
func TestProducerOverRealBookies(t *testing.T) {
	s := startSystem(t)
	require.NoError(t, s.ns.Create(context.Background(), "s", stream.Config{Quorum: stream.Quorum{Ensemble: 3, Write: 3, Ack: 2}}))
	a, b := s.proxy("127.0.0.1:0"), s.proxy("127.0.0.1:0")
	cl := s.client(func(o *client.Options) { o.BatchBytes = 8 << 10 })
	w, err := cl.Writer(context.Background(), "s")
	require.NoError(t, err)
	var mu sync.Mutex
	var acked []stream.Record
	sent := 0
	send := func(n int) {
		for range n {
			line := fmt.Sprintf("line %07d", sent)
			sent++
			w.Go(context.Background(), rec(line), func(d stream.DLSN, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("%s: %v", line, err)
					return
				}
				acked = append(acked, stream.Record{DLSN: d, Payload: []byte(line)})
			})
		}
	}
	owner := func() (is, other *real) {
		if cl.Owner("s") == a.addr {
			return a, b
		}
		return b, a
	}
	send(2000)
	require.NoError(t, w.Flush(context.Background()))

	is, _ := owner()
	send(1000)
	is.end(is.Kill) // with records in flight
	began := time.Now()
	send(1000)
	require.NoError(t, w.Flush(context.Background()))
	require.Less(t, time.Since(began), 3*time.Second, "next acknowledgement after the owner's death")
	if is == a {
		a = s.proxy(a.addr)
	} else {
		b = s.proxy(b.addr)
	}

	s.Crash(1)
	send(1000)
	require.NoError(t, w.Flush(context.Background()))
	s.Restart(1)

	send(1000)
	require.NoError(t, cl.Release(context.Background(), "s"))
	send(1000)
	require.NoError(t, w.Flush(context.Background()))

	is, other := owner()
	send(1000)
	is.end(is.Close)
	send(1000)
	require.NoError(t, w.Close())
	require.Equal(t, other.addr, cl.Owner("s"))

	other.end(other.Close) // completes the segment: all is visible
	require.Len(t, acked, sent)
	st, err := s.ns.Stream(context.Background(), "s")
	require.NoError(t, err)
	i := 0
	for r, err := range st.Replay(context.Background(), stream.First(), stream.Last()) {
		require.NoError(t, err)
		require.Less(t, i, len(acked))
		require.Equal(t, string(acked[i].Payload), string(r.Payload))
		require.Equal(t, acked[i].DLSN, r.DLSN)
		i++
	}
	require.Equal(t, sent, i)
}

// TestManyProducersOneStream: several producers of one stream, through both
// proxies; the records of each are in its order.
func TestManyProducersOneStream(t *testing.T) {
	s := startSystem(t)
	require.NoError(t, s.ns.Create(context.Background(), "s", stream.Config{}))
	a, b := s.proxy("127.0.0.1:0"), s.proxy("127.0.0.1:0")
	const producers, each = 4, 500
	var wg sync.WaitGroup
	for p := range producers {
		w, err := s.client().Writer(context.Background(), "s")
		require.NoError(t, err)
		wg.Go(func() {
			for i := range each {
				w.Go(context.Background(), rec(fmt.Sprintf("%d %05d", p, i)), func(_ stream.DLSN, err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	a.end(a.Close)
	b.end(b.Close)
	st, err := s.ns.Stream(context.Background(), "s")
	require.NoError(t, err)
	next := make([]int, producers)
	var last stream.Record
	for r, err := range st.Replay(context.Background(), stream.First(), stream.Last()) {
		require.NoError(t, err)
		var p, i int
		_, err = fmt.Sscanf(string(r.Payload), "%d %d", &p, &i)
		require.NoError(t, err)
		require.Equal(t, next[p], i, "producer %d", p)
		next[p]++
		require.True(t, last.DLSN.Less(r.DLSN))
		require.LessOrEqual(t, last.TxID, r.TxID)
		last = stream.Record{DLSN: r.DLSN, TxID: r.TxID}
	}
	require.Equal(t, []int{each, each, each, each}, next)
}

// TestCallsEndThoughBookiesDoNotAnswerR34: an append that the writer has is
// answered by the proxy's deadline while too few bookies answer; after healing
// the producer's records are there once and in order.
func TestCallsEndThoughBookiesDoNotAnswerR34(t *testing.T) {
	s := startSystem(t)
	require.NoError(t, s.ns.Create(context.Background(), "s", stream.Config{}))
	p := s.proxy("127.0.0.1:0")
	nc, err := net.Dial("tcp", p.addr)
	require.NoError(t, err)
	conn := wire.NewConn(nc, 0)
	require.Equal(t, wire.Success, call(t, conn, write("s", "a")).Header().Code)
	s.Stall(0, true)
	s.Stall(1, true)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second) // its deadline is 2 s
	defer cancel()
	r, err := conn.Call(ctx, write("s", "b"))
	require.NoError(t, err)
	require.NotEqual(t, wire.Success, r.Header().Code)
	require.True(t, wire.MayHaveHappened(r.Header().Code), "%v", wire.ErrorOf(r.Header()))
	s.Stall(0, false)
	s.Stall(1, false)
	require.Eventually(t, func() bool { return call(t, conn, write("s", "c")).Header().Code == wire.Success }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, conn.Close())
	p.end(p.Close)
	st, err := s.ns.Stream(context.Background(), "s")
	require.NoError(t, err)
	var got string
	for r, err := range st.Replay(context.Background(), stream.First(), stream.Last()) {
		require.NoError(t, err)
		got += string(r.Payload)
	}
	require.Contains(t, []string{"abc", "ac"}, got)
}
