package namespace

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/writers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	nsURI      = "mem://test/ns"
	clusterURI = "mem://test/bk"
)

// system is real bookies in memory and a namespace on them.
type system struct {
	*bookietest.Cluster
	t  *testing.T
	ns *Namespace
}

func startSystem(t *testing.T, bookies int) *system {
	t.Helper()
	c := bookietest.Start(t, bookies, bookietest.Options{Bookie: bookietest.Small()})
	s := &system{Cluster: c, t: t}
	require.NoError(t, CreateNamespace(bg(t), nsURI, clusterURI, WithStore(c.Store)))
	s.ns = s.open()
	return s
}

// open gives another client of the same namespace.
func (s *system) open(opts ...Option) *Namespace {
	s.t.Helper()
	opts = append([]Option{WithStore(s.Store), WithDialer(s.Dial),
		WithLedgerOptions(ledger.Options{AddTimeout: 2 * time.Second, ReadTimeout: 2 * time.Second})}, opts...)
	n, err := Open(bg(s.t), nsURI, opts...)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, n.Close()) })
	return n
}

// create makes a stream and gives its handle.
func (s *system) create(name stream.Name, cfg stream.Config) *Stream {
	s.t.Helper()
	require.NoError(s.t, s.ns.Create(bg(s.t), name, cfg))
	return s.stream(s.ns, name)
}

func (s *system) stream(n *Namespace, name stream.Name) *Stream {
	s.t.Helper()
	st, err := n.Stream(bg(s.t), name)
	require.NoError(s.t, err)
	return st
}

func (s *system) writer(st *Stream, opts ...writers.Option) *writers.Writer {
	s.t.Helper()
	w, err := st.Writer(bg(s.t), opts...)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = w.Abort() })
	return w
}

// bg is a context that ends before the test does.
func bg(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func rec(tx stream.TxID, payload string) stream.Record {
	return stream.Record{TxID: tx, Payload: []byte(payload)}
}

// appendN appends n records with txids and payloads first, first+1, …
func appendN(t testing.TB, w *writers.Writer, first, n int) []stream.DLSN {
	t.Helper()
	var ds []stream.DLSN
	for i := first; i < first+n; i++ {
		d, err := w.Append(bg(t), rec(stream.TxID(i), fmt.Sprint(i)))
		require.NoError(t, err)
		ds = append(ds, d)
	}
	return ds
}

// payloads replays a stream and gives the payloads.
func payloads(t testing.TB, st *Stream, from, to stream.Position) []string {
	t.Helper()
	out := []string{}
	for r, err := range st.Replay(bg(t), from, to) {
		require.NoError(t, err)
		out = append(out, string(r.Payload))
	}
	return out
}

func numbers(first, n int) []string {
	out := []string{}
	for i := first; i < first+n; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

// bgNow is a context for producers that the test does not wait for.
func bgNow() context.Context { return context.Background() }
