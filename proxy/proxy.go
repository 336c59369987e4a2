package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/proxy/internal/owner"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// Proxy is one write proxy. Serve runs it.
type Proxy struct {
	o     Options
	b     backend
	store metadata.Store
	root  string
	log   *zap.Logger
	stats *stats

	ctx    context.Context // of everything; ended when Serve ends
	cancel context.CancelFunc
	up     context.Context // ended when the proxy stops serving
	stop   context.CancelFunc
	wg     sync.WaitGroup // goroutines of streams
	ready  chan struct{}
	down   chan struct{} // closed when Serve has ended

	lease  atomic.Pointer[owner.Lease] // nil while there is none
	status atomic.Int32                // wire.ServerStatus
	killed atomic.Bool
	load   atomic.Int64 // payload bytes of calls without an answer
	turn   atomic.Int64
	calls  *rate.Limiter // nil = no limit
	weight *rate.Limiter

	mu       sync.Mutex // guards the fields below
	streams  map[stream.Name]*owned
	conns    map[net.Conn]context.CancelFunc
	listener net.Listener
	stopped  bool
	bound    map[*wire.Peer][]*owned // streams bound by a connection
}

func newProxy(b backend, store metadata.Store, root string, o Options) (*Proxy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	p := &Proxy{
		o: o, b: b, store: store, root: root, log: o.Logger.Named("proxy"),
		ready: make(chan struct{}), down: make(chan struct{}), bound: map[*wire.Peer][]*owned{},
		streams: map[stream.Name]*owned{}, conns: map[net.Conn]context.CancelFunc{},
		calls: limiter(o.Limits.ServiceCalls, 1), weight: limiter(o.Limits.ServiceBytes, o.Conn.FrameBytesMax),
	}
	var err error
	if p.stats, err = newStats(o.Registerer, p); err != nil {
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.up, p.stop = context.WithCancel(p.ctx)
	p.status.Store(int32(wire.WriteAndAccept))
	return p, nil
}

// limiter is a token bucket of one second that any single call fits in.
func limiter(perSecond float64, largest int) *rate.Limiter {
	if perSecond == 0 {
		return nil
	}
	if largest == 0 {
		largest = wire.FrameBytesMax
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(int(perSecond), largest))
}

// Ready is closed once the proxy is a member and serves.
func (p *Proxy) Ready() <-chan struct{} { return p.ready }

// Location is what redirects to this proxy say; of a proxy without a lease it
// is empty.
func (p *Proxy) Location() string {
	l := p.lease.Load()
	if l == nil {
		return ""
	}
	return l.Location().String()
}

// Serve takes the lease, joins the members and serves connections of ln, which
// it owns, until Drain, Close or Kill: then it returns nil. It returns an error
// if it cannot start, or cannot accept any more.
func (p *Proxy) Serve(ln net.Listener) error {
	defer close(p.down)
	defer p.cancel()
	if p.o.Addr == "" {
		p.o.Addr = ln.Addr().String()
	}
	p.mu.Lock()
	p.listener = ln
	stopped := p.stopped
	p.mu.Unlock()
	if stopped {
		return ln.Close()
	}
	startCtx, cancel := context.WithTimeout(p.up, p.o.RequestTimeout+3*p.o.LeaseTTL)
	err := p.renew(startCtx)
	cancel()
	if err != nil {
		return errors.Join(fmt.Errorf("start proxy at %s: %w", p.o.Addr, err), ln.Close())
	}
	close(p.ready)
	var keeper, conns sync.WaitGroup
	keeper.Go(p.keep)
	err = p.acceptAll(ln, &conns)
	p.shut() // an accept that failed ends the proxy too
	keeper.Wait()
	conns.Wait()
	p.wg.Wait()
	return err
}

// renew opens a lease and joins the members.
func (p *Proxy) renew(ctx context.Context) error {
	opts := owner.Options{Store: p.store, Root: p.root, Addr: p.o.Addr, Shard: p.o.Shard, TTL: p.o.LeaseTTL, Probe: p.o.Probe, Logger: p.o.Logger}
	for {
		l, err := owner.Open(ctx, opts)
		if err == nil {
			if err = l.Join(ctx); err == nil {
				p.lease.Store(l)
				return nil
			}
			err = errors.Join(err, l.Close(context.WithoutCancel(ctx)))
		}
		// A number that was ours, at another address, stays taken until that
		// lease ends.
		if !errors.Is(err, owner.ErrShardTaken) && p.lease.Load() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(p.o.LeaseTTL / 4):
		}
	}
}

// acceptAll serves connections until the listener is closed.
func (p *Proxy) acceptAll(ln net.Listener, wg *sync.WaitGroup) error {
	for {
		nc, err := ln.Accept()
		if err != nil {
			p.mu.Lock()
			stopped := p.stopped
			p.mu.Unlock()
			if stopped {
				return nil
			}
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() {
				continue
			}
			return fmt.Errorf("accept: %w", err)
		}
		ctx, ok := p.admit(nc)
		if !ok {
			_ = nc.Close() // refused, nothing was said
			continue
		}
		wg.Go(func() {
			defer p.leave(nc)
			if err := wire.ServeConn(ctx, nc, p, p.o.Conn); err != nil {
				p.log.Debug("connection ended", zap.Stringer("peer", nc.RemoteAddr()), zap.Error(err))
			}
		})
	}
}

func (p *Proxy) admit(nc net.Conn) (context.Context, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped && p.killed.Load() || len(p.conns) >= p.o.Limits.Connections {
		return nil, false
	}
	ctx, cancel := context.WithCancel(p.ctx)
	p.conns[nc] = cancel
	p.stats.connections.Inc()
	return ctx, true
}

func (p *Proxy) leave(nc net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[nc]()
	delete(p.conns, nc)
	p.stats.connections.Dec()
}

// keep looks after the lease, late calls and idle streams until Drain.
func (p *Proxy) keep() {
	tick := time.NewTicker(min(p.o.RequestTimeout/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-p.up.Done():
			return
		case <-p.lease.Load().Lost():
			p.leaseLost()
			if p.renew(p.up) != nil {
				return // stopped meanwhile
			}
		case now := <-tick.C:
			p.sweep(now)
		}
	}
}

// leaseLost lets go of everything. Calls that came by connections of before
// are not carried out any more: their clients may have gone to another proxy.
func (p *Proxy) leaseLost() {
	p.log.Info("lease lost: all streams are let go")
	p.stats.leases.Inc()
	if f := p.o.Events.LeaseLost; f != nil {
		f()
	}
	old := p.lease.Load()
	p.mu.Lock()
	for _, s := range p.streams {
		s.lose()
	}
	for nc := range p.conns {
		_ = nc.Close() // its reader and writer see it
	}
	p.mu.Unlock()
	old.Abandon()
}

// sweep refuses late calls and lets idle streams go.
func (p *Proxy) sweep(now time.Time) {
	p.mu.Lock()
	all := make([]*owned, 0, len(p.streams))
	for _, s := range p.streams {
		all = append(all, s)
	}
	p.mu.Unlock()
	for _, s := range all {
		s.expire(now)
		s.mu.Lock()
		idle := now.Sub(s.used)
		busy := s.running || len(s.queue) > 0
		s.mu.Unlock()
		if !busy && (idle > p.o.IdleTimeout || !s.active.Load() && idle > 10*p.o.LeaseTTL) {
			s.close()
		}
	}
}

func (p *Proxy) remove(s *owned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams[s.name] == s {
		delete(p.streams, s.name)
	}
}

func (p *Proxy) tableSize() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.streams)
}

func (p *Proxy) accepting() bool { return p.status.Load() == int32(wire.WriteAndAccept) }
