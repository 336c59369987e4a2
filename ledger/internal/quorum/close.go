package quorum

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
)

// Close fails what is pending with bk.ErrLedgerClosed and closes the ledger at
// LAC (rule 21). A caller that wants its pending adds in the ledger waits for
// them first. ActFinished tells the end.
func (w *Writer) Close() {
	if w.phase == phaseOpen {
		w.stop(bk.ErrLedgerClosed)
	}
}

// Stop ends the writer because of err: what is pending fails with it, and the
// ledger is closed at LAC.
func (w *Writer) Stop(err error) {
	if w.phase == phaseOpen {
		w.stop(err)
	}
}

// Abort fails what is pending with err and leaves the ledger as it is, for
// another client to recover.
func (w *Writer) Abort(err error) {
	if w.phase != phaseDone {
		w.stopUnclosed(err)
	}
}

// stop ends the writer because of err: pending adds fail, their bytes leave
// Length, and the ledger is closed at LAC (rules 9, 15, 21). With a metadata
// write out, the close waits for its outcome.
func (w *Writer) stop(err error) {
	w.failPending(err)
	if w.inMemory { // the ledger stays in recovery
		w.phase = phaseDone
		w.finished = err
		return
	}
	w.phase = phaseClosing
	if w.updating == updateNone {
		w.writeClose()
	}
}

// stopUnclosed ends the writer and does not try to close the ledger.
func (w *Writer) stopUnclosed(err error) {
	w.failPending(err)
	w.finish(err)
}

func (w *Writer) failPending(err error) {
	w.picking = false
	if w.err == nil {
		w.err = err
	}
	if w.head < w.next && !w.inMemory {
		w.act(Action{Kind: ActFailed, Entry: w.head, Last: w.next - 1, Err: err})
	}
	w.forces = w.forces[:0]
	if seeded(mutCloseAtLastPushed) || seeded(mutCloseWithFailedBytes) {
		return
	}
	w.next = w.head
	w.length = w.headLength
}

func (w *Writer) writeClose() {
	want := w.meta
	want.State = StateClosed
	want.LastEntry = w.lac
	want.Length = w.lacLength
	if seeded(mutCloseAtLastPushed) {
		want.LastEntry = w.next - 1
	}
	if seeded(mutCloseAtLastPushed) || seeded(mutCloseWithFailedBytes) {
		want.Length = w.length
	}
	w.update(updateClose, want)
}

// foundClosed ends a writer that finds its ledger closed (rules 17, 22).
func (w *Writer) foundClosed() {
	w.failPending(bk.ErrLedgerClosed)
	if w.meta.LastEntry == w.lac && w.meta.Length == w.lacLength || seeded(mutCloseOverClosed) {
		w.finish(nil)
		return
	}
	w.finish(fmt.Errorf("closed by another client at entry %d with %d bytes, this writer confirmed entry %d with %d: %w",
		w.meta.LastEntry, w.meta.Length, w.lac, w.lacLength, bk.ErrMetadataConflict))
}

func (w *Writer) finish(err error) {
	w.phase = phaseDone
	w.finished = err
	w.act(Action{Kind: ActFinished, Err: err})
}
