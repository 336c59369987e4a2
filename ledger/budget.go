package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger/internal/conn"
)

// heldSlack is by how much the memory of frames may pass BytesInFlight: a frame
// that everybody has taken stays as long as another in its chunk is needed.
var heldSlack = int64(2 * conn.ChunkSizes[len(conn.ChunkSizes)-1])

// admit waits until n more payload bytes may be in flight. The caller holds mu.
func (w *Writer) admit(ctx context.Context, n int, block bool) error {
	for first := true; ; first = false {
		if w.core.Err() != nil {
			w.admitNext() // the others are to hear of it too
			return nil    // Push says so
		}
		if w.closing {
			w.admitNext()
			return bk.ErrLedgerClosed
		}
		if w.room(n) {
			if !first {
				w.admitNext()
			}
			return nil
		}
		if !block {
			return bk.ErrBufferFull
		}
		ch := make(chan struct{}, 1)
		if first {
			w.blocked = append(w.blocked, ch)
		} else {
			w.blocked = slices.Insert(w.blocked, 0, ch) // it was this caller's turn
		}
		if err := w.waitTurn(ctx, ch, n); err != nil {
			return err
		}
	}
}

// room reports whether n more payload bytes may be in flight now: those that are
// not complete count, and those that are and wait for the slowest bookie of
// their write set to take them. One entry may always be in flight. The caller
// holds mu.
func (w *Writer) room(n int) bool {
	if !w.pendingRoom(n) {
		return false
	}
	held := w.held.Bytes()
	if w.chunk != nil && w.core.Pending() == 0 {
		held -= w.chunk.Cost()
	}
	if held <= 0 || held+int64(n) <= w.c.opts.BytesInFlight+heldSlack {
		return true
	}
	w.shedLaggards()
	return false
}

// pendingRoom is room as far as entries that are not complete count. The caller
// holds mu.
func (w *Writer) pendingRoom(n int) bool {
	return w.core.Pending() == 0 || w.inFlight()+int64(n) <= w.c.opts.BytesInFlight
}

// shedLaggards stops keeping entries for bookies that have failed, have not
// answered since, and could not be replaced. From others that are slow callers
// wait until they have taken what is there or their time is over. The caller
// holds mu.
func (w *Writer) shedLaggards() {
	for p := range w.slots {
		s := &w.slots[p]
		if !s.failed || s.adds == nil || s.adds.Queued() == 0 {
			continue
		}
		a := s.adds
		s.adds = nil
		s.resting = time.Since(w.c.start) + w.c.opts.AddTimeout
		err := fmt.Errorf("%d bytes wait for a bookie that has not answered since it failed: %w", a.Queued(), bk.ErrTooManyRequests)
		a.Shed(err)
		w.failPending(w.head, p, err)
	}
	w.act()
}

// rests reports whether a bookie whose entries were shed gets none for a while.
// The caller holds mu.
func (w *Writer) rests(s *slot) bool { return s.failed && time.Since(w.c.start) < s.resting }

// waitTurn waits for a signal on ch, which is in blocked. The caller holds mu,
// which is not held meanwhile.
func (w *Writer) waitTurn(ctx context.Context, ch chan struct{}, n int) error {
	w.held.Want(1)
	defer w.held.Want(-1)
	if w.room(n) {
		w.admitNext() // bytes were freed before anybody wanted to know
	}
	for {
		w.mu.Unlock()
		select {
		case <-ch:
			w.mu.Lock()
			return nil
		case <-w.held.Freed():
			w.mu.Lock()
			w.admitNext()
		case <-ctx.Done():
			w.mu.Lock()
			if i := slices.Index(w.blocked, ch); i >= 0 {
				w.blocked = slices.Delete(w.blocked, i, i+1)
			} else {
				w.admitNext() // the turn was this caller's
			}
			return expired(ctx)
		}
	}
}

// inFlight is what the adds that are not complete, and one more, take of the
// limit: their payloads and what each adds to its payload. The caller holds mu.
func (w *Writer) inFlight() int64 {
	each := int64(wire.AddRequestOverhead + w.digester.Overhead())
	return w.core.PendingBytes() + int64(w.core.Pending()+1)*each
}

// admitNext gives the caller of push that waits longest its turn; when it is in,
// it passes the turn on. The caller holds mu.
func (w *Writer) admitNext() {
	if len(w.blocked) == 0 {
		return
	}
	ch := w.blocked[0]
	w.blocked[0] = nil
	w.blocked = w.blocked[1:]
	ch <- struct{}{}
}
