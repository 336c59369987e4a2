package proxy

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// bind is a producer's hold on a stream. Its appends carry the token; once one
// of them was refused or failed, no other is carried out.
type bind struct {
	token  int64
	peer   *wire.Peer
	turn   int64 // to find the oldest
	failed int64 // turn of the first append that was refused or failed, 0 = none
}

// heartbeat proves that this proxy owns the stream; with a producer it binds it.
func (s *owned) heartbeat(ctx context.Context, o *op) {
	if err := s.own(ctx, o); err != nil {
		s.refuse(o, err)
		return
	}
	producer := o.call.Context.GetProducer()
	if producer == "" && !o.call.Options.GetSendHeartBeatToReader() {
		o.reply(nil)
		return
	}
	// What earlier bindings left in flight must be settled first, and what
	// readers are to see must be out.
	if err := s.w.Flush(ctx); err != nil {
		s.letGo(false, err)
		s.refuse(o, s.lostOr(s.lease, err))
		return
	}
	if err := s.lease.Confirm(ctx); err != nil {
		s.letGo(false, err)
		s.refuse(o, status(wire.LockingException, "lost stream %s: %v", s.name, err))
		return
	}
	if producer == "" {
		o.reply(nil)
		return
	}
	if !s.p.track(o.call.Peer(), s) {
		o.reply(status(wire.WriteCancelled, "connection is closed"))
		return
	}
	s.mu.Lock()
	token, last := s.bind(producer, o.call.Peer()), s.last
	s.mu.Unlock()
	text := ""
	if last != (stream.DLSN{}) {
		text = last.Base64()
	}
	o.replyWith(&wire.ResponseHeader{Code: wire.Success, Binding: &token}, text)
}

// bind makes a new binding in place of the producer's old one. Called with s.mu
// held.
func (s *owned) bind(producer string, peer *wire.Peer) int64 {
	if s.binds == nil {
		s.binds = map[string]*bind{}
	}
	if _, ok := s.binds[producer]; !ok && len(s.binds) >= s.p.o.Limits.Producers {
		var oldest string
		for name, b := range s.binds {
			if oldest == "" || b.turn < s.binds[oldest].turn {
				oldest = name
			}
		}
		delete(s.binds, oldest)
	}
	// Random, so that a token of another time, place or owner never fits.
	b := &bind{token: rand.Int64(), peer: peer, turn: s.p.turn.Add(1)}
	s.binds[producer] = b
	return b.token
}

// checkBind refuses an append whose binding is not good any more.
func (s *owned) checkBind(o *op) error {
	producer, token, ok := o.bound()
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.binds[producer]; b == nil || b.token != token || b.failed != 0 && o.turn > b.failed {
		return status(wire.WriteCancelled, "binding to stream %s is over", s.name)
	}
	return nil
}

// poison refuses whatever of its binding came after an append that was refused
// or failed. What came before goes on: a producer that sends more than the queue
// takes must get somewhere. Called with s.mu held.
func (s *owned) poison(o *op) {
	if producer, token, ok := o.bound(); ok {
		if b := s.binds[producer]; b != nil && b.token == token && (b.failed == 0 || o.turn < b.failed) {
			b.failed = o.turn
		}
	}
}

// hangUp drops the bindings that came by a connection.
func (s *owned) hangUp(peer *wire.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for producer, b := range s.binds {
		if b.peer == peer {
			delete(s.binds, producer)
		}
	}
}

// track remembers that a connection may have bindings of a stream, unless it
// has ended.
func (p *Proxy) track(peer *wire.Peer, s *owned) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if peer.Gone() {
		return false
	}
	if !slices.Contains(p.bound[peer], s) {
		p.bound[peer] = append(p.bound[peer], s)
	}
	return true
}

// Hangup is wire.Handler.
func (p *Proxy) Hangup(peer *wire.Peer) {
	p.mu.Lock()
	all := p.bound[peer]
	delete(p.bound, peer)
	p.mu.Unlock()
	for _, s := range all {
		s.hangUp(peer)
	}
}
