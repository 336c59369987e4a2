package ledgersim

import (
	"fmt"
	"math/rand/v2"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// Options is what one schedule starts from.
type Options struct {
	Seed    uint64
	Writers int // that take the stream over from each other; default 2

	// Mutation and Bug switch on one seeded bug, in the core or in the bookies.
	Mutation quorum.Mutation
	Bug      Bug

	// Trace, when set, gets one line an event.
	Trace func(line string)
}

// Bug is a seeded bug outside the core.
type Bug uint8

// The seeded bugs of bookies and shells.
const (
	BugFenceInMemory Bug = 1 << iota // a fence is answered before it is on disk (R02)
	BugAckBeforeSync                 // an add is answered before it is on disk
)

// Stats counts what happened in a schedule.
type Stats struct {
	Schedules, Events, Pushed, Acked, Changes, Recoveries, Recovered, Read, Crashes, Ledgers int
}

// Plus is the sum of both.
func (s Stats) Plus(o Stats) Stats {
	s.Schedules += o.Schedules
	s.Events += o.Events
	s.Pushed += o.Pushed
	s.Acked += o.Acked
	s.Changes += o.Changes
	s.Recoveries += o.Recoveries
	s.Recovered += o.Recovered
	s.Read += o.Read
	s.Crashes += o.Crashes
	s.Ledgers += o.Ledgers
	return s
}

// sim is the world of one schedule. One goroutine runs it.
type sim struct {
	opts  Options
	rng   *rand.Rand
	now   int64
	seq   uint64
	queue []event
	prof  profile
	quiet bool // no more faults

	q       bk.Quorum
	bookies []*bookie
	ledgers []*ledger
	list    list
	clients []*client
	stats   Stats
	broken  error // first violation
}

type event struct {
	at  int64
	seq uint64
	fn  func()
}

const eventsMax = 400_000

// duels is how many short fights an even seed holds.
const duels = 8

// Run runs the schedules of one seed to their end: an odd seed is one long
// fight over a stream, an even one eight duels over one ledger. Each is a
// while of faults, then peace, in which every ledger is recovered and checked.
// The error is the first invariant that was broken.
func Run(o Options) (Stats, error) {
	if o.Writers == 0 {
		o.Writers = 2
	}
	if o.Seed%2 == 1 {
		return run(o, 0)
	}
	var total Stats
	for i := range uint64(duels) {
		st, err := run(o, i+1)
		total = total.Plus(st)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// run runs one schedule: duel 1 to duels, or the long fight 0.
func run(o Options, duel uint64) (Stats, error) {
	s := &sim{opts: o, rng: rand.New(rand.NewPCG(o.Seed, duel))}
	s.setup(duel > 0)
	s.runUntil(s.prof.chaos)
	s.peace()
	s.runUntil(s.now + 200_000)
	s.checkEnd()
	return s.stats, s.broken
}

func (s *sim) setup(duel bool) {
	s.stats.Schedules = 1
	s.q = pick(s, quorums)
	if duel {
		s.q = quorums[s.rng.IntN(6)]
		s.prof = s.duel()
	} else {
		s.prof = s.weather()
	}
	for i := range s.q.Ensemble + s.rng.IntN(4) {
		s.bookies = append(s.bookies, newBookie(s, i))
	}
	if duel {
		s.newWriterActor()
		for range 1 + s.rng.IntN(3) {
			s.after(s.rng.Int64N(s.prof.chaos/2), s.newRecovererActor)
		}
	} else {
		for i := range s.opts.Writers {
			s.after(s.rng.Int64N(s.prof.chaos/3)*int64(min(i, 1)), s.newWriterActor)
		}
	}
	for range s.prof.readers {
		s.after(s.rng.Int64N(s.prof.chaos/2), s.newReader)
	}
	s.scheduleFaults()
}

func pick[T any](s *sim, of []T) T { return of[s.rng.IntN(len(of))] }

func (s *sim) chance(p float64) bool { return p > 0 && !s.quiet && s.rng.Float64() < p }

// peace ends the faults: bookies come up, links heal, and one client after the
// other recovers what is not closed.
func (s *sim) peace() {
	s.quiet = true
	s.prof.delayMax = min(s.prof.delayMax, 5)
	for _, b := range s.bookies {
		b.readOnly = false
		b.start()
	}
	for _, c := range s.clients {
		c.pausedUntil = 0
		clear(c.cutUntil)
		clear(c.lagUntil)
	}
	s.after(10*s.prof.requestLimit, s.recoverAll)
}

func (s *sim) recoverAll() {
	for _, c := range s.clients {
		c.dead = true
	}
	for _, l := range s.ledgers {
		s.newRecoverer(l, func(error) {})
	}
}

// after runs fn in ticks from now.
func (s *sim) after(ticks int64, fn func()) {
	s.seq++
	s.queue = append(s.queue, event{at: s.now + max(ticks, 0), seq: s.seq, fn: fn})
	i := len(s.queue) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !s.queue[i].before(&s.queue[parent]) {
			break
		}
		s.queue[i], s.queue[parent] = s.queue[parent], s.queue[i]
		i = parent
	}
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (s *sim) pop() event {
	top := s.queue[0]
	n := len(s.queue) - 1
	s.queue[0] = s.queue[n]
	s.queue[n] = event{}
	s.queue = s.queue[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			return top
		}
		if c+1 < n && s.queue[c+1].before(&s.queue[c]) {
			c++
		}
		if !s.queue[c].before(&s.queue[i]) {
			return top
		}
		s.queue[i], s.queue[c] = s.queue[c], s.queue[i]
		i = c
	}
}

func (s *sim) runUntil(end int64) {
	for len(s.queue) > 0 && s.queue[0].at <= end && s.broken == nil {
		e := s.pop()
		s.now = e.at
		e.fn()
		if s.stats.Events++; s.stats.Events > eventsMax {
			s.violate("I7", "no end after %d events", eventsMax)
		}
	}
	if s.broken == nil {
		s.now = max(s.now, end)
	}
}

func (s *sim) tracef(format string, args ...any) {
	if s.opts.Trace != nil {
		s.opts.Trace(fmt.Sprintf("%6d  ", s.now) + fmt.Sprintf(format, args...))
	}
}

// violate notes the first broken invariant; the schedule stops there.
func (s *sim) violate(invariant, format string, args ...any) {
	if s.broken == nil {
		s.broken = fmt.Errorf("%s at tick %d: %s", invariant, s.now, fmt.Sprintf(format, args...))
		s.tracef("VIOLATION %v", s.broken)
	}
}
