package quorum

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/loglode/loglode/bookie/bk"
)

// startChange begins a round of the ensemble change for all positions that have
// failed, unless one is in flight: then they wait for the next (rule 14).
func (w *Writer) startChange() {
	w.blocked = true
	if (w.picking || w.updating != updateNone) && !seeded(mutTwoChanges) || w.phase != phaseOpen {
		return
	}
	if w.max > 0 && w.changes >= w.max {
		w.stop(fmt.Errorf("%d ensemble changes: %w", w.max, bk.ErrTooManyChanges))
		return
	}
	w.ask = w.ask[:0]
	for p := range w.ens {
		if w.ens[p].failed {
			w.ask = append(w.ask, p)
		}
	}
	w.picking = true
	w.act(Action{Kind: ActPick, Change: Change{
		Ensemble: w.Ensemble(), Failed: slices.Clone(w.ask), Avoid: slices.Clone(w.avoid),
	}})
}

// Replace answers ActPick with a bookie for positions asked for: none of them
// in the ensemble, none twice, one at least. Positions left out are asked for
// again. Other picks are refused and change nothing.
func (w *Writer) Replace(picks []Pick) error {
	if !w.picking {
		return nil // stopped or aborted since
	}
	if err := w.checkPicks(picks); err != nil {
		return err
	}
	w.picking = false
	ens := w.Ensemble()
	for _, p := range picks {
		ens[p.Pos] = p.Bookie
	}
	want, err := w.withEnsemble(w.meta, ens)
	if err != nil {
		w.stop(err)
		return nil
	}
	if w.inMemory { // rule 37
		w.meta = want
		w.adopt(want.Last().Ensemble)
		return nil
	}
	w.update(updateChange, want)
	return nil
}

func (w *Writer) checkPicks(picks []Pick) error {
	if len(picks) == 0 {
		return fmt.Errorf("no replacement for %d failed positions: %w", len(w.ask), bk.ErrNotEnoughBookies)
	}
	for i, p := range picks {
		switch {
		case !slices.Contains(w.ask, p.Pos):
			return fmt.Errorf("replacement for position %d, which was not asked for: %w", p.Pos, bk.ErrInvalidQuorum)
		case p.Bookie == "" || w.inEnsemble(p.Bookie):
			return fmt.Errorf("replacement %q for position %d is in the ensemble: %w", p.Bookie, p.Pos, bk.ErrInvalidBookieID)
		}
		for _, o := range picks[:i] {
			if o.Pos == p.Pos || o.Bookie == p.Bookie {
				return fmt.Errorf("replacement %q for position %d is given twice: %w", p.Bookie, p.Pos, bk.ErrInvalidBookieID)
			}
		}
	}
	return nil
}

func (w *Writer) inEnsemble(b bk.BookieID) bool {
	return slices.ContainsFunc(w.ens, func(p position) bool { return p.bookie == b })
}

// withEnsemble is m with ens from LAC + 1 on (rule 16).
func (w *Writer) withEnsemble(m Metadata, ens []bk.BookieID) (Metadata, error) {
	start := w.head
	if seeded(mutSegmentAtFailed) && w.next > w.head {
		start = w.next - 1
	}
	if seeded(mutSegmentAtLAC) && w.head > 0 {
		start = w.head - 1
	}
	last := m.Last().First
	out := m
	switch {
	case last > start:
		return Metadata{}, fmt.Errorf("last segment starts at entry %d, behind the last confirmed entry %d: %w", last, w.head-1, bk.ErrMetadataConflict)
	case last == start && !seeded(mutSegmentTwice):
		out.Segments = slices.Clone(m.Segments)
		out.Segments[len(out.Segments)-1] = Segment{First: start, Ensemble: ens}
	default:
		out.Segments = append(slices.Clone(m.Segments), Segment{First: start, Ensemble: ens})
	}
	return out, nil
}

// NoBookies answers ActPick when no position can be filled (rule 15).
func (w *Writer) NoBookies(err error) {
	if !w.picking {
		return
	}
	w.picking = false
	if w.policy == ReplaceOrFail || !w.enough() && !seeded(mutGoOnWithTooFew) {
		w.stop(fmt.Errorf("%w: %w", bk.ErrNotEnoughBookies, err))
		return
	}
	for p := range w.ens {
		if w.ens[p].failed {
			w.ens[p].failed = false
			w.ens[p].tolerated = true
		}
	}
	w.failing = 0
	w.resume()
}

// resume lets completions go on with the ensemble as it is. A change whose
// outcome was not known must not be applied behind their back, for it names
// other bookies for these entries: then the metadata are first written once
// more as they are, which voids every earlier compare-and-set (rule 48). So they
// are while a connection is in doubt.
func (w *Writer) resume() {
	if w.unsettled && !seeded(mutNoBarrier) || w.doubt && !seeded(mutTrustConnection) {
		w.update(updateChange, w.meta)
		return
	}
	w.blocked = false
	if !seeded(mutNoReexamine) {
		w.advance()
	}
}

// enough reports whether every pending add can still get its ack quorum from
// the current ensemble.
func (w *Writer) enough() bool {
	for e := w.head; e < w.next; e++ {
		p := w.at(e)
		if bits.OnesCount64(p.fails&^p.acks) > w.q.Write-w.q.Ack {
			return false
		}
	}
	return true
}

// BookiesChanged says that other bookies may be had now: positions the writer
// went on without are to be replaced after all, at the next Push if no add is
// pending.
func (w *Writer) BookiesChanged() {
	if w.phase != phaseOpen || w.policy != ReplaceOrGoOn {
		return
	}
	w.untolerate()
	if w.failing > 0 && w.head < w.next {
		w.startChange()
	}
}

// Doubt says that a bookie of the ensemble is reached by another connection than
// before, and so may have lost what it held, the fence of a recovery among it:
// its acknowledgements do not prove any more that the ledger is still this
// writer's. Nothing completes until a compare-and-set made after this has shown
// that no recovery had begun: a recovery that begins later fences the bookie as
// it is now, or the connection breaks again.
//
// again tells that there was a connection to this slot before. With deferred sync
// the bookie may have lost what it acknowledged over that one and no force has
// made durable: that ends the ledger (rule 12).
func (w *Writer) Doubt(s Slot, again bool) {
	if w.phase != phaseOpen || w.inMemory || s.Pos < 0 || s.Pos >= len(w.ens) || w.ens[s.Pos].gen != s.Gen {
		return
	}
	if last := w.ens[s.Pos].acked - 1; w.deferred && again && last > w.lac && !seeded(mutKeepUnforced) {
		w.stop(fmt.Errorf("connection to %s changed before entry %d, acknowledged there, was forced: %w",
			w.ens[s.Pos].bookie, last, bk.ErrBookieUnavailable))
		return
	}
	w.blocked, w.doubt = true, true
	if !w.picking && w.updating == updateNone {
		w.resume()
	}
}

func (w *Writer) update(kind updateKind, want Metadata) {
	w.doubt = false
	w.updating = kind
	w.want = want
	w.act(Action{Kind: ActUpdate, Metadata: want})
}

// Updated says that the metadata of ActUpdate is now what is stored.
func (w *Writer) Updated() {
	kind := w.updating
	w.updating = updateNone
	if kind == updateNone || w.phase == phaseDone {
		return
	}
	w.meta = w.want
	w.unsettled = false
	switch {
	case kind == updateClose:
		w.finish(nil)
	case w.phase == phaseClosing:
		w.writeClose()
	default:
		w.adopt(w.meta.Last().Ensemble)
	}
}

// Conflict says that ActUpdate lost its compare-and-set, or that its outcome is
// not known, and what is stored now, by a read that sees every earlier write
// (rules 17, 22, 48).
func (w *Writer) Conflict(fresh Metadata) {
	kind := w.updating
	w.updating = updateNone
	if kind == updateNone || w.phase == phaseDone {
		return
	}
	if err := fresh.validate(w.q); err != nil {
		w.stopUnclosed(err)
		return
	}
	if seeded(mutOverwriteConflict) {
		w.update(kind, w.want)
		return
	}
	switch fresh.State {
	case StateClosed:
		w.meta = fresh
		w.foundClosed()
	case StateInRecovery:
		if seeded(mutChangeInRecovery) {
			w.conflictOpen(fresh)
			return
		}
		w.meta = fresh
		w.stopUnclosed(fmt.Errorf("ledger is being recovered: %w", bk.ErrFenced))
	default:
		w.conflictOpen(fresh)
	}
}

// conflictOpen goes on from fresh metadata that are still open.
func (w *Writer) conflictOpen(fresh Metadata) {
	if first := fresh.Last().First; first > w.head || first < w.meta.Last().First {
		w.stopUnclosed(fmt.Errorf("last segment starts at entry %d, this writer's at %d with entry %d confirmed: %w",
			first, w.meta.Last().First, w.head-1, bk.ErrMetadataConflict))
		return
	}
	w.meta = fresh
	w.unsettled = slices.Equal(fresh.Last().Ensemble, w.Ensemble())
	if w.phase == phaseClosing {
		w.writeClose()
		return
	}
	w.adopt(fresh.Last().Ensemble)
}

// UpdateFailed says that ActUpdate could not be carried out and that what is
// stored cannot be learned either. The writer ends: it must not acknowledge
// what nobody might find.
func (w *Writer) UpdateFailed(err error) {
	kind := w.updating
	w.updating = updateNone
	if kind == updateNone || w.phase == phaseDone {
		return
	}
	w.stopUnclosed(fmt.Errorf("write ledger metadata: %w", err))
}

// adopt makes ens, now stored as the last segment, the ensemble to write to:
// copies of pending entries at changed positions are forgotten and sent to the
// new bookie (rule 18). Then it looks at the head of the queue again, or starts
// the next round for what failed meanwhile.
func (w *Writer) adopt(ens []bk.BookieID) {
	changed := w.changed[:0]
	for p, b := range ens {
		pos := &w.ens[p]
		if pos.bookie == b {
			continue
		}
		if pos.failed {
			w.failing--
		}
		*pos = position{bookie: b, gen: pos.gen + 1}
		changed = append(changed, p)
	}
	w.changed = changed
	if len(changed) > 0 {
		w.changes++
	}
	for e := w.head; e < w.next; e++ {
		for _, p := range changed {
			k, ok := CopyAt(w.q, e, p)
			if !ok {
				continue
			}
			pend := w.at(e)
			if !seeded(mutKeepReplacedAcks) {
				pend.acks &^= 1 << uint(k)
			}
			pend.fails &^= 1 << uint(k)
			if !seeded(mutNoResend) {
				w.act(Action{Kind: ActSend, Entry: e, Slot: w.Slot(p), Bookie: ens[p]})
			}
		}
	}
	if w.failing > 0 && w.head < w.next {
		w.startChange()
		return
	}
	w.resume()
}
