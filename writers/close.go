package writers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/stream"
)

// Close refuses new records, waits for those in flight and completes the
// segment. It is bounded by WriteTimeout for the first and OpTimeout for the
// second. On a writer that has failed it gives the cause.
func (w *Writer) Close() error {
	w.drain(false)
	<-w.settled
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.err, w.closeErr)
}

// Seal ends the stream: it waits for the records appended before, marks the end,
// and closes the writer. Nobody can append after it; readers end with io.EOF.
// When ctx ends first, the sealing goes on without it.
func (w *Writer) Seal(ctx context.Context) error {
	w.mu.Lock()
	if err := w.refusal(); err != nil {
		w.mu.Unlock()
		return err
	}
	w.mu.Unlock()
	w.drain(true)
	select {
	case <-w.settled:
	case <-ctx.Done():
		return w.timeoutError("seal", ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.err, w.closeErr)
}

// Abort lets go of the stream at once: records in flight fail, the segment
// stays in progress, and the next writer recovers it. Every callback has run
// when it returns.
func (w *Writer) Abort() error {
	w.mu.Lock()
	w.aborted = true
	w.cancel()
	w.freeRoom(true)
	w.signal()
	w.deliver()
	<-w.settled
	return nil
}

// drain begins a Close or a Seal.
func (w *Writer) drain(seal bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing || w.aborted || w.err != nil {
		return
	}
	w.closing, w.sealing = true, seal
	close(w.closed)
	w.freeRoom(true)
	w.signal()
	w.drained = time.AfterFunc(w.opts.WriteTimeout, func() {
		w.mu.Lock()
		if w.queue.n+w.inflight.n > 0 {
			w.fail(fmt.Errorf("close writer of stream %s: records not acknowledged in %v: %w", w.name, w.opts.WriteTimeout, stream.ErrTimeout))
		}
		w.deliver()
	})
}

// end settles what is left when no record is in flight any more, or the writer
// failed. It runs on the sender, at its end.
func (w *Writer) end() {
	w.mu.Lock()
	for w.running || w.delivering {
		w.quiet.Wait()
	}
	seg, err, clean := w.seg, w.err, w.err == nil && !w.aborted
	w.timer.Stop()
	if w.drained != nil {
		w.drained.Stop()
	}
	w.mu.Unlock()
	var closeErr error
	switch {
	case clean && w.sealing:
		closeErr = w.sealStream(seg)
	case clean && seg != nil:
		closeErr = w.complete(seg)
	case seg != nil:
		closeErr = seg.Abort()
	}
	w.log.discard()
	w.cancel()
	if err != nil {
		w.zlog.Info("writer failed", zap.Error(err)) // its caller gets the error too
		if f := w.opts.Events.Failed; f != nil {
			f(err)
		}
	}
	w.mu.Lock()
	w.closeErr = errors.Join(w.closeErr, closeErr)
	w.mu.Unlock()
}

func (w *Writer) sealStream(seg *current) error {
	ctx, cancel := context.WithTimeout(w.ctx, w.opts.OpTimeout)
	defer cancel()
	var t target
	if seg != nil {
		t = seg.target
	}
	if err := w.log.seal(ctx, t); err != nil {
		return fmt.Errorf("seal stream %s: %w", w.name, err)
	}
	w.zlog.Info("stream sealed")
	return nil
}
