package ledgersim

import (
	"errors"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// writerActor is a client that wants to write the stream: it recovers the last
// ledger, starts the next, writes until it loses it, and may come back.
type writerActor struct {
	c     *client
	lives int
}

func (s *sim) newWriterActor() {
	w := &writerActor{c: s.newClient("w"), lives: 1 + s.rng.IntN(s.prof.lives)}
	w.takeover()
}

// takeover recovers what is there and starts a ledger of its own.
func (w *writerActor) takeover() {
	s := w.c.s
	if s.quiet || w.lives == 0 {
		return
	}
	w.lives--
	version := s.list.version
	create := func() {
		w.c.createLedger(version, func(l *ledger) {
			if l == nil {
				w.later()
				return
			}
			w.write(l)
		})
	}
	if len(s.ledgers) == 0 || s.ledgers[len(s.ledgers)-1].deleted {
		create()
		return
	}
	s.recoverWith(w.c, s.ledgers[len(s.ledgers)-1], func(err error) {
		if err != nil {
			w.later()
			return
		}
		create()
	})
}

func (w *writerActor) later() {
	w.c.run(w.c.s.rng.Int64N(w.c.s.prof.stealMax), w.takeover)
}

// ledgerWriter is the shell around one Writer core.
type ledgerWriter struct {
	actor    *writerActor
	c        *client
	l        *ledger
	core     *quorum.Writer
	meta     metaShell
	pushFn   func()
	left     int               // entries still to push
	seen     [bookiesMax]int32 // by bookie: epoch of the connection answers came over, plus one
	finished bool
}

func (w *writerActor) write(l *ledger) {
	s := w.c.s
	core, err := quorum.NewWriter(quorum.WriterConfig{
		Quorum: s.q, Metadata: l.history[0], Policy: s.prof.policy, DeferredSync: l.deferred,
	})
	if err != nil {
		s.violate("sim", "%s cannot write L%d: %v", w.c.name, l.n, err)
		return
	}
	lw := &ledgerWriter{actor: w, c: w.c, l: l, core: core, left: 1 + s.rng.IntN(s.prof.pushesMax)}
	lw.meta = metaShell{c: w.c, l: l, version: 0, core: core, after: lw.act}
	lw.pushFn = lw.push
	s.writers = append(s.writers, lw)
	lw.pushLater()
}

func (w *ledgerWriter) pushLater() {
	w.c.run(w.c.s.rng.Int64N(w.c.s.prof.pushGap), w.pushFn)
}

// push pushes a burst, or decides what to do at the end.
func (w *ledgerWriter) push() {
	s := w.c.s
	if s.quiet {
		return
	}
	for range 1 + s.rng.IntN(4) {
		if w.left == 0 || w.core.Pending() >= s.prof.outstanding || w.core.Err() != nil {
			break
		}
		w.left--
		w.pushOne()
	}
	w.act()
	switch {
	case w.core.Err() != nil:
	case w.left > 0:
		w.pushLater()
	case s.chance(0.3):
		w.core.Abort(bk.ErrClosed)
		w.act()
	case s.chance(0.7):
		w.c.run(s.rng.Int64N(500), func() { w.core.Close(); w.act() })
	}
	if w.core.Err() == nil && s.rng.IntN(3) == 0 {
		w.core.BookiesChanged()
		w.act()
	}
	if w.core.Err() == nil && s.prof.on.has(FeatPublish) && s.rng.IntN(3) == 0 {
		w.publishLAC()
	}
	if w.l.deferred && w.core.Err() == nil && s.rng.IntN(3) == 0 {
		if _, err := w.core.Force(); err == nil {
			s.stats.Forces++
		}
		w.act()
	}
}

func (w *ledgerWriter) pushOne() {
	s := w.c.s
	add, err := w.core.Push(s.rng.IntN(4))
	if err != nil {
		return
	}
	s.stats.Pushed++
	if int(add.Entry) != len(w.l.pushed) {
		s.violate("rule 4", "%s pushed entry %d of L%d after %d", w.c.name, add.Entry, w.l.n, len(w.l.pushed)-1)
		return
	}
	w.l.pushed = append(w.l.pushed, pushed{payload: s.rng.Uint64() | 1, length: add.Length, lac: add.LAC, at: s.now})
	if s.opts.Trace != nil {
		s.tracef("%s pushes %d to L%d lac=%d", w.c.name, add.Entry, w.l.n, add.LAC)
	}
	for k := range s.q.Write {
		p := (add.First + k) % s.q.Ensemble
		w.send(add.Entry, w.core.Slot(p), w.core.Bookie(p))
	}
}

func (w *ledgerWriter) send(e bk.EntryID, slot quorum.Slot, b bk.BookieID) {
	p := &w.l.pushed[e]
	w.c.call(w.c.s.bookie(b), request{
		op: opAdd, deferred: w.l.deferred, ledger: w.l.n, entry: e,
		copy: copyOf{payload: p.payload, lac: p.lac, length: p.length},
	}, w, slot, 0)
}

func (w *ledgerWriter) answer(k *call, a answer) {
	s := w.c.s
	if s.opts.Trace != nil && k.request.op != opWriteLAC {
		s.tracef("%s add %d of L%d at %s (force %d): %v", w.c.name, k.request.entry, w.l.n, k.b.id, k.tag, a.err)
	}
	if a.err == nil {
		w.heardFrom(k)
	}
	e := k.request.entry
	switch {
	case k.request.op == opWriteLAC:
		return
	case k.request.op == opForce && a.err == nil:
		w.core.ForceAck(uint32(k.tag), k.slot)
	case k.request.op == opForce:
		w.core.ForceFail(uint32(k.tag), k.slot, a.err)
	case a.err == nil:
		w.core.Ack(e, k.slot)
	default:
		w.core.Fail(e, k.slot, a.err)
	}
	w.act()
}

// heardFrom tells the core of a connection made since the ledger was created,
// before the first answer that came over it.
func (w *ledgerWriter) heardFrom(k *call) {
	s := w.c.s
	if !s.prof.on.has(FeatConnection) || w.seen[k.b.n] == k.epoch+1 || w.core.Slot(k.slot.Pos) != k.slot {
		return
	}
	again := w.seen[k.b.n] != 0
	w.seen[k.b.n] = k.epoch + 1
	if (again || w.c.links[k.b.n].made >= w.l.created) && s.opts.Bug != BugNoDoubt {
		w.core.Doubt(k.slot, again)
	}
}

// publishLAC sends the LAC to its write set, as an idle writer does (rule 13).
func (w *ledgerWriter) publishLAC() {
	lac := w.core.LAC()
	if lac < 0 {
		return
	}
	for k := range w.c.s.q.Write {
		p := quorum.Position(w.c.s.q, lac, k)
		req := request{op: opWriteLAC, ledger: w.l.n, entry: lac, copy: copyOf{lac: lac}}
		w.c.call(w.c.s.bookie(w.core.Bookie(p)), req, w, w.core.Slot(p), 0)
	}
}

// act reports completions and carries out what the core asks for.
func (w *ledgerWriter) act() {
	s := w.c.s
	s.checkProgress(w.l, w.core, w.c.name)
	for _, a := range w.core.Actions() {
		switch a.Kind {
		case quorum.ActSend:
			w.send(a.Entry, a.Slot, a.Bookie)
		case quorum.ActPick:
			w.c.pick(a.Change, w.core, w.act)
		case quorum.ActUpdate:
			w.meta.update(a.Metadata)
		case quorum.ActForce:
			w.c.call(s.bookie(a.Bookie), request{op: opForce, ledger: w.l.n}, w, a.Slot, int32(a.Force))
		case quorum.ActFailed:
			s.tracef("%s fails %d..%d of L%d: %v", w.c.name, a.Entry, a.Last, w.l.n, a.Err)
			s.checkFailed(w.l, a.Entry, a.Last, w.c.name)
		case quorum.ActFinished:
			s.tracef("%s done with L%d: %v", w.c.name, w.l.n, a.Err)
			w.finished = true
			s.checkWriterEnd(w.l, w.core, a.Err)
			w.actor.later()
		}
	}
}

// replacer is what a Writer and a Recovery have in common for picks.
type replacer interface {
	Replace([]quorum.Pick) error
	NoBookies(error)
}

var errNoneLeft = errors.New("no other bookie")

func (c *client) pick(ch quorum.Change, core replacer, after func()) {
	s := c.s
	s.stats.Changes++
	c.run(s.rng.Int64N(5), func() {
		avoid := append(append([]bk.BookieID(nil), ch.Ensemble...), ch.Avoid...)
		var picks []quorum.Pick
		for _, p := range ch.Failed {
			if b := s.choose(avoid); b != nil {
				picks = append(picks, quorum.Pick{Pos: p, Bookie: b.id})
				avoid = append(avoid, b.id)
			}
		}
		if len(picks) == 0 {
			core.NoBookies(errNoneLeft)
		} else if err := core.Replace(picks); err != nil {
			s.violate("rule 15", "%s: picks %v for %v refused: %v", c.name, picks, ch, err)
		}
		after()
	})
}
