package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// Entry is one entry of a segment, as read.
type Entry struct {
	ID      int64
	Payload []byte // see Reader.Decode
}

// Reader reads the entries of one segment, and follows one that is in progress.
// Its methods may be called by one goroutine at a time, except Close, LAC and
// Closed.
type Reader struct {
	s    *Stream
	info Info
	l    ledgerReader
	next int64
	run  *run // of the call that is busy; of Close, if none is

	mu     sync.Mutex // guards what follows
	busy   bool
	closed bool
	cancel context.CancelFunc // of what the busy call waits for
}

// OpenReader opens a segment of List without fencing it. It fails with
// stream.ErrNotFound if the ledger was deleted meanwhile.
func (s *Stream) OpenReader(ctx context.Context, info Info) (*Reader, error) {
	l, err := s.tree.ledgers.open(ctx, info.Ledger, openNoRecovery)
	if err != nil {
		return nil, s.wrap(fmt.Sprintf("open segment %d", info.Segment), err)
	}
	return newReader(s, info, l), nil
}

func newReader(s *Stream, i Info, l ledgerReader) *Reader { return &Reader{s: s, info: i, l: l} }

// Info is the segment as it was listed when the reader was opened.
func (r *Reader) Info() Info { return r.info }

// LAC is the last entry that is known to be confirmed, -1 without one.
func (r *Reader) LAC() int64 { return int64(r.l.LAC()) }

// Closed reports whether the segment can get no more entries: LAC is its last
// one then.
func (r *Reader) Closed() bool { return r.l.Closed() }

// SeekTo makes entry the next that Next gives; the first is 0.
func (r *Reader) SeekTo(entry int64) {
	if !r.enter() {
		return
	}
	defer r.exit()
	r.stopRun()
	r.next = max(entry, 0)
}

// enter begins a call that uses the run; false once the reader is closed.
func (r *Reader) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = !r.closed
	return r.busy
}

// exit ends the call. A Close that came meanwhile left the run to it.
func (r *Reader) exit() {
	r.mu.Lock()
	r.busy = false
	closed := r.closed
	r.mu.Unlock()
	if closed {
		r.stopRun()
	}
}

// Ready reports whether Next has an entry that needs no waiting for a writer.
func (r *Reader) Ready() bool { return r.next <= r.LAC() }

// Decode starts it on the records of an entry.
func (r *Reader) Decode(it *record.Iterator, e Entry) {
	it.Reset(e.Payload, r.info.Enveloped(), stream.DLSN{Segment: r.info.Segment, Entry: e.ID})
}

// Next gives the next entry and waits for it where the segment is in progress.
// It gives io.EOF after the last entry of a segment that is closed: another one
// may follow in the stream. The payload is valid until the next call. If ctx
// ends, Next can be called again.
func (r *Reader) Next(ctx context.Context) (Entry, error) {
	if !r.enter() {
		return Entry{}, r.s.wrap(fmt.Sprintf("read segment %d", r.info.Segment), stream.ErrClosed)
	}
	defer r.exit()
	e, err := r.nextEntry(ctx)
	if err != nil {
		if err == io.EOF {
			return Entry{}, err
		}
		return Entry{}, r.s.wrap(fmt.Sprintf("read segment %d entry %d", r.info.Segment, r.next), err)
	}
	if int64(e.ID) != r.next {
		return Entry{}, &stream.CorruptError{Where: fmt.Sprintf("ledger %d", r.info.Ledger), Offset: -1,
			Want: fmt.Sprintf("entry %d", r.next), Got: e.ID.String()}
	}
	r.next++
	return Entry{ID: int64(e.ID), Payload: e.Payload}, nil
}

func (r *Reader) nextEntry(ctx context.Context) (bk.Entry, error) {
	for {
		if err := ctx.Err(); err != nil {
			return bk.Entry{}, err
		}
		if r.run != nil {
			e, ok, err := r.run.next(ctx)
			if ok && err == nil {
				return e, nil
			}
			interrupted := r.run.ctx.Err() != nil
			r.stopRun()
			if err != nil && !(interrupted && ctx.Err() == nil && !r.isClosed()) {
				return bk.Entry{}, r.closedOr(ctx, err)
			}
		}
		closed := r.l.Closed() // before the LAC: a close that comes in between is seen next time
		lac := int64(r.l.LAC())
		switch {
		case r.next <= lac:
			if !r.startRun(lac) {
				return bk.Entry{}, stream.ErrClosed
			}
		case closed:
			return bk.Entry{}, io.EOF
		default:
			e, err := r.wait(ctx)
			if errors.Is(err, bk.ErrLedgerClosed) && r.l.Closed() {
				continue
			}
			return e, err
		}
	}
}

// wait gives the entry that the writer confirms next.
func (r *Reader) wait(ctx context.Context) (bk.Entry, error) {
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !r.onClose(cancel) {
		return bk.Entry{}, stream.ErrClosed
	}
	defer r.onClose(nil)
	e, err := r.l.ReadNext(wctx, bk.EntryID(r.next-1))
	if err != nil {
		return bk.Entry{}, r.closedOr(ctx, err)
	}
	return e, nil
}

// onClose makes Close call cancel. It is false if Close was called already.
func (r *Reader) onClose(cancel context.CancelFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel = cancel
	return !r.closed
}

func (r *Reader) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// closedOr explains the failure of a call that Close cut off.
func (r *Reader) closedOr(ctx context.Context, err error) error {
	if r.isClosed() && ctx.Err() == nil {
		return stream.ErrClosed
	}
	return err
}

// Close ends the reader; a Next that waits fails with stream.ErrClosed.
func (r *Reader) Close() error {
	r.mu.Lock()
	cancel, was, busy := r.cancel, r.closed, r.busy
	r.closed = true
	r.mu.Unlock()
	if was {
		return nil
	}
	if cancel != nil {
		cancel()
	}
	if !busy {
		r.stopRun()
	}
	return MapError(r.l.Close())
}

// run is an iteration over confirmed entries. It has a context of its own,
// because it outlives the call that started it; the context of each later call
// is tied to it for as long as that call waits.
type run struct {
	pull func() (bk.Entry, error, bool)
	stop func()

	ctx    context.Context
	cancel context.CancelFunc

	caller context.Context // whose end cancels the run
	untie  func() bool
}

func (r *Reader) startRun(last int64) bool {
	ctx, cancel := context.WithCancel(context.Background())
	if !r.onClose(cancel) {
		cancel()
		return false
	}
	u := &run{ctx: ctx, cancel: cancel}
	u.pull, u.stop = iter.Pull2(r.l.Entries(ctx, bk.EntryID(r.next), bk.EntryID(last)))
	r.run = u
	return true
}

func (r *Reader) stopRun() {
	if r.run == nil {
		return
	}
	u := r.run
	r.run = nil
	r.onClose(nil)
	if u.untie != nil {
		u.untie()
	}
	u.cancel()
	u.stop()
}

// next gives the run's next entry. If ctx ends meanwhile, the run is over: its
// context is cancelled.
func (u *run) next(ctx context.Context) (bk.Entry, bool, error) {
	if ctx != u.caller {
		if u.untie != nil && !u.untie() {
			u.cancel() // the last caller's context has ended since
		}
		u.caller = ctx
		u.untie = context.AfterFunc(ctx, u.cancel)
	}
	e, err, ok := u.pull()
	return e, ok, err
}
