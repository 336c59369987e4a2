package writers

import (
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// pending is one append that waits for its acknowledgement.
type pending struct {
	done     func(stream.DLSN, error) // nil once it was called
	deadline int64                    // Unix nanoseconds
	slots    int64                    // slots it takes in its entry
}

// batch is one entry: filled, then handed over, then acknowledged. It belongs
// to the writer's lists and is recycled with its buffers.
type batch struct {
	w       *Writer
	next    *batch
	entry   record.Builder
	pend    []pending
	ack     func(id int64, err error) // b.onAck, made once
	bytes   int64                     // counted against BytesInFlight
	firstTx stream.TxID
	lastTx  stream.TxID
	hasTx   bool
	seg     *current // where it was handed over
	acked   bool
	id      int64 // its entry id, once acked
}

// newBatch gives an empty batch, with the buffers of an earlier one if the
// garbage collector has left any.
func (w *Writer) newBatch() *batch {
	if b, ok := w.batches.Get().(*batch); ok {
		return b
	}
	b := &batch{w: w}
	b.ack = b.onAck
	return b
}

// recycle keeps the batch for a later entry, once its callbacks have run and
// the segment is done with its bytes. Buffers of long records are not kept.
func (w *Writer) recycle(b *batch) {
	if b.entry.CapBytes() > 4*w.opts.EntryBytes+64<<10 {
		return
	}
	clear(b.pend)
	b.pend = b.pend[:0]
	b.bytes, b.hasTx, b.seg, b.acked = 0, false, nil, false
	w.batches.Put(b)
}

// batchList is a queue of batches, linked through next.
type batchList struct {
	head, tail *batch
	n          int
}

func (l *batchList) push(b *batch) {
	if l.tail == nil {
		l.head = b
	} else {
		l.tail.next = b
	}
	l.tail = b
	l.n++
}

func (l *batchList) pop() *batch {
	b := l.head
	if b == nil {
		return nil
	}
	l.head, b.next = b.next, nil
	if l.head == nil {
		l.tail = nil
	}
	l.n--
	return b
}
