package ledgersim

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// ledger is one ledger: its stored metadata, and what the checker knows about
// it that no client does.
type ledger struct {
	n        int
	version  int
	meta     quorum.Metadata
	history  []quorum.Metadata // by version
	created  int64
	deleted  bool
	deferred bool
	owner    *client

	pushed     []pushed   // by entry
	completed  bk.EntryID // highest entry an application was told of
	acked      bk.EntryID // of these the highest that is promised to stay: all, but for deferred sync
	fencedAt   int64      // when a recovery had fenced every write set, -1 before
	tainted    bool       // a bookie of it came back knowing nothing while it was not closed
	taintedAt  int64      // when that happened last
	readerLAC  bk.EntryID // highest entry delivered to a reader
	recoveries []quorum.Metadata
}

// pushed is an entry as its writer pushed it.
type pushed struct {
	payload uint64
	length  int64
	lac     bk.EntryID
	at      int64
}

// list is the stream: its ledgers in order, changed by compare-and-set.
type list struct {
	version int
}

// metaCall carries one metadata request and its answer, which may be lost; the
// request may be applied after the client has given up. done(false) is an
// unknown outcome.
func (c *client) metaCall(serve func(), done func(known bool)) {
	s := c.s
	over := false
	c.run(s.prof.requestLimit, func() {
		if !over {
			over = true
			done(false)
		}
	})
	if s.chance(s.prof.metaLost) && s.chance(0.5) {
		return // the request
	}
	s.after(s.metaDelay(), func() {
		serve()
		if s.chance(s.prof.metaLost) {
			return // the answer
		}
		c.run(s.metaDelay(), func() {
			if !over {
				over = true
				done(true)
			}
		})
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
	if l.deleted || l.version != version {
		return false
	}
	s.checkTransition(l, m, who)
	l.version++
	l.meta = m
	l.history = append(l.history, m)
	if s.opts.Trace != nil {
		s.tracef("L%d v%d %s by %s", l.n, l.version, metaString(m), who)
	}
	return true
}

// stale gives metadata as an open or a watch may see them: those stored, or
// those of a while ago.
func (s *sim) stale(l *ledger) (m quorum.Metadata, version int) {
	if s.chance(s.prof.metaStale) {
		version = s.rng.IntN(l.version + 1)
		return l.history[version], version
	}
	return l.meta, l.version
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
	s := m.c.s
	over := m.version
	var won, gone bool
	var version int
	m.c.metaCall(func() {
		won = s.cas(m.l, over, want, m.c.name)
		if s.chance(s.prof.metaTwice) { // sent again below: the answer is the second's
			won = s.cas(m.l, over, want, m.c.name)
		}
		version, gone = m.l.version, m.l.deleted
	}, func(known bool) {
		switch {
		case known && gone:
			m.core.UpdateFailed(bk.ErrNoSuchLedger)
		case known && won:
			m.version = version
			m.core.Updated()
		default:
			m.reread(5)
			return
		}
		m.after()
	})
}

// reread learns what is stored after a lost or unknown compare-and-set.
func (m *metaShell) reread(tries int) {
	var fresh quorum.Metadata
	var version int
	var gone bool
	m.c.metaCall(func() {
		fresh, version, gone = m.l.meta, m.l.version, m.l.deleted
		if m.c.s.opts.Bug == BugRereadStale {
			fresh, version = m.c.s.stale(m.l)
		}
	}, func(known bool) {
		switch {
		case known && gone:
			m.core.UpdateFailed(bk.ErrNoSuchLedger)
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
		ensemble := make([]bk.BookieID, 0, s.q.Ensemble)
		for range s.q.Ensemble {
			b := s.choose(ensemble)
			if b == nil {
				return
			}
			ensemble = append(ensemble, b.id)
		}
		made = &ledger{
			n: len(s.ledgers), created: s.now, owner: c, completed: bk.InvalidEntryID, acked: bk.InvalidEntryID,
			readerLAC: bk.InvalidEntryID, fencedAt: -1,
			deferred: s.prof.on.has(FeatDeferred) && s.rng.IntN(2) == 0,
			meta: quorum.Metadata{
				Segments: []quorum.Segment{{First: 0, Ensemble: ensemble}}, LastEntry: bk.InvalidEntryID,
			},
		}
		made.history = append(made.history, made.meta)
		s.ledgers = append(s.ledgers, made)
		s.list.version++
		s.stats.Ledgers++
		if s.opts.Trace != nil {
			s.tracef("L%d created by %s %s, deferred sync %t", made.n, c.name, metaString(made.meta), made.deferred)
		}
	}, func(known bool) {
		if !known { // whether it happened or not: the next attempt reads the list
			made = nil
		}
		done(made)
	})
}

// choose picks a bookie that seems writable and is not in avoid, nil if there
// is none.
func (s *sim) choose(avoid []bk.BookieID) *bookie {
	n := len(s.bookies)
	first := s.rng.IntN(n)
	for i := range n {
		b := s.bookies[(first+i)%n]
		seems := b.up && !b.readOnly || s.rng.IntN(10) == 0 && !s.quiet // the list of the living is late
		if seems && !containsBookie(avoid, b.id) {
			return b
		}
	}
	return nil
}

func containsBookie(l []bk.BookieID, b bk.BookieID) bool {
	for _, x := range l {
		if x == b {
			return true
		}
	}
	return false
}

// bookie gives the bookie of an id: b and a digit.
func (s *sim) bookie(id bk.BookieID) *bookie { return s.bookies[id[1]-'0'] }

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
