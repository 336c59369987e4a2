package ledger

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// act carries out what the core asks for, until it asks for no more. The caller
// holds mu.
func (w *Writer) act() {
	for {
		// The core's slice is good until the next event, and actions are events.
		w.acts = append(w.acts[:0], w.core.Actions()...)
		if len(w.acts) == 0 {
			return
		}
		for i := range w.acts {
			w.carryOut(&w.acts[i])
		}
		clear(w.acts)
	}
}

func (w *Writer) carryOut(a *quorum.Action) {
	switch a.Kind {
	case quorum.ActSend:
		if w.slots[a.Slot.Pos].gen == a.Slot.Gen && a.Entry >= w.head && a.Entry <= w.core.LastPushed() {
			w.send(a.Entry, a.Slot.Pos)
			w.dirty = true
		}
	case quorum.ActFailed:
		w.popCompleted()
		if errors.Is(a.Err, bk.ErrFenced) {
			w.foundFenced(a.Err)
		}
		w.popFailed(a.Last, a.Err)
	case quorum.ActPick:
		pick := newPickRequest(w.q, w.placement, a, false)
		w.changeOf = pick.ensemble
		w.spawn(func() { w.pick(pick) })
	case quorum.ActUpdate:
		want := a.Metadata
		w.spawn(func() { w.update(want) })
	case quorum.ActForce:
		w.sendForce(a)
	case quorum.ActFinished:
		w.finish(a.Err)
	}
}

// spawn runs f on a goroutine of the client. The caller holds mu.
func (w *Writer) spawn(f func()) {
	if !w.c.enter() {
		w.core.Abort(bk.ErrClosed)
		return
	}
	go func() {
		defer w.c.wg.Done()
		f()
	}()
}

func (w *Writer) foundFenced(cause error) {
	w.c.metrics.fenced.Inc()
	w.c.opts.Logger.Info("ledger fenced by another client", zap.Int64("ledger", int64(w.id)), zap.Error(cause))
	if f := w.c.opts.Events.Fenced; f != nil {
		w.spawn(func() { f(w.id) })
	}
}

// finish ends the writer. The caller holds mu.
func (w *Writer) finish(err error) {
	w.finishErr = err
	w.lacTimer.Stop()
	for p := range w.slots {
		if a := w.slots[p].adds; a != nil {
			a.Detach()
			w.slots[p].adds = nil
		}
	}
	if w.chunk != nil {
		w.chunk.Release()
		w.chunk = nil
	}
	for _, f := range w.flushes {
		f.ch <- w.core.Err()
	}
	w.flushes = nil
	if w.advanced != nil {
		w.advanced.end(w.core.Err())
	}
	for id, ch := range w.forces {
		ch <- w.core.Err()
		delete(w.forces, id)
	}
	w.freed()
	close(w.finished)
	w.c.mu.Lock()
	delete(w.c.writers, w)
	w.c.mu.Unlock()
	if err != nil {
		w.c.opts.Logger.Info("writer ended", zap.Int64("ledger", int64(w.id)),
			zap.Int64("lac", int64(w.core.LAC())), zap.Error(err))
	}
}

// pick finds substitutes for failed bookies (rule 15).
func (w *Writer) pick(r pickRequest) {
	ctx, cancel := context.WithTimeout(w.c.ctx, w.c.opts.MetadataTimeout)
	defer cancel()
	picks, err := w.c.reachable(ctx, r)
	w.mu.Lock()
	if err == nil {
		err = w.core.Replace(picks)
	}
	if err != nil {
		w.c.opts.Logger.Info("no substitute for failed bookies", zap.Int64("ledger", int64(w.id)), zap.Error(err))
		w.core.NoBookies(err)
	}
	w.act()
	w.settle()
}

// pickAttempts is how often substitutes are chosen for one change because some
// of those chosen before could not be reached.
const pickAttempts = 3

// reachable chooses substitutes and connects to them. The list of bookies may
// name dead ones, and that a bookie failed is remembered only a while: others
// are chosen for those that refuse the connection, as long as there are any. If
// there are none it gives the choice of which the fewest refused.
func (c *Client) reachable(ctx context.Context, r pickRequest) ([]quorum.Pick, error) {
	best, err := c.substitutes(ctx, r)
	if err != nil {
		return nil, err
	}
	lost := c.refused(ctx, best)
	least := len(lost)
	for attempt := 1; least > 0 && attempt < pickAttempts; attempt++ {
		r.failed = append(r.failed, lost...)
		picks, err := c.substitutes(ctx, r)
		if err != nil || len(picks) < len(best) {
			break // there are no others
		}
		if lost = c.refused(ctx, picks); len(lost) < least {
			best, least = picks, len(lost)
		}
	}
	return best, nil
}

// refused gives those of the picks that could not be connected to.
func (c *Client) refused(ctx context.Context, picks []quorum.Pick) []bk.BookieID {
	ids := make([]bk.BookieID, len(picks))
	for i, p := range picks {
		ids[i] = p.Bookie
	}
	return c.dialAhead(ids)(ctx)
}

// update writes the metadata that the core wants. At most one runs at a time:
// the core asks for the next after the answer.
func (w *Writer) update(want quorum.Metadata) {
	ctx, cancel := context.WithTimeout(w.c.ctx, w.c.opts.MetadataTimeout)
	defer cancel()
	epochs := w.c.epochs(want.Last().Ensemble)
	err := w.stored.update(ctx, want)
	if err != nil {
		clear(epochs)
	}
	w.mu.Lock()
	before := w.core.Metadata()
	switch {
	case err == nil:
		w.core.Updated()
	case errors.Is(err, errStale):
		w.core.Conflict(w.stored.core())
	default:
		w.core.UpdateFailed(err)
	}
	w.syncSlots(before, epochs)
	w.act()
	w.settle()
}

// syncSlots takes over the ensemble of the core after a metadata write, before
// which the connections to it had these epochs. The caller holds mu.
func (w *Writer) syncSlots(before quorum.Metadata, epochs []uint64) {
	change := EnsembleChange{Ledger: w.id, First: w.core.Metadata().Last().First}
	for p := range w.slots {
		s := &w.slots[p]
		gen := w.core.Slot(p).Gen
		if s.gen == gen {
			continue
		}
		if s.adds != nil {
			s.adds.Detach()
		}
		change.From = append(change.From, s.bookie.ID())
		change.To = append(change.To, w.core.Bookie(p))
		*s = slot{gen: gen, bookie: w.c.pool.Bookie(w.core.Bookie(p))}
		if !w.deferred {
			s.epoch = epochs[p]
		}
	}
	if len(change.To) == 0 {
		return
	}
	w.c.metrics.ensembleChanges.Inc()
	w.c.opts.Logger.Info("ensemble changed", zap.Int64("ledger", int64(w.id)), zap.Int64("entry", int64(change.First)),
		zap.Any("from", change.From), zap.Any("to", change.To), zap.Int("segments", len(before.Segments)))
	if f := w.c.opts.Events.EnsembleChanged; f != nil {
		w.spawn(func() { f(change) })
	}
}

// bookiesChanged lets the core look again for substitutes that were not to be
// had.
func (w *Writer) bookiesChanged() {
	w.mu.Lock()
	w.core.BookiesChanged()
	w.act()
	w.settle()
}
