package writers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// Append adds one record and waits until it is durable. r.Payload is not kept
// after return. When ctx ends first, the record may still become part of the
// stream.
func (w *Writer) Append(ctx context.Context, r stream.Record) (stream.DLSN, error) {
	rs := [1]stream.Record{r}
	return w.wait(ctx, rs[:])
}

// AppendBatch adds records in one entry: all of them become part of the
// stream, or none. It waits until they are durable. It fails with a
// *stream.RecordTooLongError when they do not fit in one entry.
func (w *Writer) AppendBatch(ctx context.Context, rs []stream.Record) ([]stream.DLSN, error) {
	first, err := w.wait(ctx, rs)
	if err != nil {
		return nil, err
	}
	ds := make([]stream.DLSN, len(rs))
	for i := range ds {
		ds[i] = first
		ds[i].Slot += int64(i)
	}
	return ds, nil
}

// Go adds one record and calls done once it is durable, or failed. Callbacks
// run one at a time, in the order of the calls, with no lock held; they must
// not block. r.Payload is copied before Go returns. Go blocks while the limit
// of bytes in flight is reached. ctx's deadline bounds the whole append, its
// cancelling only that wait. A record that is refused at once gets its callback
// before Go returns; one whose deadline passed, as soon as that is found.
func (w *Writer) Go(ctx context.Context, r stream.Record, done func(stream.DLSN, error)) {
	rs := [1]stream.Record{r}
	if err := w.push(ctx, rs[:], kindRecords, done, true); err != nil {
		done(stream.InvalidDLSN, err)
	}
}

// GoBatch is Go for records in one entry: all of them become part of the stream,
// or none. done gets the DLSN of the first; the others follow it slot by slot.
func (w *Writer) GoBatch(ctx context.Context, rs []stream.Record, done func(first stream.DLSN, err error)) {
	if err := w.push(ctx, rs, kindRecords, done, true); err != nil {
		done(stream.InvalidDLSN, err)
	}
}

// TryGo is Go that does not block: it fails with stream.ErrBufferFull when the
// limit of bytes in flight is reached, and with what refuses the record. done is
// called only if TryGo returns nil.
func (w *Writer) TryGo(r stream.Record, done func(stream.DLSN, error)) error {
	rs := [1]stream.Record{r}
	return w.push(context.Background(), rs[:], kindRecords, done, false)
}

// GoSet is Go for a record set that a client packed (record.SetBuilder): it is
// written as it is and takes as many DLSNs as it has records, done gets the
// first of them. An unreadable one fails with stream.ErrCorrupt.
func (w *Writer) GoSet(ctx context.Context, txid stream.TxID, set []byte, done func(stream.DLSN, error)) {
	rs := [1]stream.Record{{TxID: txid, Payload: set}}
	if err := w.push(ctx, rs[:], kindSet, done, true); err != nil {
		done(stream.InvalidDLSN, err)
	}
}

// Flush waits until every record appended before it is durable, or failed: then
// it gives the cause.
func (w *Writer) Flush(ctx context.Context) error {
	wt := w.waiters.Get().(*waiter)
	w.mu.Lock()
	last := w.queue.tail
	if last == nil {
		last = w.inflight.tail
	}
	if last == nil {
		err := w.err
		w.mu.Unlock()
		return err
	}
	deadline := w.deadline(ctx, time.Now())
	last.pend = append(last.pend, pending{done: wt.fn, deadline: deadline})
	w.arm(deadline)
	w.mu.Unlock()
	_, err := wt.wait(ctx, w)
	return err
}

var errNoRecords = errors.New("batch without records")

// kind is what one append holds.
type kind uint8

const (
	kindRecords kind = iota // user records
	kindSet                 // one record set
)

// waiter turns a callback into a call that waits.
type waiter struct {
	c  chan struct{}
	d  stream.DLSN
	e  error
	fn func(stream.DLSN, error) // wt.done, made once
}

func newWaiter() any {
	wt := &waiter{c: make(chan struct{}, 1)}
	wt.fn = wt.done
	return wt
}

func (wt *waiter) done(d stream.DLSN, err error) {
	wt.d, wt.e = d, err
	wt.c <- struct{}{}
}

// wait gives what the callback got. When ctx ends first, the waiter stays with
// the callback.
func (wt *waiter) wait(ctx context.Context, w *Writer) (stream.DLSN, error) {
	select {
	case <-wt.c:
	case <-ctx.Done():
		return stream.InvalidDLSN, w.timeoutError("append to", ctx)
	}
	d, err := wt.d, wt.e
	w.waiters.Put(wt)
	return d, err
}

func (w *Writer) wait(ctx context.Context, rs []stream.Record) (stream.DLSN, error) {
	wt := w.waiters.Get().(*waiter)
	if err := w.push(ctx, rs, kindRecords, wt.fn, true); err != nil {
		w.waiters.Put(wt)
		return stream.InvalidDLSN, err
	}
	return wt.wait(ctx, w)
}

func (w *Writer) timeoutError(what string, ctx context.Context) error {
	cause := ctx.Err()
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%s stream %s: %w: %w", what, w.name, stream.ErrTimeout, cause)
	}
	return fmt.Errorf("%s stream %s: %w", what, w.name, cause)
}

// deadline is when an append ends that begins now.
func (w *Writer) deadline(ctx context.Context, now time.Time) int64 {
	d := now.Add(w.opts.WriteTimeout)
	if c, ok := ctx.Deadline(); ok && c.Before(d) {
		d = c
	}
	return d.UnixNano()
}

// push puts records into an entry: all into the same one.
func (w *Writer) push(ctx context.Context, rs []stream.Record, k kind, done func(stream.DLSN, error), block bool) error {
	size, err := sizeOf(rs)
	if err != nil {
		return w.refused(err)
	}
	if k == kindSet {
		if _, err := record.SetCount(rs[0].Payload); err != nil {
			return w.refused(err)
		}
	}
	if err := ctx.Err(); err != nil {
		return w.timeoutError("append to", ctx)
	}
	now := time.Now()
	deadline := w.deadline(ctx, now)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.admit(ctx, int64(size), deadline, block); err != nil {
		return err
	}
	chosen := max(stream.TxIDOf(now), w.lastTx)
	if err := w.checkTxIDs(rs, chosen); err != nil {
		return w.refused(err)
	}
	b := w.batchFor(size)
	slots := b.entry.Records()
	if err := b.put(rs, k, chosen); err != nil {
		return w.refused(err)
	}
	slots = b.entry.Records() - slots
	b.pend = append(b.pend, pending{done: done, deadline: deadline, slots: int64(slots)})
	b.bytes += int64(size)
	w.bytes += int64(size)
	w.lastTx = b.lastTx
	w.position = b.entry.Summary().Position
	if b.entry.SizeBytes() >= w.opts.EntryBytes {
		w.filling = nil
	}
	w.arm(deadline)
	w.signal()
	return nil
}

// refused says which stream refuses a record.
func (w *Writer) refused(err error) error {
	return fmt.Errorf("append to stream %s: %w", w.name, err)
}

// sizeOf is the bytes that records take in an entry.
func sizeOf(rs []stream.Record) (int, error) {
	if len(rs) == 0 {
		return 0, errNoRecords
	}
	size, payload := 0, 0
	for i := range rs {
		n := len(rs[i].Payload)
		if n > record.PayloadSizeMax {
			return 0, &stream.RecordTooLongError{Size: n, Limit: record.PayloadSizeMax}
		}
		payload += n
		size += record.HeaderSize + n
	}
	if most := record.EntrySizeMax - record.EnvelopeSize; size > most {
		return 0, fmt.Errorf("%d records in one entry: %w", len(rs),
			&stream.RecordTooLongError{Size: payload, Limit: most - len(rs)*record.HeaderSize})
	}
	return size, nil
}

// admit waits until there is room. Called with w.mu held, which it lets go of
// while it waits.
func (w *Writer) admit(ctx context.Context, size, deadline int64, block bool) error {
	var timeout *time.Timer
	for {
		if err := w.refusal(); err != nil {
			return err
		}
		if w.bytes == 0 || w.bytes+size <= w.opts.BytesInFlight {
			return nil
		}
		if !block {
			return fmt.Errorf("append to stream %s: %d bytes in flight: %w", w.name, w.bytes, stream.ErrBufferFull)
		}
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		if timeout == nil {
			timeout = time.NewTimer(time.Until(time.Unix(0, deadline)))
			defer timeout.Stop()
		}
		var err error
		select {
		case <-room:
		case <-ctx.Done():
			err = w.timeoutError("append to", ctx)
		case <-timeout.C:
			err = fmt.Errorf("append to stream %s: no room for it: %w", w.name, stream.ErrTimeout)
		}
		w.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// checkTxIDs refuses records that would let the txid go back. Called with w.mu
// held.
func (w *Writer) checkTxIDs(rs []stream.Record, chosen stream.TxID) error {
	last := w.lastTx
	for i := range rs {
		t := rs[i].TxID
		if t == 0 {
			t = max(chosen, last)
		}
		if !t.Valid() || t < last {
			return &stream.TxIDOrderError{TxID: t, Last: last}
		}
		last = t
	}
	return nil
}

// batchFor gives the entry that takes so many more bytes: the one being filled
// or a new one. Called with w.mu held.
func (w *Writer) batchFor(size int) *batch {
	if b := w.filling; b != nil && b.entry.SizeBytes()+size <= w.opts.EntryBytes {
		return b
	}
	b := w.newBatch()
	b.entry.Reset(w.cfg.Compression, w.position)
	w.queue.push(b)
	w.filling = b
	return b
}

// put adds records that fit. chosen is the txid of those that bring none.
func (b *batch) put(rs []stream.Record, k kind, chosen stream.TxID) error {
	last := stream.TxID(0)
	for i := range rs {
		t := rs[i].TxID
		if t == 0 {
			t = max(chosen, last)
		}
		last = t
		var err error
		if k == kindSet {
			err = b.entry.AppendSet(t, rs[i].Payload)
		} else {
			err = b.entry.Append(t, rs[i].Payload)
		}
		if b.noteTx(t, err) != nil {
			return err
		}
	}
	return nil
}

func (b *batch) noteTx(t stream.TxID, err error) error {
	if err != nil {
		return err
	}
	if !b.hasTx {
		b.firstTx, b.hasTx = t, true
	}
	b.lastTx = t
	return nil
}
