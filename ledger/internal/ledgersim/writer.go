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
	w := &writerActor{c: s.newClient("w" + string(rune('1'+len(s.clients)%9))), lives: 1 + s.rng.IntN(s.prof.lives)}
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
	if len(s.ledgers) == 0 {
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
	actor *writerActor
	c     *client
	l     *ledger
	core  *quorum.Writer
	meta  metaShell
	done  bk.EntryID // completions reported
	left  int        // entries still to push
	lacs  []bk.EntryID
}

func (w *writerActor) write(l *ledger) {
	s := w.c.s
	core, err := quorum.NewWriter(quorum.WriterConfig{
		Quorum: s.q, Metadata: l.meta, Policy: s.prof.policy, Mutation: s.opts.Mutation,
	})
	if err != nil {
		s.tracef("%s cannot write L%d: %v", w.c.name, l.n, err) // recovered before it began
		w.later()
		return
	}
	lw := &ledgerWriter{actor: w, c: w.c, l: l, core: core, done: bk.InvalidEntryID, left: 1 + s.rng.IntN(s.prof.pushesMax)}
	lw.meta = metaShell{c: w.c, l: l, version: 0, core: core, after: lw.act}
	if l.version != 0 { // the answer of the creation was slow
		lw.meta.version = -1
	}
	lw.pushLater()
}

func (w *ledgerWriter) pushLater() {
	w.c.run(w.c.s.rng.Int64N(2*w.c.s.prof.delayMax+4), w.push)
}

// push pushes a burst, or decides what to do at the end.
func (w *ledgerWriter) push() {
	s := w.c.s
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
	if w.core.Err() == nil && s.rng.IntN(3) == 0 {
		w.publishLAC()
	}
}

func (w *ledgerWriter) pushOne() {
	s := w.c.s
	n := s.rng.IntN(4)
	add, err := w.core.Push(n)
	if err != nil {
		return
	}
	s.stats.Pushed++
	if int(add.Entry) != len(w.l.pushed) {
		s.violate("rule 4", "%s pushed entry %d of L%d after %d", w.c.name, add.Entry, w.l.n, len(w.l.pushed)-1)
		return
	}
	payload := s.rng.Uint64() | 1
	w.l.pushed = append(w.l.pushed, pushed{payload: payload, length: add.Length, at: s.now})
	w.lacs = append(w.lacs, add.LAC)
	s.tracef("%s pushes %d to L%d lac=%d", w.c.name, add.Entry, w.l.n, add.LAC)
	for k := range s.q.Write {
		p := quorum.Position(s.q, add.Entry, k)
		w.send(add.Entry, w.core.Slot(p), w.core.Bookie(p))
	}
}

func (w *ledgerWriter) send(e bk.EntryID, slot quorum.Slot, b bk.BookieID) {
	p := w.l.pushed[e]
	r := request{op: opAdd, ledger: w.l.n, entry: e, copy: copyOf{payload: p.payload, lac: w.lacs[e], length: p.length}}
	w.c.call(w.c.s.bookie(b), r, func(a answer) {
		w.c.s.tracef("%s add %d of L%d at %s: %v", w.c.name, e, w.l.n, b, a.err)
		if a.err == nil {
			w.core.Ack(e, slot)
		} else {
			w.core.Fail(e, slot, a.err)
		}
		w.act()
	})
}

// publishLAC sends the LAC to its write set, as an idle writer does (rule 13).
func (w *ledgerWriter) publishLAC() {
	lac := w.core.LAC()
	if lac < 0 {
		return
	}
	for k := range w.c.s.q.Write {
		b := w.core.Bookie(quorum.Position(w.c.s.q, lac, k))
		w.c.call(w.c.s.bookie(b), request{op: opWriteLAC, ledger: w.l.n, copy: copyOf{lac: lac}}, func(answer) {})
	}
}

// act reports completions and carries out what the core asks for.
func (w *ledgerWriter) act() {
	s := w.c.s
	for w.done < w.core.Completed() {
		w.done++
		s.checkAck(w.l, w.done, w.c.name)
	}
	for _, a := range w.core.Actions() {
		switch a.Kind {
		case quorum.ActSend:
			w.send(a.Entry, a.Slot, a.Bookie)
		case quorum.ActPick:
			w.pick(a.Change)
		case quorum.ActUpdate:
			w.meta.update(a.Metadata)
		case quorum.ActFailed:
			s.tracef("%s fails %d..%d of L%d: %v", w.c.name, a.Entry, a.Last, w.l.n, a.Err)
		case quorum.ActFinished:
			s.tracef("%s done with L%d: %v", w.c.name, w.l.n, a.Err)
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

func (w *ledgerWriter) pick(ch quorum.Change) { w.c.pick(ch, w.core, w.act) }

func (c *client) pick(ch quorum.Change, core replacer, after func()) {
	s := c.s
	s.stats.Changes++
	c.run(s.rng.Int64N(5), func() {
		avoid := append(append([]bk.BookieID(nil), ch.Ensemble...), ch.Avoid...)
		var picks []quorum.Pick
		for _, p := range ch.Failed {
			if b, ok := s.choose(1, avoid); ok {
				picks = append(picks, quorum.Pick{Pos: p, Bookie: b[0]})
				avoid = append(avoid, b[0])
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
