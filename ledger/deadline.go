package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loglode/loglode/bookie/bk"
)

// expired is why ctx ended: bk.ErrTimeout too when its deadline has passed.
func expired(ctx context.Context) error { return timedOut(ctx, context.Cause(ctx)) }

// timedOut is err, with bk.ErrTimeout if it comes of the deadline of ctx.
func timedOut(ctx context.Context, err error) error {
	switch {
	case err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", bk.ErrTimeout, err)
	default:
		return fmt.Errorf("%w: %w: %w", bk.ErrTimeout, context.Cause(ctx), err)
	}
}

// bounded gives ctx the deadline of a metadata operation, unless it has an
// earlier one.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.opts.MetadataTimeout,
		fmt.Errorf("no end within the metadata timeout of %v: %w", c.opts.MetadataTimeout, context.DeadlineExceeded))
}

// quorumClock ends a writer whose oldest add waits too long for its ack quorum.
// Its fields belong to the writer's mutex. Its zero value is off.
type quorumClock struct {
	timer *time.Timer
	armed bool
}

// watchQuorum starts the clock for an entry that was just pushed. The caller holds mu.
func (w *Writer) watchQuorum(ent *entry) {
	d := w.c.opts.AddQuorumTimeout
	if d <= 0 {
		return
	}
	ent.pushed = time.Since(w.c.start)
	if w.clock.armed {
		return
	}
	w.clock.armed = true
	if w.clock.timer == nil {
		w.clock.timer = time.AfterFunc(d, w.quorumTick)
		return
	}
	w.clock.timer.Reset(d)
}

// quorumTick looks at the oldest add that is not complete.
func (w *Writer) quorumTick() {
	w.mu.Lock()
	d := w.c.opts.AddQuorumTimeout
	w.clock.armed = false
	if w.core.Err() != nil || w.core.Pending() == 0 || w.head > w.core.LastPushed() {
		w.mu.Unlock()
		return
	}
	if left := d - (time.Since(w.c.start) - w.at(w.head).pushed); left > 0 {
		w.clock.armed = true
		w.clock.timer.Reset(left)
		w.mu.Unlock()
		return
	}
	w.core.Stop(fmt.Errorf("no %d acknowledgements within %v: %w", w.q.Ack, d, bk.ErrTimeout))
	w.act()
	w.settle()
}
