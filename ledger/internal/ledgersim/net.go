package ledgersim

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// client is one process that uses the ledgers: a writer, recoverer or reader.
type client struct {
	s           *sim
	n           int
	name        string
	dead        bool
	pausedUntil int64
	cutUntil    [bookiesMax]int64 // by bookie: messages are lost
	lagUntil    [bookiesMax]int64 // by bookie: messages are held back
	links       [bookiesMax]link  // by bookie
}

// link is a client's connection to a bookie. It ends with the bookie's process:
// the next request is refused, what was in flight is lost, and the client sees
// it and connects anew.
type link struct {
	epoch int32 // counts connections
	life  int   // of the bookie, plus one; 0 before the connection is made
	made  int64 // when
}

func (s *sim) newClient(kind string) *client {
	c := &client{s: s, n: len(s.clients), name: clientName(kind, len(s.clients))}
	for n := range s.bookies {
		if s.chance(s.prof.lateLink) {
			c.cutUntil[n] = s.now + s.rng.Int64N(10*s.prof.delayMax)
		}
	}
	s.clients = append(s.clients, c)
	return c
}

// clientName gives kind and a number: names are only for traces.
func clientName(kind string, n int) string {
	return kind + string(rune('0'+n/100%10)) + string(rune('0'+n/10%10)) + string(rune('0'+n%10))
}

// run runs fn in the client in ticks from now: not when it has died, later when
// it is paused.
func (c *client) run(ticks int64, fn func()) {
	c.s.push(c.s.now+max(ticks, 0), evEnter, c.s.holdFunc(fn), int32(c.n))
}

// delay is how long one message about o takes.
func (s *sim) delay(o op) int64 {
	if s.chance(s.prof.slow[o]) {
		return 1 + s.rng.Int64N(s.prof.slowMax)
	}
	return 1 + s.rng.Int64N(s.prof.delayMax)
}

// message carries call i to its bookie, or answer y of it back: late, twice or
// never.
func (s *sim) message(kind eventKind, i int32, a answer) {
	k := s.calls[i]
	o := k.request.op
	if s.now < k.c.cutUntil[k.b.n] || s.chance(s.prof.drop[o]) {
		return
	}
	lag := max(0, k.c.lagUntil[k.b.n]-s.now)
	n := 1
	if s.chance(s.prof.twice) {
		n = 2
	}
	for range n {
		var y int32
		if kind == evAnswer {
			y = s.hold(a)
		}
		k.refs++
		s.push(s.now+lag+s.delay(o), kind, i, y)
	}
}

// reply sends an answer of call i to its client.
func (s *sim) reply(i int32, a answer) { s.message(evAnswer, i, a) }

var errGarbled = &bk.CorruptError{Where: "digest", Offset: -1}

// faults are the answers of a bookie in trouble.
var faults = []error{bk.ErrBookieIO, bk.ErrTooManyRequests, errGarbled, bk.ErrUnknownLedgerState}

// call sends a request; who gets every answer: none, one, or several. Silence
// becomes a timeout; an answer after it still arrives.
func (c *client) call(b *bookie, r request, who handler, slot quorum.Slot, tag int32) {
	s := c.s
	i, k := s.newCall()
	*k = call{c: c, b: b, who: who, request: r, slot: slot, tag: tag, refs: 1, epoch: c.links[b.n].epoch}
	s.message(evArrive, i, answer{})
	s.pushLimit(s.now+s.prof.requestLimit, i)
}

// deliver brings an answer, or the end of the time limit, to the client.
func (s *sim) deliver(e event) {
	k := s.calls[e.x]
	c := k.c
	if !c.dead && s.now < c.pausedUntil && !(e.kind == evLimit && k.answered) {
		s.push(c.pausedUntil, e.kind, e.x, e.y)
		return
	}
	a := answer{err: bk.ErrTimeout}
	if e.kind == evAnswer {
		a = s.answers[e.y]
		s.freeAnswers = append(s.freeAnswers, e.y)
	}
	if !c.dead && !(e.kind == evLimit && k.answered) {
		if e.kind == evAnswer {
			k.answered = true
			a = c.overLink(k, a)
		}
		k.who.answer(k, a)
	}
	s.release(e.x)
}

// overLink is what the client sees of an answer: a connection that is refused is
// gone, and with it whatever is still under way on it (rule 51). The next request
// makes another.
func (c *client) overLink(k *call, a answer) answer {
	lk := &c.links[k.b.n]
	switch {
	case !c.s.prof.on.has(FeatConnection):
	case k.epoch != lk.epoch:
		return answer{err: errReset}
	case a.err == errReset: //nolint:errorlint // the simulation's own value
		*lk = link{epoch: lk.epoch + 1}
	}
	return a
}

// hangUp tells some writers at once that their connection to b ended: they need
// not learn it from a request that fails.
func (s *sim) hangUp(b *bookie) {
	for _, w := range s.writers {
		if lk := &w.c.links[b.n]; lk.life != 0 && s.now >= w.c.cutUntil[b.n] && s.rng.IntN(3) > 0 {
			*lk = link{epoch: lk.epoch + 1}
		}
	}
}

// errReset is what a client sees of a bookie that was restarted.
var errReset = bk.ErrBookieUnavailable

// arrive is a request at the door of a bookie.
func (s *sim) arrive(i int32) {
	k := s.calls[i]
	b := k.b
	if s.prof.on.has(FeatConnection) && b.up {
		lk := &k.c.links[b.n]
		switch {
		case k.epoch != lk.epoch:
			return // of a connection that is gone
		case lk.life == 0:
			lk.life, lk.made = b.life+1, s.now
		case lk.life != b.life+1:
			s.reply(i, answer{err: errReset})
			return
		}
	}
	switch {
	case !b.up:
		if s.rng.Float64() < s.prof.refuse {
			s.reply(i, answer{err: errReset})
		}
	case s.chance(s.prof.fault):
		// In trouble it may do the work all the same, and say otherwise.
		if s.chance(0.5) {
			b.serve(i)
		}
		s.reply(i, answer{err: pick(s.rng, faults...)})
	default:
		b.serve(i)
	}
}
