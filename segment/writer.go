package segment

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// Writer appends entries to the one segment it started.
type Writer struct {
	claim   *Claim
	info    Info
	ledger  ledgerWriter
	started time.Time
	short   bool      // see Allocation.Short
	pool    sync.Pool // of *pending

	// Of the goroutine that calls Go.
	position int64
	unsent   bool // the entry that Go is on was refused before it was sent

	pushed  atomic.Int64 // payload bytes
	closing atomic.Bool  // by this writer

	mu     sync.Mutex // guards what follows
	acked  end
	lastID int64 // last entry acknowledged
	err    error
	closed bool
}

// pending is one entry in flight. It is pooled with its callback bound, so that
// an append allocates nothing.
type pending struct {
	w    *Writer
	sum  record.Summary
	done func(entry int64, err error)
	ack  func(bk.EntryID, error)
}

func newWriter(c *Claim, i Info, l ledgerWriter) *Writer {
	w := &Writer{claim: c, info: i, ledger: l, started: time.Now(), lastID: -1,
		acked: end{lastTx: i.FirstTxID, last: -1, lastSlot: -1}}
	w.pool.New = func() any {
		p := &pending{w: w}
		p.ack = p.acknowledged
		return p
	}
	return w
}

// Segment is the segment's number.
func (w *Writer) Segment() int64 { return w.info.Segment }

// Short reports whether the segment has fewer bookies than were asked for: it
// is well to start another one once there are enough.
func (w *Writer) Short() bool { return w.short }

// Ledger is the id of the segment's ledger.
func (w *Writer) Ledger() bk.LedgerID { return w.info.Ledger }

// FirstTxID is what the segment was started with.
func (w *Writer) FirstTxID() stream.TxID { return w.info.FirstTxID }

// Started is when the segment was started.
func (w *Writer) Started() time.Time { return w.started }

// SizeBytes is the number of payload bytes pushed into the ledger.
func (w *Writer) SizeBytes() int64 { return w.pushed.Load() }

// Position is the number of user records of all entries pushed so far: what
// record.Builder.Reset takes for the next entry. It belongs to the goroutine
// that calls Go.
func (w *Writer) Position() int64 { return w.position }

// Err is why the writer has ended, nil while it has not.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Go appends an entry (record.Builder.Finish and Summary) and calls done with
// its entry id once it is acknowledged, or with the failure; callbacks come in
// order, on a goroutine of the ledger client, and must not block. The DLSN of
// the record in slot k is {Segment(), entry, k}. payload is the caller's again
// when done runs. Go blocks while the byte limit in flight is reached; if ctx
// ends meanwhile, done gets its error before Go returns and the entry was not
// sent. One goroutine at a time may call Go and TryGo. After the first failure
// of an entry that was sent all later ones fail with the same cause.
func (w *Writer) Go(ctx context.Context, payload []byte, sum record.Summary, done func(entry int64, err error)) {
	p := w.prepare(sum, done)
	before := w.position
	w.position, w.unsent = sum.Position, false
	w.ledger.Go(ctx, payload, p.ack)
	if w.unsent {
		w.position = before
		return
	}
	w.pushed.Add(int64(len(payload)))
}

// TryGo is Go that does not block: stream.ErrBufferFull when the byte limit is
// reached, the writer's failure when it has ended. done is called only if TryGo
// returns nil.
func (w *Writer) TryGo(payload []byte, sum record.Summary, done func(entry int64, err error)) error {
	p := w.prepare(sum, done)
	if err := w.ledger.TryGo(payload, p.ack); err != nil {
		w.recycle(p)
		return w.failure(err)
	}
	w.position = sum.Position
	w.pushed.Add(int64(len(payload)))
	return nil
}

func (w *Writer) prepare(sum record.Summary, done func(entry int64, err error)) *pending {
	p := w.pool.Get().(*pending)
	p.sum, p.done = sum, done
	return p
}

func (w *Writer) recycle(p *pending) {
	p.done = nil
	w.pool.Put(p)
}

// acknowledged is called by the ledger, in entry order.
func (p *pending) acknowledged(id bk.EntryID, err error) {
	w, sum, done := p.w, p.sum, p.done
	w.recycle(p)
	if err != nil {
		if w.ledger.Err() == nil {
			// Refused before it was sent, so this runs inside Go.
			w.unsent = true
			done(-1, w.failure(err))
			return
		}
		done(-1, w.fail(err))
		return
	}
	w.mu.Lock()
	a := &w.acked
	a.entries = true
	a.records = sum.Position
	w.lastID = int64(id)
	switch {
	case sum.LastUser >= 0:
		a.last, a.lastSlot, a.lastTx = int64(id), int64(sum.LastUser), sum.LastTxID
	case a.records == 0 && sum.Records > 0:
		a.last, a.lastSlot = int64(id), int64(sum.Records-1) // nothing but control records yet
	}
	w.mu.Unlock()
	done(int64(id), nil)
}

// fail notes the first failure and gives it.
func (w *Writer) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.failure(err)
	}
	return w.err
}

// failure names the writer's condition. A ledger that another client closed is
// one that another writer has recovered.
func (w *Writer) failure(err error) error {
	closedByOther := errors.Is(err, bk.ErrLedgerClosed) && !w.closing.Load()
	if errors.Is(err, bk.ErrFenced) || errors.Is(err, bk.ErrMetadataConflict) || closedByOther {
		return &stream.FencedError{Stream: w.claim.s.name, At: time.Now(), Cause: err}
	}
	return MapError(err)
}

// Acked tells what is acknowledged so far: the last entry id (-1 without one),
// the number of user records and the last txid that a completion would write.
func (w *Writer) Acked() (entry int64, records int64, lastTxID stream.TxID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastID, w.acked.records, w.acked.lastTx
}

// end is what a completion writes, once the ledger is closed.
func (w *Writer) end() end {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked
}

// close waits for the entries in flight and closes the ledger in its metadata.
func (w *Writer) close(ctx context.Context) error {
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return nil
	}
	w.closing.Store(true)
	err := w.ledger.Close(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = err == nil
	if w.err == nil && err == nil {
		w.err = stream.ErrClosed
	}
	return err
}

// Abort lets go at once, as a crash would: entries in flight fail, the segment
// stays in progress, and the next claim recovers it.
func (w *Writer) Abort() error {
	err := MapError(w.ledger.Abort())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = stream.ErrClosed
	}
	return err
}
