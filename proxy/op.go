package proxy

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/loglode/loglode/proxy/internal/owner"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// chunkBytes is the most that one entry's worth of a bulk call weighs, heads
// included.
const chunkBytes = 128 << 10

// recordHead is what a record weighs beside its payload.
const recordHead = 20

// op is one call on its way through a stream.
type op struct {
	call     *wire.Call
	s        *owned
	bytes    int64
	deadline time.Time
	turn     int64        // order of arrival, of the calls of one connection
	lease    *owner.Lease // of the connection
	append   bool         // a write or a bulk

	// Of an append that was handed to the writer:
	chunks []chunk
	left   atomic.Int32 // chunks without a callback, plus one while more are handed over
	failed atomic.Bool  // a chunk failed: no other is handed over
}

// chunk is a run of the call's records that share an entry.
type chunk struct {
	first stream.DLSN
	n     int
	err   error
}

// bound is the producer and the token of a bound append.
func (o *op) bound() (producer string, token int64, ok bool) {
	c := o.call.Context
	if !o.append || c == nil || c.Binding == nil {
		return "", 0, false
	}
	return c.GetProducer(), c.GetBinding(), true
}

// split cuts the call's records into chunks.
func (o *op) split() {
	data := o.call.Data
	if o.call.Context.GetIsRecordSet() {
		o.chunks = []chunk{{n: 1}}
		return
	}
	size, n := 0, 0
	for _, d := range data {
		w := len(d) + recordHead
		if n > 0 && size+w > chunkBytes {
			o.chunks = append(o.chunks, chunk{n: n})
			size, n = 0, 0
		}
		size += w
		n++
	}
	if n > 0 {
		o.chunks = append(o.chunks, chunk{n: n})
	}
}

// done is the writer's callback for chunk i.
func (o *op) done(i int, first stream.DLSN, err error) {
	o.chunks[i].first, o.chunks[i].err = first, err
	if err != nil {
		// Before anything behind it is handed over: see checkBind.
		o.failed.Store(true)
		o.s.mu.Lock()
		o.s.poison(o)
		o.s.doubt = o.s.doubt || !onlyTheCall(err)
		o.s.mu.Unlock()
	}
	if o.left.Add(-1) == 0 {
		o.s.finish(o)
	}
}

// handedOver ends the handing over of chunks.
func (o *op) handedOver() {
	if o.left.Add(-1) == 0 {
		o.s.finish(o)
	}
}

// last is the DLSN of the last record that became part of the stream.
func (o *op) last() (d stream.DLSN, ok bool) {
	for _, c := range o.chunks {
		if c.err == nil && c.n > 0 {
			d, ok = c.first, true
			d.Slot += int64(c.n - 1)
		}
	}
	return d, ok
}

// err is the first failure.
func (o *op) err() error {
	for _, c := range o.chunks {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// reply answers an op that was not handed to the writer, or failed whole.
func (o *op) reply(err error) { o.replyWith(wire.HeaderOf(err), "") }

func (o *op) replyWith(h *wire.ResponseHeader, dlsn string) {
	if h.Code != wire.Success {
		o.s.p.refused(h)
	}
	if o.call.Method == wire.WriteBulkWithContext {
		o.answer(&wire.Reply{Bulk: &wire.BulkWriteResponse{Header: h}})
		return
	}
	w := &wire.WriteResponse{Header: h}
	if dlsn != "" {
		w.Dlsn = &dlsn
	}
	o.answer(&wire.Reply{Write: w})
}

func (o *op) answer(r *wire.Reply) {
	o.s.p.load.Add(-o.bytes)
	o.call.Reply(r)
}

// replyDone answers an append that all went through the writer.
func (o *op) replyDone() {
	for _, c := range o.chunks {
		if c.err == nil {
			o.s.p.stats.records.Add(float64(c.n))
		}
	}
	if o.call.Method != wire.WriteBulkWithContext {
		if err := o.err(); err != nil {
			o.reply(err)
			return
		}
		o.replyWith(&wire.ResponseHeader{Code: wire.Success}, o.chunks[0].first.Base64())
		return
	}
	if len(o.chunks) > 0 && wholeCall(wire.CodeOf(o.chunks[0].err)) {
		o.reply(o.chunks[0].err)
		return
	}
	n := 0
	for _, c := range o.chunks {
		n += c.n
	}
	items := make([]wire.Item, 0, n)
	for _, c := range o.chunks {
		it := wire.Item{Code: wire.Success, DLSN: c.first}
		if c.err != nil {
			h := wire.HeaderOf(c.err)
			it = wire.Item{Code: h.Code, Err: h.GetErrMsg()}
		}
		for range c.n {
			items = append(items, it)
			it.DLSN.Slot++
		}
	}
	o.answer(&wire.Reply{Items: items})
}

// wholeCall tells the failures of a bulk's first item that stand for the whole
// call.
func wholeCall(c wire.Code) bool {
	return c == wire.Found || c == wire.AlreadyClosed || c == wire.LockingException
}

// tooLong checks the records of an append before any of them is written.
func (o *op) tooLong() error {
	for i, d := range o.call.Data {
		if len(d) > wire.PayloadBytesMax {
			return fmt.Errorf("record %d of the call: %w", i, &stream.RecordTooLongError{Size: len(d), Limit: wire.PayloadBytesMax})
		}
	}
	return nil
}

// status makes an error with a code of its own.
func status(code wire.Code, format string, args ...any) error {
	return &wire.StatusError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// onlyTheCall tells failures that are the call's own: the stream stays as it is.
func onlyTheCall(err error) bool {
	for _, e := range []error{stream.ErrRecordTooLong, stream.ErrTxIDOrder, stream.ErrSealed, stream.ErrBufferFull, stream.ErrTruncated,
		stream.ErrInvalidPosition, stream.ErrInvalidDLSN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
