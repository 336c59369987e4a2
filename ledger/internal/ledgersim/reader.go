package ledgersim

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// reader follows one ledger without recovering it: it learns the LAC from
// bookies and the end from metadata, and reads what is confirmed.
type reader struct {
	c     *client
	l     *ledger
	meta  quorum.Metadata
	conf  quorum.Confirmed
	next  bk.EntryID
	lac   quorum.LACRead
	poll  quorum.Poll
	read  quorum.Read
	began int   // stored version when the read began
	busy  int32 // number of the step: answers to an earlier one are void
}

func (s *sim) newReader() {
	if s.quiet {
		return
	}
	if len(s.ledgers) == 0 {
		s.after(100, s.newReader)
		return
	}
	l := s.ledgers[len(s.ledgers)-1]
	if s.rng.IntN(3) == 0 {
		l = s.ledgers[s.rng.IntN(len(s.ledgers))]
	}
	r := &reader{c: s.newClient("t"), l: l}
	r.conf = quorum.NewConfirmed(quorum.Metadata{})
	r.refresh()
}

func (r *reader) later() {
	r.busy++
	r.c.run(1+r.c.s.rng.Int64N(200), r.refresh)
}

// refresh reads the metadata, then looks for news unless the ledger is closed
// (rules 25, 26).
func (r *reader) refresh() {
	s := r.c.s
	if s.quiet {
		return
	}
	var m quorum.Metadata
	r.c.metaCall(func() { m, _ = s.stale(r.l) }, func(known bool) {
		if !known || r.l.deleted {
			r.later()
			return
		}
		if len(m.Segments) >= len(r.meta.Segments) { // versions only go up in a handle
			r.meta = m
		}
		before := r.conf.LAC()
		r.conf.Observe(m)
		s.checkLAC(r.l, before, r.conf.LAC(), false)
		switch {
		case r.conf.Readable(r.next) || r.conf.Closed():
			r.readNext()
		case s.rng.IntN(2) == 0:
			r.askLAC()
		default:
			r.startPoll()
		}
	})
}

func (r *reader) askLAC() {
	r.busy++
	r.lac.Start(bk.LedgerID(r.l.n), r.c.s.q)
	for p, b := range r.meta.Last().Ensemble {
		req := request{op: opRead, ledger: r.l.n, entry: bk.InvalidEntryID}
		r.c.call(r.c.s.bookie(b), req, r, quorum.Slot{Pos: p}, r.busy)
	}
}

// startPoll polls for the next entry, one bookie at a time (rule 29).
func (r *reader) startPoll() {
	r.busy++
	r.c.s.stats.Polls++
	r.poll.Start(r.c.s.q, r.next, r.c.s.rng.IntN(r.c.s.q.Ensemble))
	r.askPoll()
}

func (r *reader) askPoll() {
	if p, ok := r.poll.Next(); ok {
		req := request{op: opPoll, ledger: r.l.n, entry: r.next}
		r.c.call(r.c.s.bookie(r.meta.Last().Ensemble[p]), req, r, quorum.Slot{Pos: p}, r.busy)
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
	r.began = r.l.version
	r.read.Start(r.c.s.q, r.next, nil)
	r.ask()
	if r.c.s.prof.on.has(FeatHedge) {
		step := r.busy
		r.c.run(r.c.s.rng.Int64N(r.c.s.prof.requestLimit), func() {
			if step == r.busy {
				r.ask()
			}
		})
	}
}

func (r *reader) ask() {
	pos, ok := r.read.Next()
	if !ok {
		return
	}
	seg := r.meta.Segments[r.meta.SegmentOf(r.next)]
	req := request{op: opRead, ledger: r.l.n, entry: r.next}
	r.c.call(r.c.s.bookie(seg.Ensemble[pos]), req, r, quorum.Slot{Pos: pos}, r.busy)
}

func (r *reader) answer(k *call, a answer) {
	if k.tag != r.busy {
		return
	}
	switch {
	case k.request.op == opPoll:
		r.pollAnswer(k, a)
	case k.request.entry == bk.InvalidEntryID:
		r.lacAnswer(k, a)
	default:
		r.readAnswer(k, a)
	}
}

func (r *reader) lacAnswer(k *call, a answer) {
	ans := quorum.LACAnswer{Entry: a.entry, LAC: max(a.copy.lac, a.maxLAC), Length: a.copy.length}
	switch r.lac.Answer(k.slot.Pos, ans, a.err) {
	case quorum.LACCovered:
		r.raise(r.lac.LAC())
		r.readNext()
	case quorum.LACFailed:
		r.later()
	case quorum.LACPending:
	}
}

func (r *reader) pollAnswer(k *call, a answer) {
	switch r.poll.Answer(k.slot.Pos, quorum.PollAnswer{Entry: a.entry, MaxLAC: a.maxLAC}, a.err) {
	case quorum.PollEntry:
		r.raise(r.next)
		r.c.s.checkRead(r.l, r.next, a.copy)
		r.next++
		r.readNext()
	case quorum.PollLAC:
		r.raise(a.maxLAC)
		r.readNext()
	case quorum.PollAsk:
		r.askPoll()
	case quorum.PollEmpty, quorum.PollFailed:
		r.later()
	case quorum.PollPending:
	}
}

func (r *reader) raise(lac bk.EntryID) {
	before := r.conf.LAC()
	news := r.conf.Raise(lac)
	r.c.s.checkLAC(r.l, before, r.conf.LAC(), news)
}

func (r *reader) readAnswer(k *call, a answer) {
	switch r.read.Answer(k.slot.Pos, a.err) {
	case quorum.ReadDone:
		r.c.s.checkRead(r.l, r.next, a.copy)
		r.next++
		r.readNext()
	case quorum.ReadAsk:
		r.ask()
	case quorum.ReadFailed:
		r.c.s.checkMissing(r.l, r.began, r.meta, r.next, r.read.Err())
		r.later()
	case quorum.ReadPending:
	}
}
