package ledger

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/conn"
)

// popCompleted takes what the core has completed off the ring, in entry order.
// The caller holds mu.
func (w *Writer) popCompleted() {
	last := w.core.Completed()
	if w.head > last {
		return
	}
	w.c.metrics.entriesAdded.Add(float64(last - w.head + 1))
	bytes := 0
	for ; w.head <= last; w.head++ {
		e := w.at(w.head)
		bytes += int(e.bytes)
		w.completed = append(w.completed, completion{id: w.head, done: e.done, waiter: e.waiter})
		e.chunk.Release()
		*e = entry{}
	}
	w.c.metrics.bytesAdded.Add(float64(bytes))
	w.freed()
	for len(w.flushes) > 0 && w.flushes[0].entry <= last {
		w.flushes[0].ch <- nil
		w.flushes = w.flushes[1:]
	}
	if w.core.Pending() == 0 {
		w.idle()
	}
}

// popFailed fails the entries up to last. The caller holds mu.
func (w *Writer) popFailed(last bk.EntryID, cause error) {
	w.c.metrics.addsFailed.Add(float64(last - w.head + 1))
	for e := w.head; e <= last; e++ {
		p := w.at(e)
		err := fmt.Errorf("add %d to ledger %d, outcome unknown: %w", e, w.id, cause)
		w.completed = append(w.completed, completion{id: bk.InvalidEntryID, err: err, done: p.done, waiter: p.waiter})
		p.chunk.Release()
		*p = entry{}
	}
	w.head = last + 1
	w.freed()
}

// freed lets callers in that wait for room. The caller holds mu.
func (w *Writer) freed() {
	w.admitNext()
}

// trim gives back what a burst of adds made grow: an idle ledger holds little.
// The caller holds mu; nothing is pending.
func (w *Writer) trim() {
	if len(w.ring) > ringMin {
		w.ring = make([]entry, ringMin)
	}
	if len(w.completed) == 0 {
		w.completed, w.spare = nil, nil
	}
	w.acts = nil
	w.core.Trim()
}

// settle tells outcomes to callers and flushes what is queued. The caller holds
// mu; it is released, and not held while callbacks run. Only one goroutine runs
// callbacks at a time; what others complete meanwhile it takes over.
func (w *Writer) settle() {
	w.popCompleted()
	if w.advanced != nil {
		w.advanced.drain()
	}
	if w.draining {
		w.mu.Unlock()
		return
	}
	for len(w.completed) > 0 {
		batch := w.completed
		w.completed = w.spare[:0]
		w.draining = true
		w.mu.Unlock()
		for i := range batch {
			batch[i].tell()
			batch[i] = completion{}
		}
		w.mu.Lock()
		w.draining = false
		w.spare = batch[:0]
	}
	if w.drained != nil {
		close(w.drained)
		w.drained = nil
	}
	if !w.dirty {
		w.mu.Unlock()
		return
	}
	w.dirty = false
	var few [8]*conn.Adds
	flush := few[:0]
	for i := range w.slots {
		if a := w.slots[i].adds; a != nil {
			flush = append(flush, a)
		}
	}
	w.mu.Unlock()
	for _, a := range flush {
		a.Flush()
	}
}

func (c *completion) tell() {
	if c.done != nil {
		c.done(c.id, c.err)
		return
	}
	c.waiter.id, c.waiter.err = c.id, c.err
	c.waiter.ch <- struct{}{}
}
