package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// Writer appends to one stream through its owner. Any number of goroutines may
// use it; records get their DLSNs in the order of the calls. It starts one
// goroutine, which Close and Abort wait for.
type Writer struct {
	c        *Client
	name     stream.Name
	producer string
	ctx      context.Context // of the writer; ended by Abort
	cancel   context.CancelFunc
	wake     chan struct{} // rouses run
	ended    chan struct{} // closed when run has ended

	mu      sync.Mutex // guards the fields below
	queue   []rec      // not sent, or to be sent again
	bytes   int        // of records without a callback
	arena   []byte     // payloads are copied into it
	room    chan struct{}
	pushed  int64 // records appended
	settled int64 // records whose callback has begun
	flushes []flush
	closing bool
	err     error // why the writer failed
	results bool  // a call in flight has got its answer

	// Of run alone:
	bound     *binding
	calls     []*sent // in flight, in order
	acked     stream.DLSN
	known     bool          // acked says where this writer's records begin
	maybe     int           // records at the head of queue that may be in the stream
	suspects  []string      // hosts that the next binding should not begin with
	checked   time.Time     // when checkSlow last looked after an answer
	refusals  time.Duration // before the next binding; grows while the owner refuses
	lastError error
}

// rec is one record on its way.
type rec struct {
	payload []byte
	done    func(stream.DLSN, error)
	at      time.Time // when it was appended
}

// flush waits until so many records are settled.
type flush struct {
	upTo int64
	c    chan struct{}
}

// binding is the writer's hold on the stream at its owner.
type binding struct {
	conn  *wire.Conn
	addr  string
	token int64
	own   bool // the proxy knows bindings; if not, one call at a time is in flight
	over  bool // something was refused or failed: nothing more is sent
	// unknown: the outcome of what failed first is open.
	unknown bool
}

// sent is a bulk call in flight.
type sent struct {
	recs  []rec
	at    time.Time
	reply *wire.Reply
	err   error
	got   bool
}

// errAborted is what Abort fails records with.
var errAborted = fmt.Errorf("writer aborted: %w", stream.ErrClosed)

// Writer makes a writer. It does no I/O: the first append finds the owner.
func (c *Client) Writer(_ context.Context, name stream.Name) (*Writer, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("proxy client: %w", stream.ErrClosed)
	}
	w := &Writer{
		c: c, name: name, wake: make(chan struct{}, 1), ended: make(chan struct{}),
		// Names this writer to proxies: no other one ever has it.
		producer: strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36),
	}
	w.ctx, w.cancel = context.WithCancel(c.ctx)
	go w.run()
	return w, nil
}

// Append adds one record and waits until it is durable. When ctx ends first,
// the record may still become part of the stream.
func (w *Writer) Append(ctx context.Context, r stream.Record) (stream.DLSN, error) {
	ds, err := w.AppendBatch(ctx, []stream.Record{r})
	if err != nil {
		return stream.InvalidDLSN, err
	}
	return ds[0], nil
}

// AppendBatch adds records one after the other and waits until all are durable.
// Unlike that of package writers it is not all or nothing: when it fails, the
// first of them may be in the stream.
func (w *Writer) AppendBatch(ctx context.Context, rs []stream.Record) ([]stream.DLSN, error) {
	if len(rs) == 0 {
		return nil, w.Err()
	}
	ds := make([]stream.DLSN, len(rs))
	var mu sync.Mutex // guards i, first
	var first error
	i := 0
	all := make(chan struct{})
	done := func(d stream.DLSN, err error) {
		mu.Lock()
		defer mu.Unlock()
		ds[i] = d
		if i++; err != nil && first == nil {
			first = err
		}
		if i == len(rs) {
			close(all)
		}
	}
	if err := w.push(ctx, rs, done, true); err != nil {
		return nil, err
	}
	select {
	case <-all:
	case <-ctx.Done():
		return nil, w.waitEnded(ctx)
	}
	if first != nil {
		return nil, first
	}
	return ds, nil
}

// Go adds one record and calls done once it is durable, or failed. Callbacks
// run one at a time, in the order of the calls, with no lock held; they must
// not block. r.Payload is copied before Go returns. Go blocks while the limit
// of bytes in flight is reached, at most until ctx ends. A record that is
// refused at once gets its callback before Go returns.
func (w *Writer) Go(ctx context.Context, r stream.Record, done func(stream.DLSN, error)) {
	rs := [1]stream.Record{r}
	if err := w.push(ctx, rs[:], done, true); err != nil {
		done(stream.InvalidDLSN, err)
	}
}

// TryGo is Go that does not block: it fails with stream.ErrBufferFull when the
// limit of bytes in flight is reached. done is called only if it returns nil.
func (w *Writer) TryGo(r stream.Record, done func(stream.DLSN, error)) error {
	rs := [1]stream.Record{r}
	return w.push(context.Background(), rs[:], done, false)
}

// Flush waits until every record appended before it is durable, or failed: then
// it gives the cause.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	if w.settled == w.pushed {
		defer w.mu.Unlock()
		return w.err
	}
	f := flush{w.pushed, make(chan struct{})}
	w.flushes = append(w.flushes, f)
	w.mu.Unlock()
	select {
	case <-f.c:
		return w.failure()
	case <-ctx.Done():
		return w.waitEnded(ctx)
	}
}

// Close waits until every record is durable, or failed, and ends the writer.
// The owner keeps the stream.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.rouse()
	<-w.ended
	w.cancel()
	return w.failure()
}

// Abort ends the writer at once. Records that were not acknowledged fail; they
// may be in the stream.
func (w *Writer) Abort() error {
	w.cancel()
	<-w.ended
	return nil
}

// Err is why the writer has ended: nil while it works, stream.ErrClosed after
// Close or Abort.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusal()
}

// Done is closed when the writer has ended: failed, closed or aborted.
func (w *Writer) Done() <-chan struct{} { return w.ended }

func (w *Writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// refusal is why no record is accepted. Called with w.mu held.
func (w *Writer) refusal() error {
	switch {
	case w.err != nil:
		return w.err
	case w.closing:
		return fmt.Errorf("writer of stream %s: %w", w.name, stream.ErrClosed)
	case w.ctx.Err() != nil:
		return fmt.Errorf("writer of stream %s: %w", w.name, errAborted)
	}
	return nil
}

func (w *Writer) waitEnded(ctx context.Context) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", stream.ErrTimeout, err)
	}
	return fmt.Errorf("append to stream %s: %w", w.name, err)
}

// push queues records, all or none.
func (w *Writer) push(ctx context.Context, rs []stream.Record, done func(stream.DLSN, error), block bool) error {
	size, err := sizeOf(rs)
	if err != nil {
		return fmt.Errorf("append to stream %s: %w", w.name, err)
	}
	w.mu.Lock()
	for {
		if err := w.refusal(); err != nil {
			w.mu.Unlock()
			return err
		}
		if w.bytes == 0 || w.bytes+size <= w.c.o.BytesInFlight {
			break
		}
		if !block {
			n := w.bytes
			w.mu.Unlock()
			return fmt.Errorf("append to stream %s: %d bytes in flight: %w", w.name, n, stream.ErrBufferFull)
		}
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return w.waitEnded(ctx)
		}
		w.mu.Lock()
	}
	now := time.Now()
	for _, r := range rs {
		w.queue = append(w.queue, rec{w.keep(r.Payload), done, now})
	}
	w.bytes += size
	w.pushed += int64(len(rs))
	w.mu.Unlock()
	w.rouse()
	return nil
}

// recordHead is what a record counts beside its payload.
const recordHead = 20

func sizeOf(rs []stream.Record) (int, error) {
	size := 0
	for _, r := range rs {
		if len(r.Payload) > wire.PayloadBytesMax {
			return 0, &stream.RecordTooLongError{Size: len(r.Payload), Limit: wire.PayloadBytesMax}
		}
		if r.TxID > 0 {
			return 0, fmt.Errorf("txid %d: a proxy gives records their txids: %w", r.TxID, errors.ErrUnsupported)
		}
		size += len(r.Payload) + recordHead
	}
	return size, nil
}

// arenaBytes is the size of the blocks that payloads are copied into: one
// allocation for many records.
const arenaBytes = 64 << 10

// keep copies a payload. Called with w.mu held.
func (w *Writer) keep(p []byte) []byte {
	if len(p) > arenaBytes/4 {
		return append([]byte(nil), p...)
	}
	if len(w.arena)+len(p) > cap(w.arena) {
		w.arena = make([]byte, 0, arenaBytes)
	}
	at := len(w.arena)
	w.arena = append(w.arena, p...)
	return w.arena[at:len(w.arena):len(w.arena)]
}

func (w *Writer) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// settle runs callbacks of records that are done with, in order.
func (w *Writer) settle(recs []rec, d func(i int) stream.DLSN, err error) {
	for i := range recs {
		at := stream.InvalidDLSN
		if err == nil {
			at = d(i)
		}
		recs[i].done(at, err)
	}
	size := 0
	for _, r := range recs {
		size += len(r.payload) + recordHead
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes -= size
	w.settled += int64(len(recs))
	for len(w.flushes) > 0 && w.flushes[0].upTo <= w.settled {
		close(w.flushes[0].c)
		w.flushes = w.flushes[1:]
	}
	if w.room != nil && (w.bytes <= w.c.o.BytesInFlight*3/4 || err != nil) {
		close(w.room)
		w.room = nil
	}
}
