package ledgersim

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// reader follows one ledger without recovering it: it learns the LAC from
// bookies and the end from metadata, and reads what is confirmed.
type reader struct {
	c    *client
	l    *ledger
	meta quorum.Metadata
	conf quorum.Confirmed
	next bk.EntryID
	lac  quorum.LACRead
	read quorum.Read
	busy int // number of the step: answers to an earlier one are void
}

func (s *sim) newReader() {
	if s.quiet {
		return
	}
	if len(s.ledgers) == 0 {
		s.after(100, s.newReader)
		return
	}
	r := &reader{c: s.newClient("reader"), l: pick(s, s.ledgers)}
	r.conf = quorum.NewConfirmed(quorum.Metadata{})
	r.refresh()
}

func (r *reader) later() {
	r.c.run(1+r.c.s.rng.Int64N(200), r.refresh)
}

// refresh reads the metadata, then the LAC unless the ledger is closed (rules
// 25, 26).
func (r *reader) refresh() {
	s := r.c.s
	if s.quiet {
		return
	}
	var m quorum.Metadata
	r.c.metaCall(func() { m = r.l.meta }, func(known bool) {
		if !known {
			r.later()
			return
		}
		r.meta = m
		r.conf.Observe(m)
		if r.conf.Closed() {
			r.readNext()
			return
		}
		r.askLAC()
	})
}

func (r *reader) askLAC() {
	s := r.c.s
	r.busy++
	step := r.busy
	r.lac.Start(bk.LedgerID(r.l.n), s.q)
	for p, b := range r.meta.Last().Ensemble {
		req := request{op: opRead, ledger: r.l.n, entry: bk.InvalidEntryID}
		r.c.call(s.bookie(b), req, func(a answer) {
			if step != r.busy {
				return
			}
			ans := quorum.LACAnswer{Entry: a.entry, LAC: max(a.copy.lac, a.explicit), Length: a.copy.length}
			switch r.lac.Answer(p, ans, a.err) {
			case quorum.LACCovered:
				r.raise(r.lac.LAC())
				r.readNext()
			case quorum.LACFailed:
				r.busy++
				r.later()
			case quorum.LACPending:
			}
		})
	}
}

func (r *reader) raise(lac bk.EntryID) {
	if r.conf.Raise(lac) && lac > r.l.acked && r.l.meta.State == quorum.StateOpen {
		r.c.s.violate("I4", "a reader of L%d believes LAC %d, acknowledged is %d", r.l.n, lac, r.l.acked)
	}
}

// readNext reads the next confirmed entry.
func (r *reader) readNext() {
	r.busy++
	if !r.conf.Readable(r.next) {
		if !r.conf.Closed() {
			r.later()
		}
		return
	}
	r.read.Start(r.c.s.q, r.next, nil)
	r.ask()
}

func (r *reader) ask() {
	s := r.c.s
	pos, ok := r.read.Next()
	if !ok {
		return
	}
	step, e := r.busy, r.next
	seg := r.meta.Segments[r.meta.SegmentOf(e)]
	r.c.call(s.bookie(seg.Ensemble[pos]), request{op: opRead, ledger: r.l.n, entry: e}, func(a answer) {
		if step != r.busy {
			return
		}
		switch r.read.Answer(pos, a.err) {
		case quorum.ReadDone:
			s.checkRead(r.l, e, a.copy)
			r.next++
			r.readNext()
		case quorum.ReadAsk:
			r.ask()
		case quorum.ReadFailed:
			r.failed(e)
		case quorum.ReadPending:
		}
	})
}

// failed looks at a read that no replica could serve. A confirmed entry is
// missing nowhere, unless the ensemble was changed behind the reader's back.
func (r *reader) failed(e bk.EntryID) {
	fresh := r.l.meta
	if quorum.Classify(r.read.Err()) == quorum.Missing &&
		fresh.Segments[fresh.SegmentOf(e)].Equal(r.meta.Segments[r.meta.SegmentOf(e)]) {
		r.c.s.violate("I1", "confirmed entry %d of L%d is missing on its whole write set", e, r.l.n)
	}
	r.busy++
	r.later()
}
