package ledgersim

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// ledger is one ledger: its stored metadata, and what the checker knows about
// it that no client does.
type ledger struct {
	n       int
	version int
	meta    quorum.Metadata
	owner   *client

	pushed     []pushed   // by entry
	acked      bk.EntryID // highest entry an application was told of
	sealed     bool       // another writer has taken the stream over
	fencedAt   int64      // when a recovery had fenced every write set, -1 before
	readerLAC  bk.EntryID // highest LAC a reader believed in
	delivered  []uint64   // payload a reader got, by entry
	recoveries []quorum.Metadata
}

// pushed is an entry as its writer pushed it.
type pushed struct {
	payload uint64
	length  int64
	at      int64
}

// list is the stream: its ledgers in order, changed by compare-and-set.
type list struct {
	version int
}

// metaCall carries one metadata request and its answer, which may be lost.
// reply gives the outcome; done(false) is an unknown outcome.
func (c *client) metaCall(serve func(), done func(known bool)) {
	s := c.s
	over := false
	end := func(known bool) {
		if !over {
			over = true
			done(known)
		}
	}
	limit := s.prof.requestLimit
	c.run(limit, func() { end(false) })
	if s.chance(s.prof.metaLost) && s.chance(0.5) {
		return // the request
	}
	s.after(s.metaDelay(), func() {
		serve()
		if s.chance(s.prof.metaLost) {
			return // the answer
		}
		back := s.metaDelay()
		c.run(back, func() { end(true) })
	})
}

func (s *sim) metaDelay() int64 {
	if s.prof.metaFast {
		return 1 + s.rng.Int64N(5)
	}
	if s.chance(s.prof.metaSlow) {
		return 1 + s.rng.Int64N(s.prof.slowMax)
	}
	return 1 + s.rng.Int64N(s.prof.delayMax)
}

// cas is the compare-and-set of a ledger's metadata at the store.
func (s *sim) cas(l *ledger, version int, m quorum.Metadata, who string) bool {
	if l.version != version {
		return false
	}
	s.checkTransition(l, m, who)
	l.version++
	l.meta = m
	if s.opts.Trace != nil {
		s.tracef("L%d v%d %s by %s", l.n, l.version, metaString(m), who)
	}
	return true
}

// metaCore is what a Writer and a Recovery have in common for the shell.
type metaCore interface {
	Updated()
	Conflict(quorum.Metadata)
	UpdateFailed(error)
}

// metaShell carries out the ActUpdates of one core.
type metaShell struct {
	c       *client
	l       *ledger
	version int // of the metadata the core last learned
	core    metaCore
	after   func() // carry out what the core wants now
}

func (m *metaShell) update(want quorum.Metadata) {
	over := m.version
	var won bool
	var version int
	m.c.metaCall(func() {
		won = m.c.s.cas(m.l, over, want, m.c.name)
		version = m.l.version
	}, func(known bool) {
		if known && won {
			m.version = version
			m.core.Updated()
			m.after()
			return
		}
		m.reread(5)
	})
}

// reread learns what is stored after a lost or unknown compare-and-set.
func (m *metaShell) reread(tries int) {
	var fresh quorum.Metadata
	var version int
	m.c.metaCall(func() {
		fresh, version = m.l.meta, m.l.version
	}, func(known bool) {
		switch {
		case known:
			m.version = version
			m.core.Conflict(fresh)
		case tries > 1:
			m.reread(tries - 1)
			return
		default:
			m.core.UpdateFailed(bk.ErrTimeout)
		}
		m.after()
	})
}

// createLedger makes the next ledger of the stream, if the list still has the
// version the caller knows. done gets nil when another writer was first.
func (c *client) createLedger(version int, done func(*ledger)) {
	s := c.s
	var made *ledger
	c.metaCall(func() {
		if s.list.version != version || s.quiet {
			return
		}
		ensemble, ok := s.choose(s.q.Ensemble, nil)
		if !ok {
			return
		}
		for _, l := range s.ledgers {
			l.sealed = true
		}
		made = &ledger{
			n: len(s.ledgers), owner: c, acked: bk.InvalidEntryID, readerLAC: bk.InvalidEntryID, fencedAt: -1,
			meta: quorum.Metadata{
				Segments: []quorum.Segment{{First: 0, Ensemble: ensemble}}, LastEntry: bk.InvalidEntryID,
			},
		}
		s.ledgers = append(s.ledgers, made)
		s.list.version++
		s.stats.Ledgers++
		if s.opts.Trace != nil {
			s.tracef("L%d created by %s %s", made.n, c.name, metaString(made.meta))
		}
	}, func(known bool) {
		if !known { // whether it happened or not: the next attempt reads the list
			made = nil
		}
		done(made)
	})
}

// choose picks n bookies that seem writable and are not in avoid.
func (s *sim) choose(n int, avoid []bk.BookieID) ([]bk.BookieID, bool) {
	var out []bk.BookieID
	for _, i := range s.rng.Perm(len(s.bookies)) {
		b := s.bookies[i]
		seems := b.up && !b.readOnly || s.rng.IntN(10) == 0 // the list of the living is late
		if seems && len(out) < n && !containsBookie(avoid, b.id) {
			out = append(out, b.id)
		}
	}
	return out, len(out) == n
}

func containsBookie(l []bk.BookieID, b bk.BookieID) bool {
	for _, x := range l {
		if x == b {
			return true
		}
	}
	return false
}

func (s *sim) bookie(id bk.BookieID) *bookie {
	for _, b := range s.bookies {
		if b.id == id {
			return b
		}
	}
	s.violate("sim", "no bookie %q", id)
	return s.bookies[0]
}

func metaString(m quorum.Metadata) string {
	out := m.State.String()
	if m.State == quorum.StateClosed {
		out += fmt.Sprintf(" last=%d length=%d", m.LastEntry, m.Length)
	}
	for _, seg := range m.Segments {
		out += fmt.Sprintf(" %d:%v", seg.First, seg.Ensemble)
	}
	return out
}
