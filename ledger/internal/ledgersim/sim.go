package ledgersim

import (
	"fmt"
	"math/rand/v2"

	"github.com/loglode/loglode/bookie/bk"
)

// Options is what one schedule starts from: the same Options give the same
// history.
type Options struct {
	Seed  uint64
	Salt  uint64   // another history under the weather of the same seed
	Off   Features // switched off, whatever the seed draws
	Ticks int64    // until the faults end, 0 as the seed draws

	Bug Bug // one seeded bug in bookies or shells

	// Trace, when set, gets one line an event.
	Trace func(line string)
}

// Bug is a seeded bug outside the core.
type Bug uint8

// The seeded bugs of bookies and shells.
const (
	BugNone          Bug = iota
	BugFenceInMemory     // a fence is answered before it is on disk (R02)
	BugAckBeforeSync     // an add is answered before it is on disk
	BugLimboMissing      // a bookie that lost its disk says "no entry" instead of "unknown"
	BugLimboUnfenced     // a bookie that lost its disk lets the old writer go on
	BugNoTombstone       // the fence of a deleted ledger is forgotten with its entries
	BugRereadStale       // a lost compare-and-set is followed by a stale read
	BugNoDoubt           // the shell does not tell of new connections
	BugForceUnsynced     // a force is answered before the journal is synced
)

// sim is the world of one schedule. One goroutine runs it. A Runner uses it for
// one schedule after the other.
type sim struct {
	opts  Options
	rng   *rand.Rand
	pcg   *rand.PCG
	now   int64
	prof  profile
	quiet bool // no more faults

	queue
	q          bk.Quorum
	bookies    []*bookie
	ledgers    []*ledger
	list       list
	clients    []*client
	writers    []*ledgerWriter
	recoverers []*recoverer
	lost       int // bookies that lost their disk
	stats      Stats
	broken     *Violation
	keep       [bookiesMax]*bookie
}

// eventsMax bounds a schedule: none needs a tenth of it.
const eventsMax = 400_000

// Runner runs schedules one after the other and reuses their memory.
type Runner struct{ s sim }

// Run runs one schedule to its end: a while of faults, a calm in which what was
// begun must end, then peace, in which every ledger is recovered and checked.
// The violation is the first invariant that was broken, nil if none was.
func (r *Runner) Run(o Options) (Stats, *Violation) {
	s := &r.s
	s.reset(o)
	s.setup()
	s.runUntil(s.prof.chaos)
	s.calm()
	s.runUntil(s.now + 100_000)
	s.checkCalm()
	s.recoverAll()
	s.runUntil(s.now + 200_000)
	s.checkEnd()
	return s.stats, s.broken
}

// Run runs one schedule.
func Run(o Options) (Stats, *Violation) {
	var r Runner
	return r.Run(o)
}

func (s *sim) reset(o Options) {
	if s.pcg == nil {
		s.pcg = rand.NewPCG(0, 0)
		s.rng = rand.New(s.pcg)
	}
	for _, b := range s.bookies {
		s.keep[b.n] = b
	}
	for i := range s.ledgers {
		s.ledgers[i] = nil
	}
	*s = sim{
		opts: o, rng: s.rng, pcg: s.pcg, queue: s.queue.reset(), bookies: s.bookies[:0], ledgers: s.ledgers[:0],
		clients: s.clients[:0], writers: s.writers[:0], recoverers: s.recoverers[:0], keep: s.keep,
	}
}

func (s *sim) setup() {
	s.stats.Schedules = 1
	s.pcg.Seed(s.opts.Seed, 1)
	s.prof = s.weather()
	s.q = s.prof.quorum
	s.pcg.Seed(s.opts.Seed, 2+s.opts.Salt)
	for i := range s.prof.bookies {
		s.addBookie(i)
	}
	switch s.prof.kind {
	case duel:
		s.newWriterActor()
		for range 1 + s.rng.IntN(3) {
			s.after(s.rng.Int64N(s.prof.chaos/2), s.newRecovererActor)
		}
	case zombie:
		s.newWriterActor()
		s.after(20+s.rng.Int64N(100), s.makeZombie)
	default:
		for i := range s.prof.writers {
			s.after(s.rng.Int64N(s.prof.chaos/3)*int64(min(i, 1)), s.newWriterActor)
		}
	}
	for range s.prof.readers {
		s.after(s.rng.Int64N(s.prof.chaos/2), s.newReader)
	}
	s.scheduleFaults()
	s.tracef("E=%d Qw=%d Qa=%d, %d bookies: %s", s.q.Ensemble, s.q.Write, s.q.Ack, len(s.bookies), s.prof.on)
}

// makeZombie stops the writer when nothing of it is under way, and has the ledger
// recovered, or bookies crash.
func (s *sim) makeZombie() {
	switch {
	case s.quiet:
		return
	case len(s.writers) == 0 || s.writers[0].core.Pending() > 0:
		s.after(2, s.makeZombie)
		return
	}
	s.clients[0].pausedUntil = s.now + 300 + s.rng.Int64N(200)
	if s.prof.on.has(FeatDeferred) && s.rng.IntN(2) == 0 {
		for range 3 { // before what is acknowledged is on disk
			s.after(s.rng.Int64N(20), s.crashSome)
		}
		return
	}
	s.after(s.rng.Int64N(30), s.newRecovererActor)
	for range s.prof.losses {
		s.after(100+s.rng.Int64N(200), s.loseBookie)
	}
}

func (s *sim) addBookie(n int) {
	b := s.keep[n]
	if b == nil {
		b = newBookie(s, n)
	}
	b.reset()
	s.bookies = append(s.bookies, b)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// chance is a fault that happens with probability p, before the calm.
func (s *sim) chance(p float64) bool { return p > 0 && !s.quiet && s.rng.Float64() < p }

// calm ends the faults: bookies come up, links heal, nobody is paused.
func (s *sim) calm() {
	if s.broken != nil {
		return
	}
	s.tracef("calm")
	s.quiet = true
	s.prof.delayMax = min(s.prof.delayMax, 5)
	for _, b := range s.bookies {
		b.readOnly = false
		b.start()
	}
	for _, c := range s.clients {
		c.pausedUntil = 0
		clear(c.cutUntil[:])
		clear(c.lagUntil[:])
	}
}

// recoverAll kills every client; then one after the other recovers what is not
// closed.
func (s *sim) recoverAll() {
	if s.broken != nil {
		return
	}
	s.tracef("peace")
	for _, c := range s.clients {
		c.dead = true
	}
	for _, l := range s.ledgers {
		if !l.deleted {
			s.newRecoverer(l, nil)
		}
	}
}

func (s *sim) runUntil(end int64) {
	for s.broken == nil {
		e, ok := s.next(end)
		if !ok {
			s.now = max(s.now, end)
			return
		}
		s.now = e.at
		s.handle(e)
		if s.stats.Events++; s.stats.Events > eventsMax {
			s.violate("I7", "no end after %d events", eventsMax)
		}
	}
}

func (s *sim) tracef(format string, args ...any) {
	if s.opts.Trace != nil {
		s.opts.Trace(fmt.Sprintf("%6d  ", s.now) + fmt.Sprintf(format, args...))
	}
}

// Violation is a broken invariant.
type Violation struct {
	Invariant string // I1 to I7, or "rule 38"
	At        int64  // tick
	What      string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s at tick %d: %s", v.Invariant, v.At, v.What)
}

// violate notes the first broken invariant; the schedule stops there.
func (s *sim) violate(invariant, format string, args ...any) {
	if s.broken == nil {
		s.broken = &Violation{Invariant: invariant, At: s.now, What: fmt.Sprintf(format, args...)}
		s.tracef("VIOLATION %v", s.broken)
	}
}
