package writers

import (
	"fmt"
	"time"

	"github.com/loglode/loglode/stream"
)

// step is what the sender does next.
type step uint8

const (
	stepWait  step = iota
	stepSend       // hand the head of the queue over
	stepStart      // start the first segment, or the next one
	stepEnd        // everything is settled, or the writer failed
)

// next decides what the sender does. Called with w.mu held.
func (w *Writer) next() step {
	switch {
	case w.err != nil || w.aborted:
		return stepEnd
	case w.closing && w.queue.n == 0 && w.inflight.n == 0 && !w.delivering && !w.running:
		return stepEnd
	case w.roll == rollPrepared && w.inflight.n == 0 && !w.closing:
		return stepStart
	case w.roll == rollPrepared && !w.closing:
		return stepWait // the old segment is acknowledged to its end first
	case w.queue.n > 0 && w.seg == nil:
		return stepStart
	case w.queue.n > 0 && w.inflight.n < w.opts.EntriesInFlight:
		return stepSend
	}
	return stepWait
}

// run is the sender: it hands entries over, one at a time, and starts segments.
func (w *Writer) run() {
	defer close(w.settled)
	for {
		w.mu.Lock()
		s := w.next()
		var b *batch
		switch s {
		case stepWait:
			w.idle = true
		case stepSend:
			b = w.take()
		}
		w.mu.Unlock()
		switch s {
		case stepWait:
			<-w.wake
		case stepSend:
			w.send(b)
		case stepStart:
			w.start()
		case stepEnd:
			w.end()
			return
		}
	}
}

// take moves the head of the queue to the entries in flight. Called with w.mu
// held.
func (w *Writer) take() *batch {
	b := w.queue.pop()
	if b == w.filling {
		w.filling = nil
	}
	b.seg = w.seg
	w.inflight.push(b)
	w.seg.bytes += int64(b.entry.SizeBytes())
	w.checkRoll(time.Now())
	return b
}

func (w *Writer) send(b *batch) {
	entry, err := b.entry.Finish()
	if err != nil {
		b.onAck(-1, fmt.Errorf("append to stream %s: %w", w.name, err))
		return
	}
	b.seg.Go(w.ctx, entry, b.entry.Summary(), b.ack)
}

// onAck takes the outcome of one entry, on a goroutine of the ledger client.
func (b *batch) onAck(id int64, err error) {
	w := b.w
	w.mu.Lock()
	b.acked, b.id = err == nil, id
	if err != nil {
		w.fail(fmt.Errorf("append to stream %s: segment %d: %w", w.name, b.seg.Segment(), err))
	}
	w.deliver()
}

// deliver runs the callbacks that are due, in order, one goroutine at a time.
// Called with w.mu held, which it lets go of.
func (w *Writer) deliver() {
	if w.delivering {
		w.mu.Unlock()
		return
	}
	w.delivering = true
	for {
		if len(w.expired) > 0 {
			fns := w.expired
			w.expired = nil
			w.mu.Unlock()
			for _, fn := range fns {
				fn(stream.InvalidDLSN, fmt.Errorf("append to stream %s: not acknowledged in time: %w", w.name, stream.ErrTimeout))
			}
			w.mu.Lock()
			continue
		}
		if b := w.inflight.head; b != nil && b.acked {
			w.account(b)
			w.signal()
			w.mu.Unlock()
			b.succeed()
			w.recycle(b)
			w.mu.Lock()
			continue
		}
		if w.err == nil && !w.aborted || w.inflight.n+w.queue.n == 0 {
			break
		}
		w.failPending()
	}
	w.delivering = false
	w.quiet.Broadcast()
	w.signal()
	w.mu.Unlock()
}

// account takes an acknowledged entry out of what is in flight. Called with
// w.mu held.
func (w *Writer) account(b *batch) {
	w.inflight.pop()
	w.bytes -= b.bytes
	w.freeRoom(false)
	w.stats.acked(b.entry.Summary().User, b.bytes)
}

func (b *batch) succeed() {
	d := stream.DLSN{Segment: b.seg.Segment(), Entry: b.id}
	for i := range b.pend {
		p := &b.pend[i]
		if p.done != nil {
			p.done(d, nil)
		}
		d.Slot += p.slots
	}
}

// failPending fails every append that is not acknowledged. The bytes of entries
// in flight still belong to the ledger client, so nothing is recycled. Called
// with w.mu held, which it lets go of meanwhile.
func (w *Writer) failPending() {
	err := w.refusal()
	lists := [...]batchList{w.inflight, w.queue}
	w.inflight, w.queue, w.filling, w.bytes = batchList{}, batchList{}, nil, 0
	w.mu.Unlock()
	for _, l := range lists {
		for b := l.head; b != nil; b = b.next {
			for i := range b.pend {
				if done := b.pend[i].done; done != nil {
					done(stream.InvalidDLSN, err)
				}
			}
		}
	}
	w.mu.Lock()
}

// arm makes sure that expire runs by a deadline. Called with w.mu held.
func (w *Writer) arm(deadline int64) {
	if w.timerAt == 0 || deadline < w.timerAt {
		w.timerAt = deadline
		w.timer.Reset(time.Until(time.Unix(0, deadline)))
	}
}

// expire ends the appends whose deadline has passed. Their records stay where
// they are: they may still become part of the stream.
func (w *Writer) expire() {
	w.mu.Lock()
	now, soonest := time.Now().UnixNano(), int64(0)
	for _, l := range [...]batchList{w.inflight, w.queue} {
		for b := l.head; b != nil; b = b.next {
			for i := range b.pend {
				p := &b.pend[i]
				switch {
				case p.done == nil:
				case p.deadline <= now:
					w.expired = append(w.expired, p.done)
					p.done = nil
				case soonest == 0 || p.deadline < soonest:
					soonest = p.deadline
				}
			}
		}
	}
	w.timerAt = 0
	if soonest != 0 {
		w.arm(soonest)
	}
	w.deliver()
}
