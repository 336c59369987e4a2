package readers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/loglode/loglode/segment"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// GapError says that records are missing between two that were read. It wraps
// stream.ErrCorrupt.
type GapError struct {
	Stream stream.Name
	After  stream.DLSN // the last record before the hole
	Err    error       // what gave it away
}

func (e *GapError) Error() string {
	return fmt.Sprintf("stream %s: records are missing after %v: %v", e.Stream, e.After, e.Err)
}

func (e *GapError) Unwrap() []error { return []error{stream.ErrCorrupt, e.Err} }

// Reader reads one stream. One goroutine at a time may use it. It starts one
// goroutine, which fetches ahead; Close and Seek wait for it.
//
// A position by DLSN that was truncated fails with a *stream.TruncatedError; by
// txid or time it means the first such record that is left.
type Reader struct {
	src  *segment.Stream
	opts Options

	fetch *fetcher
	bound stream.DLSN // records from here on are not given; zero = no bound
	from  stream.DLSN // records before it are skipped
	minTx stream.TxID // so are records before the first with this txid

	chunk *chunk // being given
	entry int    // the next of chunk.entries
	open  bool   // it is on an entry
	it    record.Iterator
	gap   record.GapCheck
	seg   segment.Info
	last  stream.Record // the last one given, without payload; DLSN invalid before the first
	seen  stream.DLSN   // the last one seen, given or not
	pos   int64         // its position in seg
	held  stream.Record
	holds bool // held waits for its pace
	pace  pacer
	err   error // final
}

// Open opens a reader of a stream at a position.
func Open(ctx context.Context, src *segment.Stream, from stream.Position, opts ...Option) (*Reader, error) {
	return open(ctx, src, from, stream.DLSN{}, opts)
}

func open(ctx context.Context, src *segment.Stream, from stream.Position, bound stream.DLSN, opts []Option) (*Reader, error) {
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &Reader{src: src, opts: o.withDefaults(), bound: bound}
	if err := r.begin(ctx, from); err != nil {
		return nil, err
	}
	return r, nil
}

// ended gives a reader with nothing to give.
func ended(src *segment.Stream, opts []Option) (*Reader, error) {
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Reader{src: src, opts: o.withDefaults(), bound: stream.DLSN{Slot: 1}, fetch: noFetcher(), err: io.EOF}, nil
}

// begin starts to fetch from a position.
func (r *Reader) begin(ctx context.Context, p stream.Position) error {
	at, err := locate(ctx, r.src, p)
	if err != nil {
		return fmt.Errorf("open reader of stream %s at %v: %w", r.src.Name(), p, err)
	}
	f, err := newFetcher(r.src, r.opts, at, r.bound)
	if err != nil {
		return fmt.Errorf("open reader of stream %s at %v: %w", r.src.Name(), p, err)
	}
	*r = Reader{src: r.src, opts: r.opts, bound: r.bound, fetch: f, from: at.dlsn, minTx: at.minTx,
		it: r.it, last: stream.Record{DLSN: stream.InvalidDLSN, TxID: stream.InvalidTxID}, pace: pacer{speed: r.opts.Pace}}
	return nil
}

// Next gives the next record; its payload is valid until the next call. It
// waits for one until ctx ends. It ends with io.EOF when the stream is sealed
// or the bound is reached.
func (r *Reader) Next(ctx context.Context) (stream.Record, error) {
	for !r.holds {
		if r.held, r.holds = r.step(); r.holds {
			break
		}
		if err := r.advance(ctx); err != nil {
			return stream.Record{}, err
		}
	}
	if err := r.pace.wait(ctx, r.held.TxID); err != nil {
		return stream.Record{}, r.contextError(ctx)
	}
	r.holds = false
	return r.held, nil
}

// NextBatch waits for one record and then fills dst with what follows it in
// its entry. It gives the number of records, at least 1 when it succeeds; their
// payloads are valid until the next call.
func (r *Reader) NextBatch(ctx context.Context, dst []stream.Record) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	rec, err := r.Next(ctx)
	if err != nil {
		return 0, err
	}
	dst[0] = rec
	n := 1
	for n < len(dst) && r.opts.Pace == 0 {
		rec, ok := r.stepInEntry()
		if !ok {
			break
		}
		dst[n] = rec
		n++
	}
	return n, nil
}

// Seek continues at another position. It also revives a reader that has failed.
// If it fails, the reader has ended.
func (r *Reader) Seek(ctx context.Context, p stream.Position) error {
	r.fetch.stop()
	if err := r.begin(ctx, p); err != nil {
		r.err = err
		return err
	}
	return nil
}

// Close ends the reader and waits for its goroutine. It may be called while
// another goroutine is in Next, which then fails with stream.ErrClosed.
func (r *Reader) Close() error {
	r.fetch.stop()
	return nil
}

// step gives the next record of what is fetched already.
func (r *Reader) step() (stream.Record, bool) {
	for r.err == nil && r.chunk != nil {
		if r.open {
			if rec, ok := r.stepInEntry(); ok {
				return rec, true
			}
			continue
		}
		if r.entry == len(r.chunk.entries) {
			return stream.Record{}, false
		}
		e := r.chunk.entries[r.entry]
		r.entry++
		r.it.Reset(r.chunk.payload(e), r.seg.Enveloped(), stream.DLSN{Segment: r.seg.Segment, Entry: e.id})
		r.open = true
	}
	return stream.Record{}, false
}

// stepInEntry gives the next record of the entry that it is on; false at the
// entry's end and at a failure.
func (r *Reader) stepInEntry() (stream.Record, bool) {
	for r.open && r.err == nil {
		if !r.it.Next() {
			r.open = false
			if err := r.it.Err(); err != nil {
				r.fail(fmt.Errorf("read stream %s: %w", r.src.Name(), err))
			}
			break
		}
		v := r.it.View()
		if r.wanted(&v) {
			r.last = stream.Record{DLSN: v.DLSN, TxID: v.TxID}
			return v.Record, true
		}
	}
	return stream.Record{}, false
}

// wanted checks a record and tells whether it is given.
func (r *Reader) wanted(v *record.View) bool {
	switch {
	case v.Flags&record.FlagEndOfStream != 0:
		r.fail(io.EOF)
		return false
	case !v.Flags.User():
		return false
	case r.bound != stream.DLSN{} && !v.DLSN.Less(r.bound):
		r.fail(io.EOF)
		return false
	}
	if err := r.gap.Check(*v); err != nil {
		r.fail(&GapError{Stream: r.src.Name(), After: r.seen, Err: err})
		return false
	}
	r.seen, r.pos = v.DLSN, v.LastPosition
	if v.DLSN.Less(r.from) || v.TxID < r.minTx {
		return false
	}
	r.minTx = 0
	return r.opts.Filter == nil || r.opts.Filter(v.Record)
}

// fail ends the reader until a Seek.
func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
		r.open = false
	}
}

// advance waits for the next chunk.
func (r *Reader) advance(ctx context.Context) error {
	if r.err == nil && r.boundReached() {
		r.err = io.EOF
	}
	if r.err != nil {
		return r.err
	}
	r.fetch.release(r.chunk)
	r.chunk, r.entry = nil, 0
	c, err := r.await(ctx)
	if err != nil {
		return err
	}
	if c.err != nil {
		r.fail(c.err)
		return c.err
	}
	if c.fresh {
		if err := r.checkEnd(c); err != nil {
			r.fail(err)
			return err
		}
		r.seg, r.pos = c.seg, 0
		r.gap.Reset()
		if first := c.seg.First(); r.from.Less(first) {
			r.from = first // a truncation may cut inside an entry
		}
	}
	r.chunk = c
	return nil
}

// boundReached reports whether the record just before the bound was seen, so
// that there is nothing to wait for.
func (r *Reader) boundReached() bool {
	return r.bound != stream.DLSN{} && !r.seen.Next().Less(r.bound)
}

// checkEnd looks for records that are missing at the end of a completed segment.
// c is the first chunk of the next one.
func (r *Reader) checkEnd(c *chunk) error {
	if c.jumped || r.pos == 0 || c.before.Segment != r.seg.Segment || c.before.InProgress || c.before.Records <= r.pos {
		return nil
	}
	return &GapError{Stream: r.src.Name(), After: r.seen,
		Err: fmt.Errorf("segment %d has %d records, %d were read", r.seg.Segment, c.before.Records, r.pos)}
}

// await takes the next chunk from the fetcher, and tells of idleness.
func (r *Reader) await(ctx context.Context) (*chunk, error) {
	if c := r.fetch.take(); c != nil {
		return c, nil
	}
	began := time.Now()
	var idle <-chan time.Time
	if r.opts.IdleAfter > 0 {
		t := time.NewTimer(r.opts.IdleAfter)
		defer t.Stop()
		idle = t.C
	}
	for {
		select {
		case <-r.fetch.ready:
			if c := r.fetch.take(); c != nil {
				return c, nil
			}
		case <-idle:
			r.opts.Idle(Idle{After: r.last.DLSN, Waiting: time.Since(began)})
		case <-ctx.Done():
			return nil, r.contextError(ctx)
		case <-r.fetch.ended:
			if c := r.fetch.take(); c != nil {
				return c, nil
			}
			return nil, fmt.Errorf("read stream %s: %w", r.src.Name(), stream.ErrClosed)
		}
	}
}

func (r *Reader) contextError(ctx context.Context) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", stream.ErrTimeout, err)
	}
	if cause := r.fetch.trouble(); cause != nil {
		err = fmt.Errorf("%w; last failure: %w", err, cause)
	}
	return fmt.Errorf("read stream %s: %w", r.src.Name(), err)
}
