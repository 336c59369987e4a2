package quorum

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
)

// force is one outstanding force of a deferred-sync ledger.
type force struct {
	id     uint32
	last   bk.EntryID // completed before it was sent
	length int64
	acked  []bool // by position
	left   int
}

// Force asks all bookies of the ensemble to make durable what completed so far
// (rule 12). It gives the id that ForceAck and ForceFail take. When all have
// answered, LAC is at least what Completed was now. Without deferred sync an
// acknowledged entry is durable already: the id is 0 and nothing is asked.
func (w *Writer) Force() (uint32, error) {
	if w.phase != phaseOpen {
		return 0, w.err
	}
	if !w.deferred {
		return 0, nil
	}
	w.forceID++
	w.forces = append(w.forces, force{
		id: w.forceID, last: w.head - 1, length: w.headLength,
		acked: make([]bool, len(w.ens)), left: len(w.ens),
	})
	for p := range w.ens {
		w.act(Action{Kind: ActForce, Force: w.forceID, Slot: w.Slot(p), Bookie: w.ens[p].bookie})
	}
	return w.forceID, nil
}

// ForceAck reports that the bookie of slot has forced the ledger. done tells
// that this was the last answer the force needed.
func (w *Writer) ForceAck(id uint32, s Slot) (done bool) {
	i := w.findForce(id, s)
	if i < 0 || w.forces[i].acked[s.Pos] {
		return false
	}
	f := &w.forces[i]
	f.acked[s.Pos] = true
	f.left--
	if f.left > 0 && !seeded(mutForceFirstAnswer) {
		return false
	}
	if seeded(mutForceCoversLater) {
		f.last, f.length = w.head-1, w.headLength
	}
	if f.last > w.lac {
		w.lac, w.lacLength = f.last, f.length
	}
	w.forces = append(w.forces[:i], w.forces[i+1:]...)
	return true
}

// ForceFail reports that the bookie of slot failed to force the ledger. That
// ends the ledger.
func (w *Writer) ForceFail(id uint32, s Slot, err error) {
	if w.findForce(id, s) >= 0 {
		w.stop(fmt.Errorf("force: %w", err))
	}
}

func (w *Writer) findForce(id uint32, s Slot) int {
	if w.phase != phaseOpen || s.Pos < 0 || s.Pos >= len(w.ens) || w.ens[s.Pos].gen != s.Gen {
		return -1
	}
	for i := range w.forces {
		if w.forces[i].id == id {
			return i
		}
	}
	return -1
}

// noteAck remembers how far the bookie of slot has acknowledged entries, of a
// deferred-sync ledger: until a force these may be in its memory alone.
func (w *Writer) noteAck(e bk.EntryID, s Slot) {
	if _, ok := w.match(e, s); ok {
		w.ens[s.Pos].acked = max(w.ens[s.Pos].acked, e+1)
	}
}
