package ledgersim

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// newRecovererActor recovers some ledger at some moment, beside whoever else
// does.
func (s *sim) newRecovererActor() {
	if len(s.ledgers) == 0 || s.quiet {
		return
	}
	l := s.ledgers[len(s.ledgers)-1]
	if s.rng.IntN(4) == 0 {
		l = s.ledgers[s.rng.IntN(len(s.ledgers))]
	}
	s.newRecoverer(l, nil)
}

func (s *sim) newRecoverer(l *ledger, done func(error)) {
	c := s.newClient("r")
	if s.chance(0.3) { // dies in the middle
		s.after(s.rng.Int64N(s.prof.chaos/4+1), func() { c.dead = true })
	}
	s.recoverWith(c, l, done)
}

// recoverer is the shell around one Recovery core.
type recoverer struct {
	c       *client
	l       *ledger
	core    *quorum.Recovery
	meta    metaShell
	entries []recoveredEntry // by entry
	done    func(error)
}

// recoveredEntry is the payload to write back, and the copy framed with it.
type recoveredEntry struct{ kept, frame copyOf }

func (r *recoverer) entry(e bk.EntryID) *recoveredEntry {
	for int(e) >= len(r.entries) {
		r.entries = append(r.entries, recoveredEntry{})
	}
	return &r.entries[e]
}

// recoverWith reads the metadata of l and recovers it.
func (s *sim) recoverWith(c *client, l *ledger, done func(error)) {
	if done == nil {
		done = func(error) {}
	}
	var m quorum.Metadata
	var version int
	c.metaCall(func() { m, version = s.stale(l) }, func(known bool) {
		if !known {
			done(bk.ErrTimeout)
			return
		}
		core, err := quorum.NewRecovery(quorum.RecoveryConfig{
			Ledger: bk.LedgerID(l.n), Quorum: s.q, Metadata: m, WindowMax: s.prof.windowMax,
		})
		if err != nil {
			s.violate("sim", "recovery of L%d: %v", l.n, err)
			return
		}
		s.stats.Recoveries++
		s.tracef("%s recovers L%d v%d", c.name, l.n, version)
		r := &recoverer{c: c, l: l, core: core, done: done}
		s.recoverers = append(s.recoverers, r)
		r.meta = metaShell{c: c, l: l, version: version, core: core, after: r.act}
		r.act()
	})
}

// act carries out what the core asks for.
func (r *recoverer) act() {
	for _, a := range r.core.Actions() {
		switch a.Kind {
		case quorum.ActUpdate:
			r.meta.update(a.Metadata)
		case quorum.ActReadLAC:
			req := request{op: opLACRead, ledger: r.l.n, entry: bk.InvalidEntryID}
			if !a.Fence {
				req.op = opRead
			}
			r.c.call(r.c.s.bookie(a.Bookie), req, r, a.Slot, 0)
		case quorum.ActRead:
			r.c.s.noteReading(r.l)
			req := request{op: opRead, ledger: r.l.n, entry: a.Entry}
			if a.Fence {
				req.op = opFenceRead
			}
			r.c.call(r.c.s.bookie(a.Bookie), req, r, a.Slot, 0)
		case quorum.ActFrame:
			x := r.entry(a.Entry)
			x.frame = copyOf{payload: x.kept.payload, lac: a.LAC, length: a.Length}
		case quorum.ActSend:
			req := request{op: opRecoveryAdd, ledger: r.l.n, entry: a.Entry, copy: r.entry(a.Entry).frame}
			r.c.call(r.c.s.bookie(a.Bookie), req, r, a.Slot, 0)
		case quorum.ActPick:
			r.c.pick(a.Change, r.core, r.act)
		case quorum.ActFinished:
			r.finished(a.Err)
		}
	}
}

func (r *recoverer) answer(k *call, a answer) {
	e := k.request.entry
	if r.c.s.opts.Trace != nil {
		what := [opCount]string{opRecoveryAdd: "write back", opRead: "read", opFenceRead: "read", opLACRead: "fence"}[k.request.op]
		r.c.s.tracef("%s %s %d of L%d at %s: entry=%d lac=%d %v", r.c.name, what, e, r.l.n, k.b.id, a.entry, a.copy.lac, a.err)
	}
	switch {
	case k.request.op == opRecoveryAdd && a.err == nil:
		r.core.Ack(e, k.slot)
	case k.request.op == opRecoveryAdd:
		r.core.Fail(e, k.slot, a.err)
	case e == bk.InvalidEntryID:
		r.core.LACAnswer(k.slot, quorum.LACAnswer{Entry: a.entry, LAC: a.copy.lac, Length: a.copy.length}, a.err)
	default:
		if r.core.ReadAnswer(e, k.slot, a.copy.length, a.err) {
			r.entry(e).kept = a.copy
		}
	}
	r.act()
}

func (r *recoverer) finished(err error) {
	s := r.c.s
	s.tracef("%s recovery of L%d: %v", r.c.name, r.l.n, err)
	if err == nil {
		s.stats.Recovered += r.core.Recovered()
		r.l.recoveries = append(r.l.recoveries, r.core.Result())
	}
	r.done(err)
}
