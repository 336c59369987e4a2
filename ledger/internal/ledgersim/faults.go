package ledgersim

import (
	"errors"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// scheduleFaults starts what breaks things until the calm.
func (s *sim) scheduleFaults() {
	s.every(s.prof.crashEvery, s.crashSome)
	s.every(s.prof.loseEvery, s.loseBookie)
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
	s.every(s.prof.deleteEvery, s.deleteLedger)
	s.every(s.prof.readOnly, func() {
		b := s.bookies[s.rng.IntN(len(s.bookies))]
		b.readOnly = !b.readOnly
	})
}

func (s *sim) every(mean int64, fn func()) {
	if mean == 0 {
		return
	}
	var again func()
	again = func() {
		if !s.quiet {
			fn()
			s.after(1+s.rng.Int64N(2*mean), again)
		}
	}
	s.after(1+s.rng.Int64N(2*mean), again)
}

// crashSome crashes a bookie, or several at once, for a while.
func (s *sim) crashSome() {
	n := 1
	if s.prof.on.has(FeatBurst) {
		n += s.rng.IntN(3)
	}
	for range n {
		b := s.bookies[s.rng.IntN(len(s.bookies))]
		b.crash()
		s.after(1+s.rng.Int64N(s.prof.downMax), b.start)
	}
}

// someClient is a client to trouble: one of the last to come.
func (s *sim) someClient() *client {
	n := min(len(s.clients), 4)
	if n == 0 {
		return new(client)
	}
	return s.clients[len(s.clients)-1-s.rng.IntN(n)]
}

// deleteLedger deletes a ledger's metadata, whoever is at work on it; bookies
// find out later.
func (s *sim) deleteLedger() {
	if len(s.ledgers) == 0 {
		return
	}
	l := s.ledgers[s.rng.IntN(len(s.ledgers))]
	if l.deleted || l.meta.State != quorum.StateClosed && s.rng.IntN(4) > 0 {
		return
	}
	s.tracef("L%d is deleted", l.n)
	s.stats.Deletes++
	l.deleted = true
	for _, b := range s.bookies {
		s.after(1+s.rng.Int64N(400), func() {
			if b.up {
				b.collect(l)
			}
		})
	}
}

// swapBookie is re-replication: it copies one position of an older segment, or
// of a closed ledger, to another bookie and swaps it in (rule 49).
func (s *sim) swapBookie() {
	if len(s.ledgers) == 0 {
		return
	}
	l := s.ledgers[s.rng.IntN(len(s.ledgers))]
	n, end := len(l.meta.Segments)-1, bk.EntryID(0)
	if l.meta.State == quorum.StateClosed {
		n, end = n+1, l.meta.LastEntry+1
	}
	if n == 0 || l.deleted {
		return
	}
	i, p := s.rng.IntN(n), s.rng.IntN(s.q.Ensemble)
	if i+1 < len(l.meta.Segments) {
		end = l.meta.Segments[i+1].First
	}
	to := s.choose(l.meta.Segments[i].Ensemble)
	if to == nil || !to.up {
		return
	}
	for e := l.meta.Segments[i].First; e < end; e++ {
		if _, in := quorum.CopyAt(s.q, e, p); !in {
			continue
		}
		c, err := s.goodCopy(l, i, e)
		if err != nil {
			return
		}
		to.mem.of(l.n).put(e, c)
		to.disk.of(l.n).put(e, c)
	}
	m := l.meta
	m.Segments = append([]quorum.Segment(nil), m.Segments...)
	ens := append([]bk.BookieID(nil), m.Segments[i].Ensemble...)
	ens[p] = to.id
	m.Segments[i].Ensemble = ens
	s.cas(l, l.version, m, swapper)
}

var errNoCopy = errors.New("no copy")

func (s *sim) goodCopy(l *ledger, seg int, e bk.EntryID) (copyOf, error) {
	for k := range s.q.Write {
		b := s.bookie(l.meta.Segments[seg].Ensemble[quorum.Position(s.q, e, k)])
		if c, ok := b.disk.of(l.n).get(e); ok {
			return c, nil
		}
	}
	return copyOf{}, errNoCopy
}
