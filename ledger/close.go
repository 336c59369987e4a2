package ledger

import (
	"context"
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
)

// Close waits for the entries in flight, then closes the ledger in the
// metadata at its LAC: it can never be appended to again. bk.ErrMetadataConflict
// means that another client closed it at another entry; bk.ErrTimeout, at the
// deadline of ctx, that the outcome is not known: Close can be called again. It
// must not be called from a callback.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closing = true
	w.freed()
	w.mu.Unlock()
	if err := w.Force(ctx); err != nil && ctx.Err() != nil {
		return fmt.Errorf("close ledger %d: entries in flight: %w", w.id, err)
	}
	w.mu.Lock()
	w.core.Close()
	w.act()
	w.settle()
	select {
	case <-w.finished:
	case <-ctx.Done():
		return fmt.Errorf("close ledger %d: metadata: %w", w.id, expired(ctx))
	}
	w.waitDrained()
	if w.finishErr != nil {
		return fmt.Errorf("close ledger %d: %w", w.id, w.finishErr)
	}
	return nil
}

// Abort lets go of the ledger without closing it, as a crash would: entries in
// flight fail, all callbacks have run when it returns, and the next client
// recovers. It must not be called from a callback.
func (w *Writer) Abort() error {
	w.mu.Lock()
	w.core.Abort(bk.ErrClosed)
	w.act()
	w.settle()
	w.waitDrained()
	return nil
}

// waitDrained waits until all callbacks have run.
func (w *Writer) waitDrained() {
	w.mu.Lock()
	if !w.draining {
		w.mu.Unlock()
		return
	}
	if w.drained == nil {
		w.drained = make(chan struct{})
	}
	ch := w.drained
	w.mu.Unlock()
	<-ch
}

// Force waits until all entries pushed before it are complete. With deferred
// sync it then makes them durable on all bookies of the ensemble, which moves
// the LAC up to them.
func (w *Writer) Force(ctx context.Context) error {
	if err := w.waitCompleted(ctx); err != nil || !w.deferred {
		return err
	}
	w.mu.Lock()
	id, err := w.core.Force()
	if err != nil {
		w.mu.Unlock()
		return fmt.Errorf("force ledger %d: %w", w.id, err)
	}
	ch := make(chan error, 1)
	if w.forces == nil {
		w.forces = map[uint32]chan error{}
	}
	w.forces[id] = ch
	w.act()
	w.settle()
	return w.await(ctx, ch)
}

func (w *Writer) waitCompleted(ctx context.Context) error {
	w.mu.Lock()
	last := w.core.LastPushed()
	if err := w.core.Err(); err != nil || w.core.Pending() == 0 {
		w.mu.Unlock()
		return err
	}
	ch := make(chan error, 1)
	w.flushes = append(w.flushes, flushWaiter{last, ch})
	w.mu.Unlock()
	return w.await(ctx, ch)
}

func (w *Writer) await(ctx context.Context, ch <-chan error) error {
	select {
	case err := <-ch:
		return err
	case <-ctx.Done():
		return fmt.Errorf("ledger %d: %w", w.id, expired(ctx))
	}
}
