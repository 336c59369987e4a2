package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// bind finds the owner, binds the writer to the stream there and settles what
// may have been written before. It tries until the oldest record times out.
func (w *Writer) bind() error {
	w.mu.Lock()
	oldest, pending := w.queue[0].at, len(w.queue)
	w.mu.Unlock()
	ctx, cancel := context.WithDeadline(w.ctx, oldest.Add(w.c.o.Timeout))
	defer cancel()
	began := time.Now()
	for pause := w.refusals; ; pause = min(max(2*pause, 5*time.Millisecond), 200*time.Millisecond) {
		if err := w.sleep(ctx, pause); err != nil {
			return w.gaveUp(err)
		}
		b, through, err := w.tryBind(ctx)
		if err == nil {
			err = w.resolve(ctx, b, through)
		}
		if err == nil {
			w.bound, w.suspects = b, nil
			w.c.stats.binds.Inc()
			if f := w.c.o.Events.Bound; f != nil {
				f(Bound{string(w.name), b.addr, pending, time.Since(began)})
			}
			return nil
		}
		if w.ctx.Err() != nil {
			return errAborted
		}
		if fatal(err) || errors.Is(err, ErrUnknownOutcome) || ctx.Err() != nil {
			return w.gaveUp(err)
		}
		w.lastError = err
	}
}

// gaveUp is the error of a writer that found no owner in time.
func (w *Writer) gaveUp(err error) error {
	if w.ctx.Err() != nil {
		return errAborted
	}
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, stream.ErrTimeout) {
		err = fmt.Errorf("%w: %w", stream.ErrTimeout, err)
	}
	if w.lastError != nil {
		err = fmt.Errorf("%w (before: %w)", err, w.lastError)
	}
	if w.maybe > 0 && !errors.Is(err, ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return err
}

func (w *Writer) sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryBind routes the call that binds. through is the last record that the owner
// knows of: everything this writer sent before is at or before it, or will
// never be written.
func (w *Writer) tryBind(ctx context.Context) (*binding, stream.DLSN, error) {
	call := &wire.Call{Method: wire.Heartbeat, Stream: string(w.name), Context: &wire.WriteContext{Producer: &w.producer}}
	a, err := w.c.route(ctx, w.name, call, w.suspects...)
	if err != nil {
		return nil, stream.DLSN{}, err
	}
	b := &binding{conn: a.conn, addr: a.addr}
	h := a.reply.Header()
	if !h.IsSetBinding() {
		return b, stream.DLSN{}, nil
	}
	b.own, b.token = true, h.GetBinding()
	text := a.reply.Write.GetDlsn()
	if text == "" {
		return b, stream.DLSN{}, nil
	}
	through, err := stream.ParseDLSN(text)
	if err != nil {
		return nil, stream.DLSN{}, fmt.Errorf("binding at proxy %s: %w: %w", a.addr, wire.ErrProtocol, err)
	}
	return b, through, nil
}

// resolve settles the records at the head of the queue that may be in the
// stream.
func (w *Writer) resolve(ctx context.Context, b *binding, through stream.DLSN) error {
	if w.maybe == 0 {
		if !w.known && b.own {
			w.acked, w.known = through, true
		}
		return nil
	}
	if b.own && w.known && !w.acked.Less(through) {
		w.report(0, through) // nothing came after what is acknowledged
		return nil
	}
	switch {
	case w.c.o.Resolve != nil && b.own && w.known:
	case w.c.o.AtLeastOnce:
		w.report(0, through)
		return nil
	default:
		return fmt.Errorf("%d records: %w: %w", w.maybe, ErrUnknownOutcome, w.lastError)
	}
	found, err := w.search(ctx, through)
	if err != nil {
		return fmt.Errorf("read back stream %s from %v to %v: %w", w.name, w.acked, through, err)
	}
	w.mu.Lock()
	landed := w.queue[:len(found):len(found)]
	if w.queue = w.queue[len(found):]; len(w.queue) == 0 {
		w.queue = nil
	}
	w.mu.Unlock()
	w.c.stats.resolved.Add(float64(len(found)))
	w.report(len(found), through)
	w.acked = through
	w.settle(landed, func(i int) stream.DLSN { return found[i] }, nil)
	return nil
}

// report ends a resolution.
func (w *Writer) report(landed int, through stream.DLSN) {
	if f := w.c.o.Events.Resolved; f != nil {
		f(Resolved{string(w.name), w.maybe, landed, through})
	}
	w.maybe = 0
}

// search gives the DLSNs of those records of unknown outcome that are in the
// stream: the first ones, because the owner writes in order.
func (w *Writer) search(ctx context.Context, through stream.DLSN) ([]stream.DLSN, error) {
	w.mu.Lock()
	open := w.queue[:w.maybe:w.maybe]
	w.mu.Unlock()
	var found []stream.DLSN
	last := w.acked
	for r, err := range w.c.o.Resolve(ctx, w.name, w.acked, through) {
		if err != nil {
			return nil, err
		}
		if through.Less(r.DLSN) {
			break
		}
		last = r.DLSN
		if len(found) < len(open) && bytes.Equal(r.Payload, open[len(found)].payload) {
			found = append(found, r.DLSN)
		}
		if !last.Less(through) {
			break
		}
	}
	if last.Less(through) {
		return nil, fmt.Errorf("the stream ends at %v: %w", last, stream.ErrUnavailable)
	}
	return found, nil
}
