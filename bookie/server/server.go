package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// ErrClosed is what Serve returns after Drain or Close.
var ErrClosed = errors.New("server closed")

// acceptRetryMax bounds the pause after an accept that failed, for example
// for want of file handles.
const acceptRetryMax = time.Second

// Server serves one Store on any number of listeners. Make it with New, end
// it with Drain or Close. Its goroutines are its workers and one janitor, and
// two for each connection.
type Server struct {
	store Store
	opts  Options
	log   *zap.Logger
	m     *metrics
	reads *pool
	syncs *pool

	ctx       context.Context // of requests; ends with the server
	cancel    context.CancelFunc
	longPolls atomic.Int64
	chunks    sync.Pool // of *[]byte, for answers

	background sync.WaitGroup // workers and janitor
	serving    sync.WaitGroup // connections

	mu        sync.Mutex // guards all below
	conns     map[*conn]struct{}
	listeners map[net.Listener]struct{}
	closed    bool
}

// New makes a server and starts its workers.
func New(store Store, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Server{
		store: store, opts: o, log: o.Logger.Named("server"),
		conns: make(map[*conn]struct{}), listeners: make(map[net.Listener]struct{}),
	}
	var err error
	if s.m, err = newMetrics(s, o.Registerer); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.chunks.New = func() any {
		b := make([]byte, 0, chunkSize)
		return &b
	}
	s.reads = newPool(s, poolLimits{workers: o.ReadWorkers, perConn: readWorkersPerConn, perTurn: readsPerTurn, waiting: o.WaitingMax})
	s.syncs = newPool(s, poolLimits{workers: o.SyncWorkers, perConn: o.SyncWorkers, perTurn: 1, waiting: o.WaitingMax})
	s.background.Go(s.janitor)
	return s, nil
}

// Serve accepts connections on l until Drain or Close, and then returns
// ErrClosed. It closes l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.addListener(l) {
		return ErrClosed
	}
	defer s.removeListener(l)
	var pause time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.start(nc)
			continue
		}
		if s.ctx.Err() != nil || s.isClosed() {
			return ErrClosed
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		pause = min(max(2*pause, 5*time.Millisecond), acceptRetryMax)
		s.log.Warn("accept failed, trying again", zap.Stringer("addr", l.Addr()), zap.Duration("pause", pause), zap.Error(err))
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
	}
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// start runs a new connection, or refuses it.
func (s *Server) start(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	closed, full := s.closed, len(s.conns) >= s.opts.ConnsMax
	if !closed && !full {
		s.conns[c] = struct{}{}
		s.serving.Add(1)
	}
	s.mu.Unlock()
	switch {
	case closed:
		nc.Close()
	case full:
		nc.Close()
		s.log.Warn("connection refused: limit reached", zap.String("remote", c.remote), zap.Int("limit", s.opts.ConnsMax))
		s.m.refused.Inc()
		if s.opts.Events.Refused != nil {
			s.opts.Events.Refused(c.remote)
		}
	default:
		if s.opts.Events.Opened != nil {
			s.opts.Events.Opened(c.remote)
		}
		go c.run()
	}
}

// ended is called by a connection as its last act.
func (s *Server) ended(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.serving.Done()
}

func (s *Server) snapshot() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// Conns is the number of open connections.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// LongPolls is the number of long polls that wait.
func (s *Server) LongPolls() int { return int(s.longPolls.Load()) }

// Drain stops accepting and reading requests, finishes what it has read and
// sends the answers, and closes. Long polls are answered at once, as if their
// time was up. When ctx ends first, connections are cut and its error is
// returned. All goroutines have ended when Drain returns.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	for _, c := range s.snapshot() {
		c.drain()
	}
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("drain: %d connections cut: %w", s.Conns(), ctx.Err())
		s.cancel()
		for _, c := range s.snapshot() {
			c.fail(nil)
		}
		<-done
	}
	s.cancel()
	s.reads.close()
	s.syncs.close()
	s.background.Wait()
	s.m.unregister()
	return err
}

// Close cuts all connections and waits for the goroutines.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Drain(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
