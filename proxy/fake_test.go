package proxy

import (
	"context"
	"fmt"
	"iter"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/memstore"
	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logs is a backend in memory with the rules of the real one: opening fences
// the writer before, records in flight at that moment may be in the stream or
// not, and a fenced writer acknowledges nothing.
type logs struct {
	mu      sync.Mutex // guards everything below
	streams map[stream.Name]*memLog
}

type memLog struct {
	segment int64
	writer  *memWriter
	sealed  bool
	first   stream.DLSN
	records []stream.Record
}

func newLogs(names ...stream.Name) *logs {
	l := &logs{streams: map[stream.Name]*memLog{}}
	for _, n := range names {
		l.streams[n] = &memLog{}
	}
	return l
}

func (l *logs) payloads(name stream.Name) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, r := range l.streams[name].records {
		out = append(out, string(r.Payload))
	}
	return out
}

// resolve is what a client reads the stream back with.
func (l *logs) resolve(_ context.Context, name stream.Name, after, through stream.DLSN) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		l.mu.Lock()
		rs := l.streams[name].records
		l.mu.Unlock()
		for _, r := range rs {
			if after.Less(r.DLSN) && !through.Less(r.DLSN) && !yield(r, nil) {
				return
			}
		}
	}
}

// process is one proxy's view of the logs, and what is done to it.
type process struct {
	logs *logs
	gate *gate // closed while the process is stopped

	mu     sync.Mutex // guards the hooks
	before func(payload string) error
	after  func(payload string) bool // false: the answer is lost
	opened func()
	cut    func()
}

func (p *process) hooks() (before func(string) error, after func(string) bool, opened func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before, p.after, p.opened
}

func (p *process) set(f func(*process)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

func (p *process) open(_ context.Context, name stream.Name) (appender, stream.DLSN, error) {
	p.gate.pass()
	p.logs.mu.Lock()
	defer p.logs.mu.Unlock()
	l := p.logs.streams[name]
	if l == nil {
		return nil, stream.DLSN{}, fmt.Errorf("open stream %s: %w", name, stream.ErrNotFound)
	}
	if l.sealed {
		return nil, stream.DLSN{}, fmt.Errorf("open stream %s: %w", name, stream.ErrSealed)
	}
	if _, _, opened := p.hooks(); opened != nil {
		opened()
	}
	l.segment++
	w := &memWriter{p: p, l: l, segment: l.segment, work: make(chan memBatch, 1<<16)}
	w.wg.Go(w.run)
	l.writer = w
	var last stream.DLSN
	if n := len(l.records); n > 0 {
		last = l.records[n-1].DLSN
	}
	return w, last, nil
}

func (p *process) create(_ context.Context, name stream.Name) error {
	p.logs.mu.Lock()
	defer p.logs.mu.Unlock()
	if p.logs.streams[name] == nil {
		p.logs.streams[name] = &memLog{}
	}
	return nil
}

func (p *process) delete(_ context.Context, name stream.Name) error {
	p.logs.mu.Lock()
	defer p.logs.mu.Unlock()
	if p.logs.streams[name] == nil {
		return stream.ErrNotFound
	}
	delete(p.logs.streams, name)
	return nil
}

func (p *process) truncate(_ context.Context, name stream.Name, to stream.DLSN) error {
	p.mu.Lock()
	cut := p.cut
	p.mu.Unlock()
	if cut != nil {
		cut()
	}
	p.logs.mu.Lock()
	defer p.logs.mu.Unlock()
	p.logs.streams[name].first = to
	return nil
}

// memWriter appends on a goroutine of its own, as the real one does.
type memWriter struct {
	p       *process
	l       *memLog
	segment int64
	work    chan memBatch
	wg      sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	entry  int64
	err    error
	closed bool
}

type memBatch struct {
	rs   []stream.Record
	done func(stream.DLSN, error)
}

func (w *memWriter) GoBatch(_ context.Context, rs []stream.Record, done func(stream.DLSN, error)) {
	own := make([]stream.Record, len(rs))
	for i, r := range rs {
		own[i] = r.Clone()
	}
	w.mu.Lock()
	err := w.err
	if err == nil {
		w.work <- memBatch{own, done}
	}
	w.mu.Unlock()
	if err != nil {
		done(stream.InvalidDLSN, err)
	}
}

func (w *memWriter) GoSet(ctx context.Context, _ stream.TxID, set []byte, done func(stream.DLSN, error)) {
	w.GoBatch(ctx, []stream.Record{{Payload: append([]byte("set:"), set...)}}, done)
}

func (w *memWriter) run() {
	for b := range w.work {
		d, err := w.add(b)
		w.p.gate.pass()
		if _, after, _ := w.p.hooks(); err == nil && len(b.rs) > 0 && after != nil && !after(string(b.rs[0].Payload)) {
			err = fmt.Errorf("answer lost: %w", stream.ErrTimeout)
		}
		b.done(d, err)
	}
}

func (w *memWriter) add(b memBatch) (stream.DLSN, error) {
	w.mu.Lock()
	err := w.err
	w.mu.Unlock()
	before, _, _ := w.p.hooks()
	for _, r := range b.rs {
		if before != nil && err == nil {
			err = before(string(r.Payload))
		}
	}
	w.p.gate.pass()
	w.p.logs.mu.Lock()
	defer w.p.logs.mu.Unlock()
	if err == nil && w.l.writer != w {
		err = fmt.Errorf("segment %d: %w", w.segment, stream.ErrFenced)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.err = err
		return stream.InvalidDLSN, err
	}
	first := stream.DLSN{Segment: w.segment, Entry: w.entry}
	if len(b.rs) > 0 {
		w.entry++
	}
	for i, r := range b.rs {
		r.DLSN = first
		r.DLSN.Slot = int64(i)
		w.l.records = append(w.l.records, r)
	}
	return first, nil
}

func (w *memWriter) Flush(context.Context) error {
	ch := make(chan error, 1)
	w.GoBatch(context.Background(), nil, func(_ stream.DLSN, err error) { ch <- err })
	return <-ch
}

func (w *memWriter) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *memWriter) Close() error { return w.end(nil) }

func (w *memWriter) Abort() error { return w.end(fmt.Errorf("aborted: %w", stream.ErrClosed)) }

func (w *memWriter) end(now error) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	if w.err == nil {
		w.err = now
	}
	close(w.work)
	w.mu.Unlock()
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = stream.ErrClosed
		return nil
	}
	return nil
}

// gate stops a process: everything that passes it waits while it is shut.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // nil = open
}

func (g *gate) pass() {
	g.mu.Lock()
	ch := g.open
	g.mu.Unlock()
	if ch != nil {
		<-ch
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
	g.open = nil
}

// gatedStore is a store of a process that may be stopped: its sessions are not
// kept alive meanwhile.
type gatedStore struct {
	metadata.Store
	g        *gate
	mu       sync.Mutex
	sessions []metadata.Session
	down     atomic.Bool // no session can be opened
}

func (s *gatedStore) Get(ctx context.Context, key string) (metadata.Node, error) {
	s.g.pass()
	n, err := s.Store.Get(ctx, key)
	s.g.pass()
	return n, err
}

func (s *gatedStore) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	s.g.pass()
	r, err := s.Store.Txn(ctx, ops...)
	s.g.pass()
	return r, err
}

func (s *gatedStore) Session(ctx context.Context, o metadata.SessionOptions) (metadata.Session, error) {
	s.g.pass()
	if s.down.Load() {
		return nil, metadata.ErrUnavailable
	}
	sess, err := s.Store.Session(ctx, o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, sess)
	return lateSession{sess, make(chan struct{})}, nil
}

// lateSession never learns by itself that it is lost: the worst that a session
// may do.
type lateSession struct {
	metadata.Session
	never chan struct{}
}

func (s lateSession) Done() <-chan struct{} { return s.never }

type gatedListener struct {
	net.Listener
	g *gate
}

func (l gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.g.pass()
	if err != nil {
		return nil, err
	}
	return gatedConn{c, l.g}, nil
}

type gatedConn struct {
	net.Conn
	g *gate
}

func (c gatedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.g.pass()
	return n, err
}

func (c gatedConn) Write(p []byte) (int, error) {
	c.g.pass()
	return c.Conn.Write(p)
}

// node is one running proxy of a test.
type node struct {
	*Proxy
	proc  *process
	store *gatedStore
	addr  string
	done  chan error
	over  bool

	paused atomic.Bool
}

// pause stops the process, and lets its lease run out.
func (n *node) pause() {
	n.proc.gate.shut()
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	for _, s := range n.store.sessions {
		s.Abandon()
	}
}

func (n *node) resume() { n.proc.gate.reopen() }

func (n *node) kill(t testing.TB) {
	t.Helper()
	require.NoError(t, n.Kill())
	require.NoError(t, <-n.done)
	n.over = true
}

const testTTL = 200 * time.Millisecond

// cluster is n proxies and their store.
type cluster struct {
	t     testing.TB
	tree  *memstore.Tree
	logs  *logs
	nodes []*node
}

func startCluster(t testing.TB, n int, l *logs, opts ...func(*Options)) *cluster {
	t.Helper()
	c := &cluster{t: t, tree: memstore.NewTree(), logs: l}
	for range n {
		c.add("127.0.0.1:0", opts...)
	}
	return c
}

func (c *cluster) add(addr string, opts ...func(*Options)) *node {
	c.t.Helper()
	ln, err := net.Listen("tcp", addr)
	require.NoError(c.t, err)
	g := &gate{}
	nd := &node{proc: &process{logs: c.logs, gate: g}, store: &gatedStore{Store: c.tree.Open(), g: g}, addr: ln.Addr().String(), done: make(chan error, 1)}
	o := Options{Shard: ShardAuto, LeaseTTL: testTTL, RequestTimeout: 3 * time.Second}
	for _, f := range opts {
		f(&o)
	}
	nd.Proxy, err = newProxy(nd.proc, nd.store, "/ns", o)
	require.NoError(c.t, err)
	go func() { nd.done <- nd.Serve(gatedListener{ln, g}) }()
	select {
	case <-nd.Ready():
	case err := <-nd.done:
		require.NoError(c.t, err)
	}
	c.nodes = append(c.nodes, nd)
	c.t.Cleanup(func() {
		if !nd.over {
			require.NoError(c.t, nd.Close())
			require.NoError(c.t, <-nd.done)
		}
		require.NoError(c.t, nd.store.Close())
	})
	return nd
}

// client opens a client that can read back.
func (c *cluster) client(opts ...func(*client.Options)) *client.Client {
	c.t.Helper()
	o := client.Options{Resolve: c.logs.resolve, SlowAfter: 100 * time.Millisecond, Timeout: 10 * time.Second}
	for _, f := range opts {
		f(&o)
	}
	st := c.tree.Open()
	cl, err := client.Open(context.Background(), st, "/ns", o)
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		require.NoError(c.t, cl.Close())
		require.NoError(c.t, st.Close())
	})
	return cl
}

// owner is the node that owns a stream by metadata.
func (c *cluster) owner(name stream.Name) *node {
	c.t.Helper()
	st := c.tree.Open()
	defer func() { require.NoError(c.t, st.Close()) }()
	n, err := st.Get(context.Background(), wire.OwnerKey("/ns", string(name)))
	require.NoError(c.t, err)
	o, err := wire.ParseOwner(n.Value)
	require.NoError(c.t, err)
	for _, nd := range c.nodes {
		if nd.addr == o.Addr {
			return nd
		}
	}
	require.Fail(c.t, "owner is nobody's address", o.Addr)
	return nil
}

// raw is a plain connection to a proxy, as a stock client has.
func (nd *node) raw(t testing.TB) *wire.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", nd.addr)
	require.NoError(t, err)
	c := wire.NewConn(nc, 0)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func call(t testing.TB, c *wire.Conn, call *wire.Call) *wire.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := c.Call(ctx, call)
	require.NoError(t, err)
	return r
}

func write(name, payload string) *wire.Call {
	return &wire.Call{Method: wire.WriteWithContext, Stream: name, Data: [][]byte{[]byte(payload)}, Context: &wire.WriteContext{}}
}
