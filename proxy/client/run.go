package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// itemsMax is the most records of a bulk call; far below what the wire allows.
const itemsMax = 8192

// run sends what is queued, takes answers in order, and binds anew when
// something failed.
func (w *Writer) run() {
	defer close(w.ended)
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	for {
		if err := w.step(); err != nil {
			w.fail(err)
			return
		}
		w.mu.Lock()
		queued, closing, ready := len(w.queue), w.closing, w.results
		w.mu.Unlock()
		if closing && queued == 0 && len(w.calls) == 0 {
			return
		}
		if ready || queued > 0 && w.canSend() {
			continue
		}
		// The age of the oldest call decides, not the time since the last wake-up:
		// a producer that goes on appending wakes us all the time.
		if len(w.calls) > 0 {
			if d := time.Until(w.slowAt()); d > 0 {
				tick.Reset(d)
			} else {
				w.checkSlow()
				continue
			}
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
		case <-tick.C:
		}
	}
}

// canSend reports whether step could do something with a queued record.
func (w *Writer) canSend() bool {
	switch {
	case w.bound == nil:
		return len(w.calls) == 0
	case w.bound.over:
		return false
	case w.bound.own:
		return len(w.calls) < w.c.o.CallsInFlight
	}
	return len(w.calls) == 0
}

// step takes the answers there are and sends what can be sent. An error ends
// the writer.
func (w *Writer) step() error {
	if w.ctx.Err() != nil {
		return errAborted
	}
	if err := w.takeAnswers(); err != nil {
		return err
	}
	if w.bound != nil && w.bound.over && len(w.calls) == 0 {
		w.bound = nil
	}
	w.mu.Lock()
	queued := len(w.queue)
	w.mu.Unlock()
	if queued == 0 {
		return nil
	}
	if w.bound == nil && len(w.calls) == 0 {
		if err := w.bind(); err != nil {
			return err
		}
	}
	for w.bound != nil && w.canSend() {
		b := w.batch()
		if b == nil {
			return nil
		}
		w.send(b)
	}
	return nil
}

// batch takes records off the queue for one call, nil if there are none.
func (w *Writer) batch() []rec {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, size := 0, 0
	for n < len(w.queue) && n < itemsMax {
		size += len(w.queue[n].payload) + recordHead
		if n > 0 && size > w.c.o.BatchBytes {
			break
		}
		n++
	}
	if n == 0 {
		return nil
	}
	b := w.queue[:n:n]
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	return b
}

// send starts one bulk call.
func (w *Writer) send(recs []rec) {
	s := &sent{recs: recs, at: time.Now()}
	w.calls = append(w.calls, s)
	call := &wire.Call{Method: wire.WriteBulkWithContext, Stream: string(w.name), Data: make([][]byte, len(recs)), Context: &wire.WriteContext{}}
	for i := range recs {
		call.Data[i] = recs[i].payload
	}
	if w.bound.own {
		call.Context.Producer, call.Context.Binding = &w.producer, &w.bound.token
	}
	w.bound.conn.Go(call, func(r *wire.Reply, err error) {
		w.mu.Lock()
		s.reply, s.err, s.got = r, err, true
		w.results = true
		w.mu.Unlock()
		w.rouse()
	})
}

// takeAnswers settles calls from the head on, as far as answers have come. What
// is behind a failure is put back once all answers are in.
func (w *Writer) takeAnswers() error {
	for len(w.calls) > 0 {
		s := w.calls[0]
		if !w.arrived(s) {
			return nil
		}
		if w.bound.over {
			if !w.arrived(w.calls...) {
				return nil
			}
			return w.putBack()
		}
		n, err := w.acknowledge(s)
		s.recs = s.recs[n:]
		if err == nil {
			w.calls = w.calls[1:]
			w.refusals = 0
			continue
		}
		if fatal(err) {
			return err
		}
		w.lastError = err
		w.bound.over, w.bound.unknown = true, unknown(err)
		w.leave(s, err)
	}
	return nil
}

// arrived reports whether all these calls have their answers. After that a new
// answer sets results.
func (w *Writer) arrived(calls ...*sent) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.results = false
	for _, s := range calls {
		if !s.got {
			return false
		}
	}
	return true
}

// leave decides where the next binding begins to look for the owner.
func (w *Writer) leave(s *sent, err error) {
	w.suspects = nil
	var se *wire.StatusError
	switch {
	case errors.As(err, &se):
		if !w.bound.unknown { // refused: not at once again
			w.refusals = min(max(2*w.refusals, 5*time.Millisecond), 200*time.Millisecond)
		}
		switch l, perr := wire.ParseLocation(se.Location); {
		case se.Code == wire.Found && perr == nil && l.Addr != w.bound.addr:
			w.c.setOwner(w.name, l.Addr)
		case wire.ReactionTo(se.Code) == wire.DropHost:
			w.c.hostFailed(w.bound.addr)
		case wire.ReactionTo(se.Code) == wire.Elsewhere && se.Code != wire.WriteCancelled:
			w.c.forget(w.name, w.bound.addr)
		}
	case errors.Is(err, stream.ErrTimeout), errors.Is(err, stream.ErrNotOwner): // given up
		w.suspects = []string{w.bound.addr}
	default:
		// The connection is gone; whether the host is shows when we connect again.
	}
}

// putBack returns the records of all calls to the head of the queue, and counts
// those that may be in the stream: of the first call if its outcome is open, and
// then as far as no call was certainly refused.
func (w *Writer) putBack() error {
	var back []rec
	w.maybe = 0
	open := w.bound.unknown
	for i, s := range w.calls {
		if i > 0 {
			err := outcome(s)
			if err == nil && !w.bound.unknown {
				return fmt.Errorf("proxy %s wrote records behind one that it had refused: %w", w.bound.addr, wire.ErrProtocol)
			}
			open = open && (err == nil || unknown(err))
		}
		if open {
			w.maybe += len(s.recs)
		}
		back = append(back, s.recs...)
	}
	w.c.stats.retries.Add(float64(len(back)))
	w.calls = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(back, w.queue...)
	return nil
}

// outcome is the failure of a call, or of its first item.
func outcome(s *sent) error {
	switch {
	case s.err != nil:
		return s.err
	case s.reply.Err != nil:
		return s.reply.Err
	}
	err := wire.ErrorOf(s.reply.Header())
	if items := s.reply.Items; err == nil && len(items) > 0 {
		err = items[0].Failure()
	}
	return err
}

// acknowledge settles the records of a call that were appended, and gives their
// number and why the next one was not.
func (w *Writer) acknowledge(s *sent) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.reply.Err != nil {
		return 0, s.reply.Err
	}
	if err := wire.ErrorOf(s.reply.Header()); err != nil {
		return 0, err
	}
	items := s.reply.Items
	if len(items) != len(s.recs) {
		return 0, fmt.Errorf("%d items for %d records: %w", len(items), len(s.recs), wire.ErrProtocol)
	}
	var failed error
	n := 0
	for n < len(items) {
		if failed = items[n].Failure(); failed != nil {
			break
		}
		n++
	}
	if n > 0 {
		w.acked, w.known = items[n-1].DLSN, true
		w.settle(s.recs[:n], func(i int) stream.DLSN { return items[i].DLSN }, nil)
	}
	return n, failed
}

// fatal tells failures after which trying again makes no sense.
func fatal(err error) bool {
	var se *wire.StatusError
	if !errors.As(err, &se) {
		return false
	}
	return wire.ReactionTo(se.Code) == wire.Fail && se.Code != wire.OverCapacity && se.Code != wire.StreamNotReady
}

// slowAt is when to look after the answer of the oldest call: SlowAfter after it
// was sent, and again and again until it comes.
func (w *Writer) slowAt() time.Time {
	at := w.calls[0].at
	if w.checked.After(at) {
		at = w.checked
	}
	return at.Add(w.c.o.SlowAfter)
}

// checkSlow looks after an answer that does not come: if the stream has another
// owner by now, the answer is given up; so it is after CallTimeout.
func (w *Writer) checkSlow() {
	defer func() { w.checked = time.Now() }()
	if time.Since(w.calls[0].at) >= w.c.o.CallTimeout {
		w.giveUp(fmt.Errorf("no answer from proxy %s in %v: %w", w.bound.addr, w.c.o.CallTimeout, stream.ErrTimeout))
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.c.o.SlowAfter)
	defer cancel()
	addr, err := w.c.lookUp(ctx, w.name)
	if err == nil && addr != w.bound.addr {
		w.giveUp(fmt.Errorf("proxy %s does not answer and does not own stream %s any more: %w", w.bound.addr, w.name, stream.ErrNotOwner))
	}
}

// giveUp ends the connection whose answers do not come: all calls on it fail.
func (w *Writer) giveUp(cause error) {
	w.c.hostFailed(w.bound.addr)
	w.bound.conn.Fail(cause)
}

// fail ends the writer: every record without a callback gets err.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	if w.err == nil && !errors.Is(err, errAborted) {
		w.err = fmt.Errorf("append to stream %s: %w", w.name, err)
		err = w.err
	}
	w.cancel()
	var all []rec
	for _, s := range w.calls {
		all = append(all, s.recs...)
	}
	all = append(all, w.queue...)
	w.calls, w.queue = nil, nil
	w.mu.Unlock()
	w.settle(all, nil, err)
}
