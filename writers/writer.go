package writers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/segment"
	"github.com/loglode/loglode/stream"
)

// Writer appends to one stream. Any number of goroutines may use it; records
// get their DLSNs in the order of the calls.
//
// A record's TxID 0 lets the writer choose: the append time in milliseconds,
// or the last txid where that is higher. A txid below the last one is refused
// with a *stream.TxIDOrderError; equal ones are allowed.
//
// It starts one goroutine, which hands entries over and starts segments; a
// second one runs only while a segment is prepared or completed beside it. Close
// and Abort wait for both, and may not be called from a callback.
type Writer struct {
	log   stepper
	name  stream.Name
	cfg   stream.Config // with its defaults filled in
	opts  Options
	zlog  *zap.Logger
	stats *metrics

	ctx     context.Context // of what the writer does on its own; ended by fail
	cancel  context.CancelFunc
	wake    chan struct{} // rouses the sender
	closed  chan struct{} // closed when closing is set
	settled chan struct{} // closed when the sender has ended
	waiters sync.Pool     // of *waiter
	batches sync.Pool     // of *batch

	mu       sync.Mutex  // guards what follows
	quiet    sync.Cond   // signalled when delivering or beside ends
	queue    batchList   // filled or being filled, in order
	inflight batchList   // handed over, in order
	filling  *batch      // the last of queue, while it may take more
	seg      *current    // being written; nil before the first entry
	roll     rollState   // of seg
	position int64       // user records of seg once queue is written
	lastTx   stream.TxID // highest accepted
	bytes    int64       // of records not acknowledged
	room     chan struct{}
	idle     bool  // the sender waits for wake
	closing  bool  // no more appends; drain, then end
	sealing  bool  // mark the end of the stream then
	aborted  bool  // end without completing
	err      error // why the writer failed; nil while it works, and after Close
	closeErr error // of completing or sealing

	delivering bool // one goroutine runs callbacks
	running    bool // the goroutine beside the sender runs
	expired    []func(stream.DLSN, error)
	timer      *time.Timer
	timerAt    int64       // Unix nanoseconds; 0 = not armed
	drained    *time.Timer // gives up on the records in flight of a Close
}

// current is the segment being written.
type current struct {
	target
	started time.Time
	looked  time.Time // when it was last looked whether a short segment can be replaced
	bytes   int64     // of entries handed over
}

func newCurrent(t target) *current {
	now := time.Now()
	return &current{target: t, started: now, looked: now}
}

// Open makes a writer of a claimed stream. It fails with stream.ErrSealed.
func Open(name stream.Name, claim *segment.Claim, cfg stream.Config, opts ...Option) (*Writer, error) {
	if claim.Sealed() {
		return nil, fmt.Errorf("open writer of stream %s: %w", name, stream.ErrSealed)
	}
	cfg = cfg.WithDefaults()
	return open(name, &claimed{claim: claim, quorum: cfg.Quorum}, claim.LastTxID(), cfg, opts...)
}

func open(name stream.Name, log stepper, last stream.TxID, cfg stream.Config, opts ...Option) (*Writer, error) {
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("open writer of stream %s: %w", name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writer{
		log: log, name: name, cfg: cfg.WithDefaults(), opts: o, stats: m, ctx: ctx, cancel: cancel,
		zlog: o.Logger.Named("writers").With(zap.String("stream", string(name))),
		wake: make(chan struct{}, 1), closed: make(chan struct{}), settled: make(chan struct{}),
		lastTx: last,
	}
	w.quiet.L, w.waiters.New = &w.mu, newWaiter
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	go w.run()
	return w, nil
}

// LastTxID is the highest txid accepted, or found when the writer was opened;
// stream.InvalidTxID in an empty stream.
func (w *Writer) LastTxID() stream.TxID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastTx
}

// Err is why the writer takes no records: nil while it does, stream.ErrClosed
// after Close or Abort, stream.ErrFenced after another writer took the stream
// over.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusal()
}

// refusal is Err with w.mu held.
func (w *Writer) refusal() error {
	switch {
	case w.err != nil:
		return w.err
	case w.closing || w.aborted:
		return fmt.Errorf("writer of stream %s: %w", w.name, stream.ErrClosed)
	}
	return nil
}

// Done is closed when the writer has ended: failed, closed or aborted.
func (w *Writer) Done() <-chan struct{} { return w.settled }

// signal rouses the sender if it waits and has something to do. Called with
// w.mu held.
func (w *Writer) signal() {
	if !w.idle || w.next() == stepWait {
		return
	}
	w.idle = false
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// fail ends the writer for good. Called with w.mu held; deliver must follow,
// without letting go of w.mu in between.
func (w *Writer) fail(err error) {
	if w.err != nil || w.aborted {
		return
	}
	if errors.Is(err, stream.ErrFenced) {
		var fe *stream.FencedError
		if !errors.As(err, &fe) {
			err = &stream.FencedError{Stream: w.name, At: time.Now(), Cause: err}
		}
	}
	w.err = err
	w.cancel()
	w.freeRoom(true)
	w.signal()
}

// freeRoom lets blocked appends try again: always, or once a quarter of the
// limit is free, so that they are not roused for every entry. Called with w.mu
// held.
func (w *Writer) freeRoom(always bool) {
	if w.room != nil && (always || w.bytes <= w.opts.BytesInFlight/4*3) {
		close(w.room)
		w.room = nil
	}
}
