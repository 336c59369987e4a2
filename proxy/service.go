package proxy

import (
	"errors"
	"regexp"
	"time"

	"github.com/loglode/loglode/proxy/internal/owner"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

var _ wire.Handler = (*Proxy)(nil)

// Call is wire.Handler.
func (p *Proxy) Call(c *wire.Call) {
	p.stats.calls.WithLabelValues(c.Method.String()).Inc()
	switch c.Method {
	case wire.Handshake, wire.HandshakeWithClientInfo:
		p.handshake(c)
		return
	case wire.SetAcceptNewStream:
		if p.status.Load() != int32(wire.Down) {
			st := wire.WriteOnly
			if c.Enabled {
				st = wire.WriteAndAccept
			}
			p.status.Store(int32(st))
		}
		c.Reply(&wire.Reply{})
		return
	}
	o := &op{call: c, turn: p.turn.Add(1), bytes: int64(c.PayloadBytes()), deadline: time.Now().Add(p.o.RequestTimeout), lease: p.leaseOf(c.Peer())}
	o.append = c.Method == wire.Write || c.Method == wire.WriteWithContext || c.Method == wire.WriteBulkWithContext
	p.load.Add(o.bytes)
	if c.Method == wire.Truncate {
		if _, err := stream.ParseDLSN(c.DLSN); err != nil {
			// DistributedLog's server fails here before it has a status.
			o.s = &owned{p: p}
			o.answer(&wire.Reply{Err: &wire.ApplicationError{Type: wire.TypeInternalError, Message: err.Error()}})
			return
		}
	}
	if err := p.route(o); err != nil {
		o.s = &owned{p: p}
		p.refuseBound(o)
		o.reply(err)
	}
}

// leaseOf is the lease that a connection belongs to: that of its first call. It
// is nil while the proxy has none, and then the connection waits for the next.
func (p *Proxy) leaseOf(peer *wire.Peer) *owner.Lease {
	if l, ok := peer.Session.(*owner.Lease); ok {
		return l
	}
	l := p.lease.Load()
	select {
	case <-l.Lost():
		return nil
	default:
	}
	peer.Session = l
	return l
}

// route puts an op into its stream's queue.
func (p *Proxy) route(o *op) error {
	c := o.call
	if o.lease == nil {
		return status(wire.StreamUnavailable, "proxy has no lease now")
	}
	name, err := stream.ParseName(c.Stream)
	if err != nil {
		return err
	}
	if err := wire.ChecksumError(c); err != nil {
		return err
	}
	if o.append {
		if err := p.allow(o); err != nil {
			return err
		}
	}
	for {
		s, err := p.lookUp(name)
		if err != nil {
			return err
		}
		o.s = s
		if err := s.submit(o); !errors.Is(err, errRemoved) {
			return err
		}
	}
}

// allow charges an append to the service's limits.
func (p *Proxy) allow(o *op) error {
	now := time.Now()
	if p.load.Load() > p.o.Limits.TotalBytes && o.bytes < p.load.Load() {
		return status(wire.OverCapacity, "%d bytes of calls without an answer", p.load.Load())
	}
	if p.calls != nil && !p.calls.AllowN(now, 1) {
		return status(wire.OverCapacity, "RPS limit exceeded for the service")
	}
	if p.weight != nil && !p.weight.AllowN(now, int(o.bytes)) {
		return status(wire.OverCapacity, "BPS limit exceeded for the service")
	}
	return nil
}

// refuseBound ends the binding of an append that did not get to its stream's
// queue.
func (p *Proxy) refuseBound(o *op) {
	if _, _, ok := o.bound(); !ok {
		return
	}
	p.mu.Lock()
	s := p.streams[stream.Name(o.call.Stream)]
	p.mu.Unlock()
	if s != nil {
		s.mu.Lock()
		s.poison(o)
		s.mu.Unlock()
	}
}

// lookUp gives the stream's place in the table, made if there is none.
func (p *Proxy) lookUp(name stream.Name) (*owned, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.streams[name]; s != nil {
		return s, nil
	}
	if !p.accepting() {
		return nil, status(wire.ServiceUnavailable, "proxy takes no more streams")
	}
	if len(p.streams) >= p.o.Limits.Streams {
		return nil, status(wire.StreamUnavailable, "proxy has %d streams already", len(p.streams))
	}
	s := &owned{p: p, name: name, used: time.Now(),
		calls: limiter(p.o.Limits.StreamCalls, 1), weight: limiter(p.o.Limits.StreamBytes, p.o.Conn.FrameBytesMax)}
	p.streams[name] = s
	return s, nil
}

// handshake tells the state of the proxy and what it owns.
func (p *Proxy) handshake(c *wire.Call) {
	st := wire.ServerStatus(p.status.Load())
	info := &wire.ServerInfo{ServerStatus: &st}
	if c.Client == nil || !c.Client.IsSetGetOwnerships() || c.Client.GetGetOwnerships() {
		match := func(string) bool { return true }
		if c.Client != nil && c.Client.GetStreamNameRegex() != ".*" && c.Client.IsSetStreamNameRegex() {
			re := c.Client.GetStreamNameRegex()
			x, err := regexp.Compile(`^(?:` + re + `)$`)
			if err != nil {
				c.Reply(&wire.Reply{Err: &wire.ApplicationError{Type: wire.TypeInternalError, Message: err.Error()}})
				return
			}
			match = x.MatchString
		}
		info.Ownerships = p.ownerships(match)
	}
	c.Reply(&wire.Reply{Info: info})
}

// ownerships lists the streams owned now.
func (p *Proxy) ownerships(match func(name string) bool) map[string]string {
	here := p.Location()
	p.mu.Lock()
	defer p.mu.Unlock()
	m := map[string]string{}
	for name, s := range p.streams {
		if s.active.Load() && match(string(name)) {
			m[string(name)] = here
		}
	}
	return m
}

func (p *Proxy) setDown() { p.status.Store(int32(wire.Down)) }
