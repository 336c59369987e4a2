package ledgersim

import (
	"github.com/loglode/loglode/bookie/bk"
)

// client is one process that uses the ledgers: a writer, recoverer or reader.
type client struct {
	s           *sim
	n           int
	name        string
	dead        bool
	pausedUntil int64
	cutUntil    []int64 // by bookie: messages are lost
	lagUntil    []int64 // by bookie: messages are held back
}

func (s *sim) newClient(name string) *client {
	c := &client{s: s, n: len(s.clients), name: name, cutUntil: make([]int64, len(s.bookies)), lagUntil: make([]int64, len(s.bookies))}
	for n := range s.bookies {
		if s.chance(s.prof.lateLink) {
			c.cutUntil[n] = s.now + s.rng.Int64N(10*s.prof.delayMax)
		}
	}
	s.clients = append(s.clients, c)
	return c
}

// run runs fn in the client in ticks from now: not when it has died, later when
// it is paused.
func (c *client) run(ticks int64, fn func()) {
	c.s.after(ticks, func() { c.enter(fn) })
}

func (c *client) enter(fn func()) {
	switch {
	case c.dead:
	case c.s.now < c.pausedUntil:
		c.run(c.pausedUntil-c.s.now, fn)
	default:
		fn()
	}
}

// delay is how long one message about o takes.
func (s *sim) delay(o op) int64 {
	if s.chance(s.prof.slow[o]) {
		return 1 + s.rng.Int64N(s.prof.slowMax)
	}
	return 1 + s.rng.Int64N(s.prof.delayMax)
}

// message carries fn over the link of c and b, in either direction: late, twice
// or never.
func (s *sim) message(c *client, b *bookie, o op, fn func()) {
	if s.now < c.cutUntil[b.n] || s.chance(s.prof.drop[o]) {
		return
	}
	lag := max(0, c.lagUntil[b.n]-s.now)
	s.after(lag+s.delay(o), fn)
	if s.chance(s.prof.dup) {
		s.after(lag+s.delay(o), fn)
	}
}

var errGarbled = &bk.CorruptError{Where: "digest", Offset: -1}

// faults are the answers of a bookie in trouble.
var faults = []error{bk.ErrBookieIO, bk.ErrTooManyRequests, errGarbled, bk.ErrUnknownLedgerState}

// call sends a request and gives every answer to done: none, one, or several.
// Silence becomes a timeout; an answer after it still arrives.
func (c *client) call(b *bookie, r request, done func(answer)) {
	answered := false
	reply := func(a answer) {
		c.s.message(c, b, r.op, func() {
			c.enter(func() {
				answered = true
				done(a)
			})
		})
	}
	c.s.message(c, b, r.op, func() { c.s.arrive(b, r, reply) })
	c.run(c.s.prof.requestLimit, func() {
		if !answered {
			done(answer{err: bk.ErrTimeout})
		}
	})
}

// arrive is a request at the door of a bookie.
func (s *sim) arrive(b *bookie, r request, reply func(answer)) {
	switch {
	case !b.up:
		if s.rng.Float64() < s.prof.refuse {
			reply(answer{err: bk.ErrBookieUnavailable})
		}
	case s.chance(s.prof.fault):
		// In trouble it may do the work all the same, and say otherwise.
		if s.chance(0.5) {
			b.serve(r, func(answer) {})
		}
		reply(answer{err: pick(s, faults)})
	default:
		b.serve(r, reply)
	}
}

// scheduleFaults starts what breaks things until peace.
func (s *sim) scheduleFaults() {
	s.every(s.prof.crashEvery, func() {
		b := pick(s, s.bookies)
		b.crash()
		s.after(1+s.rng.Int64N(s.prof.downMax), b.start)
	})
	s.every(s.prof.cutEvery, func() {
		c := s.someClient()
		until := s.now + s.rng.Int64N(600)
		for n := range s.bookies {
			if s.rng.IntN(2) == 0 {
				c.cutUntil[n] = until
			}
		}
	})
	s.every(s.prof.lagEvery, func() {
		s.someClient().lagUntil[s.rng.IntN(len(s.bookies))] = s.now + s.rng.Int64N(2*s.prof.requestLimit)
	})
	s.every(s.prof.pauseEvery, func() {
		s.someClient().pausedUntil = s.now + s.rng.Int64N(900)
	})
	s.every(s.prof.swapEvery, s.swapBookie)
	s.every(s.prof.recoverEvery, s.newRecovererActor)
	s.every(s.prof.crashEvery, func() {
		b := pick(s, s.bookies)
		b.readOnly = !b.readOnly
	})
}

// someClient is a client to trouble: one of the last to come.
func (s *sim) someClient() *client {
	n := min(len(s.clients), 4)
	if n == 0 {
		return &client{cutUntil: make([]int64, len(s.bookies)), lagUntil: make([]int64, len(s.bookies))}
	}
	return s.clients[len(s.clients)-1-s.rng.IntN(n)]
}

func (s *sim) every(mean int64, fn func()) {
	if mean == 0 {
		return
	}
	s.after(1+s.rng.Int64N(2*mean), func() {
		if !s.quiet {
			fn()
			s.every(mean, fn)
		}
	})
}
