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
		l = pick(s, s.ledgers)
	}
	s.newRecoverer(l, func(error) {})
}

func (s *sim) newRecoverer(l *ledger, done func(error)) {
	c := s.newClient("r" + string(rune('a'+len(s.clients)%26)))
	if s.chance(0.3) { // dies in the middle
		s.after(s.rng.Int64N(s.prof.chaos/4), func() { c.dead = true })
	}
	s.recoverWith(c, l, done)
}

// recoverer is the shell around one Recovery core.
type recoverer struct {
	c      *client
	l      *ledger
	core   *quorum.Recovery
	meta   metaShell
	kept   map[bk.EntryID]copyOf // payloads to write back
	frames map[bk.EntryID]copyOf
	done   func(error)
}

// recoverWith reads the metadata of l and recovers it.
func (s *sim) recoverWith(c *client, l *ledger, done func(error)) {
	var m quorum.Metadata
	var version int
	c.metaCall(func() { m, version = l.meta, l.version }, func(known bool) {
		if !known {
			done(bk.ErrTimeout)
			return
		}
		core, err := quorum.NewRecovery(quorum.RecoveryConfig{
			Ledger: bk.LedgerID(l.n), Quorum: s.q, Metadata: m, WindowMax: s.prof.windowMax, Mutation: s.opts.Mutation,
		})
		if err != nil {
			s.violate("sim", "recovery of L%d: %v", l.n, err)
			return
		}
		s.stats.Recoveries++
		s.tracef("%s recovers L%d v%d", c.name, l.n, version)
		r := &recoverer{c: c, l: l, core: core, done: done, kept: map[bk.EntryID]copyOf{}, frames: map[bk.EntryID]copyOf{}}
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
			r.readLAC(a)
		case quorum.ActRead:
			r.read(a)
		case quorum.ActFrame:
			c := r.kept[a.Entry]
			c.lac, c.length = a.LAC, a.Length
			r.frames[a.Entry] = c
		case quorum.ActSend:
			r.send(a)
		case quorum.ActPick:
			r.c.pick(a.Change, r.core, r.act)
		case quorum.ActFinished:
			r.finished(a.Err)
		}
	}
}

func (r *recoverer) readLAC(a quorum.Action) {
	req := request{op: opLACRead, ledger: r.l.n, entry: bk.InvalidEntryID}
	r.c.call(r.c.s.bookie(a.Bookie), req, func(ans answer) {
		r.c.s.tracef("%s fence L%d at %s: last=%d lac=%d %v", r.c.name, r.l.n, a.Bookie, ans.entry, ans.copy.lac, ans.err)
		r.core.LACAnswer(a.Slot, quorum.LACAnswer{Entry: ans.entry, LAC: ans.copy.lac, Length: ans.copy.length}, ans.err)
		r.act()
	})
}

func (r *recoverer) read(a quorum.Action) {
	r.c.s.noteReading(r.l, a)
	req := request{op: opRead, ledger: r.l.n, entry: a.Entry}
	if a.Fence {
		req.op = opFenceRead
	}
	r.c.call(r.c.s.bookie(a.Bookie), req, func(ans answer) {
		r.c.s.tracef("%s read %d of L%d at %s: %v", r.c.name, a.Entry, r.l.n, a.Bookie, ans.err)
		if r.core.ReadAnswer(a.Entry, a.Slot, ans.copy.length, ans.err) {
			r.kept[a.Entry] = ans.copy
		}
		r.act()
	})
}

func (r *recoverer) send(a quorum.Action) {
	req := request{op: opRecoveryAdd, ledger: r.l.n, entry: a.Entry, copy: r.frames[a.Entry]}
	r.c.call(r.c.s.bookie(a.Bookie), req, func(ans answer) {
		r.c.s.tracef("%s write back %d of L%d at %s: %v", r.c.name, a.Entry, r.l.n, a.Bookie, ans.err)
		if ans.err == nil {
			r.core.Ack(a.Entry, a.Slot)
		} else {
			r.core.Fail(a.Entry, a.Slot, ans.err)
		}
		r.act()
	})
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
