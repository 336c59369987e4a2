package ledger

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/loglode/loglode/bookie/bk"
)

// AdvancedWriter appends to a ledger whose entry ids its callers choose, each
// once, in any order. Entries complete in the order of their ids: one that is
// given before those below it is kept until they come, counted in
// Options.BytesInFlight, and then sent. So the length in every entry is that of
// all entries up to it, and what a gap cuts off was never sent.
//
// It ends as a Writer does; entries behind a gap fail with it.
type AdvancedWriter struct {
	w *Writer
	// Guarded by w.mu.
	next    bk.EntryID            // ids below it have been handed to w
	pushing bool                  // next is being handed to w
	early   map[bk.EntryID]*early // nil value: its caller waits for room
	bytes   int64                 // of payload in early
	moved   chan struct{}         // closed and replaced when something left early
	ended   error
}

// early is an entry given before one below it.
type early struct {
	payload []byte
	done    func(bk.EntryID, error)
	waiter  *waiter
}

// CreateAdvanced is Create for a ledger whose entry ids the caller chooses.
func (c *Client) CreateAdvanced(ctx context.Context, q bk.Quorum, opts ...CreateOption) (*AdvancedWriter, error) {
	w, err := c.Create(ctx, q, opts...)
	if err != nil {
		return nil, err
	}
	a := &AdvancedWriter{w: w, early: map[bk.EntryID]*early{}, moved: make(chan struct{})}
	w.mu.Lock()
	w.advanced = a
	if w.finishErr != nil || w.core.Err() != nil {
		a.ended = w.core.Err()
	}
	w.mu.Unlock()
	return a, nil
}

// ID is the ledger's id.
func (a *AdvancedWriter) ID() bk.LedgerID { return a.w.id }

// Append adds entry e and waits until it is confirmed, and so are all below it.
// bk.ErrDuplicateEntry says that e was given before; bk.ErrBadRequest that it
// is negative. p is not kept after return. If ctx ends first, the entry may
// still be confirmed later.
func (a *AdvancedWriter) Append(ctx context.Context, e bk.EntryID, p []byte) error {
	wt := &waiter{ch: make(chan struct{}, 1)}
	if err := a.push(ctx, e, p, nil, wt); err != nil {
		return err
	}
	select {
	case <-wt.ch:
		return wt.err
	case <-ctx.Done():
		return fmt.Errorf("append entry %d to ledger %d, outcome unknown: %w", e, a.w.id, expired(ctx))
	}
}

// Go adds entry e and calls done as Writer.Go does. It blocks while the limit of
// bytes in flight is reached, unless e is the entry that all others wait for. An
// entry that was refused (done gets bk.ErrDuplicateEntry, or the end of ctx,
// before Go returns) may be given again.
func (a *AdvancedWriter) Go(ctx context.Context, e bk.EntryID, p []byte, done func(bk.EntryID, error)) {
	if err := a.push(ctx, e, p, done, nil); err != nil {
		done(bk.InvalidEntryID, err)
	}
}

// Err is why the writer has ended, nil while it has not.
func (a *AdvancedWriter) Err() error { return a.w.Err() }

// LAC is the last entry confirmed, bk.InvalidEntryID at first.
func (a *AdvancedWriter) LAC() bk.EntryID { return a.w.LAC() }

// Length is the payload bytes of the entries below the first gap.
func (a *AdvancedWriter) Length() int64 { return a.w.Length() }

// Force waits until all entries below the first gap are complete, and with
// deferred sync makes them durable, as Writer.Force.
func (a *AdvancedWriter) Force(ctx context.Context) error {
	for {
		a.w.mu.Lock()
		_, more := a.early[a.next]
		moved := a.moved
		a.w.mu.Unlock()
		if err := a.w.Force(ctx); err != nil || !more {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("force ledger %d: %w", a.w.id, expired(ctx))
		}
	}
}

// Close waits for the entries below the first gap, fails those behind it with
// bk.ErrLedgerClosed, and closes the ledger as Writer.Close does.
func (a *AdvancedWriter) Close(ctx context.Context) error {
	a.w.mu.Lock()
	a.w.closing = true
	a.w.mu.Unlock()
	if err := a.Force(ctx); err != nil && ctx.Err() != nil {
		return fmt.Errorf("close ledger %d: entries in flight: %w", a.w.id, err)
	}
	return a.w.Close(ctx)
}

// Abort lets go of the ledger as Writer.Abort does.
func (a *AdvancedWriter) Abort() error { return a.w.Abort() }

func (a *AdvancedWriter) push(ctx context.Context, e bk.EntryID, p []byte, done func(bk.EntryID, error), wt *waiter) error {
	if limit := MaxPayload(a.w.digester.Type()); len(p) > limit {
		return fmt.Errorf("append entry %d to ledger %d: %d bytes, limit is %d: %w", e, a.w.id, len(p), limit, bk.ErrPayloadTooLong)
	}
	a.w.mu.Lock()
	err := a.refusal(e)
	if err == nil && (e != a.next || a.pushing) {
		err = a.keep(ctx, e, &early{done: done, waiter: wt}, p)
		if err == nil {
			a.w.settle() // it may be its turn by now
			return nil
		}
	}
	if err != nil {
		a.w.mu.Unlock()
		return fmt.Errorf("append entry %d to ledger %d: %w", e, a.w.id, err)
	}
	a.pushing = true
	err = a.w.pushHeld(ctx, p, done, wt, true)
	a.w.mu.Lock()
	a.pushing = false
	if err == nil {
		a.advance()
	}
	a.w.settle() // sends those that waited for this one
	return err
}

// refusal is why e cannot be added. The caller holds w.mu.
func (a *AdvancedWriter) refusal(e bk.EntryID) error {
	_, known := a.early[e]
	switch {
	case a.ended != nil:
		return a.ended
	case a.w.core.Err() != nil:
		return a.w.core.Err()
	case a.w.closing:
		return bk.ErrLedgerClosed
	case e < 0:
		return fmt.Errorf("negative entry id: %w", bk.ErrBadRequest)
	case e < a.next, known, e == a.next && a.pushing:
		return bk.ErrDuplicateEntry
	}
	return nil
}

// keep puts an entry aside until those below it have come. It waits for room,
// but not with an entry whose turn it is. The caller holds w.mu, which is not
// held while it waits.
func (a *AdvancedWriter) keep(ctx context.Context, e bk.EntryID, it *early, p []byte) error {
	for {
		a.early[e] = nil // taken
		if a.ended != nil {
			delete(a.early, e)
			return a.ended
		}
		if e == a.next || a.bytes == 0 || a.bytes+int64(len(p)) <= a.w.c.opts.BytesInFlight {
			it.payload = bytes.Clone(p)
			a.early[e] = it
			a.bytes += int64(len(p))
			return nil
		}
		moved := a.moved
		a.w.mu.Unlock()
		select {
		case <-moved:
			a.w.mu.Lock()
		case <-ctx.Done():
			a.w.mu.Lock()
			delete(a.early, e)
			return expired(ctx)
		}
	}
}

// advance notes that entry next is in the writer's hands. The caller holds w.mu.
func (a *AdvancedWriter) advance() {
	a.next++
	if it, ok := a.early[a.next]; ok && it == nil {
		a.signal() // its caller need not wait for room any more
	}
}

func (a *AdvancedWriter) signal() {
	close(a.moved)
	a.moved = make(chan struct{})
}

// drain hands entries whose turn has come to the writer, as many as there is
// room for; their bytes are in memory already. The caller holds w.mu.
func (a *AdvancedWriter) drain() {
	for !a.pushing {
		it := a.early[a.next]
		if it == nil || a.w.core.Err() != nil || !a.w.pendingRoom(len(it.payload)) {
			return
		}
		add, err := a.w.core.Push(len(it.payload))
		if err != nil {
			return // finish tells them
		}
		a.take(a.next)
		a.advance()
		a.w.enqueue(add, it.payload, it.done, it.waiter)
		a.w.act()
	}
}

// take removes an entry from early. The caller holds w.mu.
func (a *AdvancedWriter) take(e bk.EntryID) {
	a.bytes -= int64(len(a.early[e].payload))
	delete(a.early, e)
	a.signal()
}

// end fails what was never sent. The caller holds w.mu.
func (a *AdvancedWriter) end(cause error) {
	a.ended = cause
	for _, e := range slices.Sorted(maps.Keys(a.early)) {
		it := a.early[e]
		if it == nil {
			continue // its caller sees the end
		}
		err := fmt.Errorf("entry %d of ledger %d waited for entry %d: %w", e, a.w.id, a.next, cause)
		a.w.completed = append(a.w.completed, completion{id: bk.InvalidEntryID, err: err, done: it.done, waiter: it.waiter})
		a.take(e)
	}
	a.signal()
}
