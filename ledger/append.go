package ledger

import (
	"context"
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// MaxPayload is the most payload bytes of one entry of a ledger with this
// digest.
func MaxPayload(t bk.DigestType) int { return wire.MaxEntryBody - bk.HeaderSize - t.Size() }

// push gives p the next entry id and sends it to its write set. Exactly one of
// done and wt is set; it is told the outcome unless push returns an error.
func (w *Writer) push(ctx context.Context, p []byte, done func(bk.EntryID, error), wt *waiter, block bool) error {
	if limit := MaxPayload(w.digester.Type()); len(p) > limit {
		return fmt.Errorf("append to ledger %d: %d bytes, limit is %d: %w", w.id, len(p), limit, bk.ErrPayloadTooLong)
	}
	w.mu.Lock()
	return w.pushHeld(ctx, p, done, wt, block)
}

// pushHeld is push for a caller that holds mu; it does not hold it afterwards.
func (w *Writer) pushHeld(ctx context.Context, p []byte, done func(bk.EntryID, error), wt *waiter, block bool) error {
	if err := w.admit(ctx, len(p), block); err != nil {
		w.mu.Unlock()
		return fmt.Errorf("append to ledger %d: %w", w.id, err)
	}
	add, err := w.core.Push(len(p))
	if err != nil {
		err = fmt.Errorf("append to ledger %d: %w", w.id, err)
		if !block {
			w.mu.Unlock()
			return err
		}
		// Behind the outcomes of earlier adds, so that callbacks stay in order.
		w.completed = append(w.completed, completion{id: bk.InvalidEntryID, err: err, done: done, waiter: wt})
		w.settle()
		return nil
	}
	w.enqueue(add, p, done, wt)
	// A caller that waits for its entry, or one that finds nothing in flight,
	// sends by itself: no other goroutine has to wake up. Under load the
	// connections' writers send, and what comes meanwhile leaves as one batch.
	if wt == nil && w.core.Pending() > 1 && !w.draining {
		w.dirty = false
		for i := range w.slots {
			if a := w.slots[i].adds; a != nil {
				a.Kick()
			}
		}
	}
	w.act()
	w.settle()
	return nil
}

// enqueue frames the entry, once for all bookies, and queues it for its write
// set. The caller holds mu.
func (w *Writer) enqueue(add quorum.Add, p []byte, done func(bk.EntryID, error), wt *waiter) {
	body := w.digester.Overhead() + len(p)
	size := wire.AddRequestOverhead + body
	if w.chunk != nil && w.chunk.Size()-w.fill < size {
		w.chunk.Release()
		w.chunk, w.grade = nil, min(w.grade+1, len(conn.ChunkSizes)-1)
	}
	if w.chunk == nil {
		w.chunk, w.fill = w.c.pool.Chunks().GetFor(max(size, conn.ChunkSizes[w.grade]), w.held), 0
	}
	w.chunk.Charge(size)
	frame := w.chunk.Tail(w.fill)
	frame = wire.AppendAddRequest(frame, 0, &w.key, body)
	w.digester.AppendEntry(frame, w.id, add.Entry, add.LAC, add.Length, p)
	w.chunk.Retain(1)
	w.lacTold = max(w.lacTold, add.LAC)

	if int(add.Entry-w.head) == len(w.ring) {
		w.growRing()
	}
	*w.at(add.Entry) = entry{
		chunk: w.chunk, from: int32(w.fill), to: int32(w.fill + size), bytes: int32(len(p)), done: done, waiter: wt,
	}
	w.watchQuorum(w.at(add.Entry))
	w.fill += size
	w.dirty = true
	for k := range w.q.Write {
		w.send(add.Entry, quorum.Position(w.q, add.Entry, k))
	}
}

func (w *Writer) at(e bk.EntryID) *entry { return &w.ring[int(e)&(len(w.ring)-1)] }

func (w *Writer) growRing() {
	ring := make([]entry, 2*len(w.ring))
	for i := range w.ring {
		e := w.head + bk.EntryID(i)
		ring[int(e)&(len(ring)-1)] = *w.at(e)
	}
	w.ring = ring
}

// send queues entry e for the bookie at a position. The caller holds mu.
func (w *Writer) send(e bk.EntryID, pos int) {
	s := &w.slots[pos]
	ent := w.at(e)
	if w.deferred {
		w.sendDeferred(e, pos)
		return
	}
	fresh := s.adds == nil
	if fresh && w.rests(s) {
		w.failCopy(e, pos, bk.ErrTooManyRequests)
		return
	}
	if fresh {
		s.adds = s.bookie.Adds(w.id, w.c.opts.AddTimeout, w)
		s.adds.Tag, s.adds.Gen = pos, s.gen
	}
	err := s.adds.Send(e, ent.chunk, int(ent.from), int(ent.to))
	if err == nil {
		return
	}
	lost := s.adds
	s.adds = nil
	lost.Detach()
	if fresh {
		w.failCopy(e, pos, err)
		return
	}
	w.failPending(w.head, pos, err) // nobody listens for their answers any more
}

// failPending tells the core that a bookie will not answer for the pending
// entries from first on. The caller holds mu.
func (w *Writer) failPending(first bk.EntryID, pos int, err error) {
	for e := max(first, w.head); e <= w.core.LastPushed(); e++ {
		w.failCopy(e, pos, err)
	}
}

// failCopy tells the core that the copy of e at a position failed. The caller
// holds mu.
func (w *Writer) failCopy(e bk.EntryID, pos int, err error) {
	s := &w.slots[pos]
	s.failed = true
	w.core.Fail(e, quorum.Slot{Pos: pos, Gen: s.gen}, &bk.BookieError{Bookie: s.bookie.ID(), Err: err})
}

// AddsDone takes a batch of answers from one bookie.
func (w *Writer) AddsDone(a *conn.Adds, acks []conn.Ack) {
	epoch := a.Epoch()
	w.mu.Lock()
	s := quorum.Slot{Pos: a.Tag, Gen: a.Gen}
	w.heardFrom(s, epoch)
	for _, k := range acks {
		if k.Status == bk.StatusOK {
			w.core.Ack(k.Entry, s)
			continue
		}
		if k.Status != bk.StatusFenced && k.Status != bk.StatusUnauthorized {
			a.Bookie().NoteFailure() // those two say nothing against the bookie
		}
		w.core.Fail(k.Entry, s, &bk.BookieError{Bookie: a.Bookie().ID(), Err: k.Status.Err()})
	}
	w.act()
	w.settle()
}

// heardFrom notes that the bookie at a slot answers, by the connection of that
// epoch. The caller holds mu.
func (w *Writer) heardFrom(at quorum.Slot, epoch uint64) {
	s := &w.slots[at.Pos]
	if s.gen != at.Gen {
		return
	}
	s.failed = false
	if s.epoch == epoch {
		return
	}
	again := s.epoch != 0
	s.epoch = epoch
	w.core.Doubt(at, again)
}

// AddsLost fails all that a bookie has not answered (rule 51).
func (w *Writer) AddsLost(a *conn.Adds, first bk.EntryID, err error) {
	w.mu.Lock()
	s := &w.slots[a.Tag]
	if s.gen == a.Gen {
		if s.adds == a {
			s.adds = nil
		}
		w.failCopy(first, a.Tag, err) // complete perhaps: then rule 8
		w.failPending(first+1, a.Tag, err)
	}
	w.act()
	w.settle()
}
