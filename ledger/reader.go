package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

// Reader reads one ledger. Any number of goroutines may use it.
//
// Goroutine: one that follows the ledger's metadata until the ledger is closed
// or the reader is.
type Reader struct {
	c        *Client
	id       bk.LedgerID
	q        bk.Quorum
	digester *bk.Digester
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	watched  chan struct{} // closed when the goroutine has ended
	reading  chan struct{} // held by who reads the metadata: what was read last is newest

	mu      sync.Mutex // guards all below
	meta    *layout.LedgerMetadata
	core    quorum.Metadata
	lac     quorum.Confirmed
	length  int64
	changed chan struct{} // closed and replaced when LAC or metadata change
	gone    error         // the ledger was deleted while it was open
	readAt  time.Time     // when the metadata were read last
	pollAt  int           // position that the next long poll begins with
}

func newReader(ctx context.Context, c *Client, stored storedMetadata, d *bk.Digester) (*Reader, error) {
	r := &Reader{
		c: c, id: stored.id, q: stored.meta.Quorum, digester: d, watched: make(chan struct{}),
		reading: make(chan struct{}, 1), readAt: time.Now(), meta: stored.meta, core: stored.core(), changed: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(c.ctx)
	r.lac = quorum.NewConfirmed(r.core)
	if r.lac.Closed() { // rule 25: no bookie is asked
		r.length = stored.meta.Length
		close(r.watched)
		return r, r.enter()
	}
	// The watch begins before the metadata are read once more, and those before
	// the LAC, so that no close is missed.
	if err := r.watch(); err != nil {
		r.cancel()
		return nil, err
	}
	if err := r.refresh(ctx); err != nil {
		return nil, fmt.Errorf("read metadata: %w", joinClose(err, r))
	}
	if r.Closed() {
		return r, r.enter()
	}
	r.mu.Lock()
	stored.meta = r.meta
	r.mu.Unlock()
	a, err := c.readLAC(ctx, &stored, d)
	if err != nil {
		return nil, fmt.Errorf("read LAC: %w", joinClose(err, r))
	}
	r.raise(a.LAC, a.Length)
	return r, r.enter()
}

func joinClose(err error, r *Reader) error {
	r.cancel()
	<-r.watched
	return err
}

// enter lists the reader with its client.
func (r *Reader) enter() error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.closed {
		r.cancel()
		return bk.ErrClosed
	}
	r.c.readers[r] = struct{}{}
	return nil
}

// ID is the ledger's id.
func (r *Reader) ID() bk.LedgerID { return r.id }

// LAC is the last entry that may be read, as far as this handle knows. It moves
// up by WaitLAC and ReadNext; once the ledger is closed it is the ledger's last
// entry.
func (r *Reader) LAC() bk.EntryID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lac.LAC()
}

// Closed reports whether the ledger is closed: its LAC is final then.
func (r *Reader) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lac.Closed()
}

// Length is the number of payload bytes up to the LAC of a closed ledger; of an
// open one, as far as this handle has read.
func (r *Reader) Length() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.length
}

// Metadata is the ledger's metadata as this handle last read them. Treat it as
// immutable.
func (r *Reader) Metadata() *layout.LedgerMetadata {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.meta
}

// Close ends the handle: its metadata watch and whatever waits on it.
func (r *Reader) Close() error {
	r.cancel()
	<-r.watched
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	delete(r.c.readers, r)
	return nil
}

// raise takes a LAC that a bookie named, and the length field of an entry.
func (r *Reader) raise(lac bk.EntryID, length int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lac.Closed() {
		r.length = max(r.length, length)
	}
	if r.lac.Raise(lac) {
		r.signal()
	}
}

// signal wakes who waits for the LAC or a close. The caller holds mu.
func (r *Reader) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// watch starts to follow the metadata (rule 26).
func (r *Reader) watch() error {
	w, err := r.c.cluster.WatchLedger(r.ctx, r.id)
	if err != nil {
		return fmt.Errorf("watch metadata: %w", err)
	}
	go func() {
		defer close(r.watched)
		for w != nil {
			for range w.C() {
				if r.observe() {
					return
				}
			}
			// What changed while there was no watch did not signal.
			if w = r.rewatch(); w != nil && r.observe() {
				return
			}
		}
	}()
	return nil
}

// rewatch opens the watch again after it ended by itself; nil when the reader
// has ended.
func (r *Reader) rewatch() metadata.Watch {
	for r.ctx.Err() == nil {
		w, err := r.c.cluster.WatchLedger(r.ctx, r.id)
		if err == nil {
			return w
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(backoffMin):
		}
	}
	return nil
}

// observe reads the metadata, however often it takes. It reports whether the
// ledger is closed or deleted, or the reader is, which is the end of the watch.
func (r *Reader) observe() bool {
	for wait := storeRetryMin; r.ctx.Err() == nil; wait = min(2*wait, storeRetryMax) {
		ctx, cancel := context.WithTimeout(r.ctx, r.c.opts.MetadataTimeout)
		err := r.refresh(ctx)
		cancel()
		if err == nil || errors.Is(err, bk.ErrNoSuchLedger) {
			return err != nil || r.Closed()
		}
		if wait == storeRetryMin && r.ctx.Err() == nil {
			r.c.opts.Logger.Info("ledger metadata not read", zap.Int64("ledger", int64(r.id)), zap.Error(err))
		}
		if sleep(r.ctx, wait) != nil {
			break
		}
	}
	return true
}

// refresh reads the metadata and takes over what is new.
func (r *Reader) refresh(ctx context.Context) error {
	select {
	case r.reading <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.reading }()
	stored := storedMetadata{cluster: r.c.cluster, id: r.id}
	err := stored.reread(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, bk.ErrNoSuchLedger) && r.gone == nil {
		r.gone = err
		r.signal()
	}
	if err != nil {
		return err
	}
	r.readAt = time.Now()
	core := stored.core()
	if r.core.Equal(core) {
		return nil
	}
	r.meta, r.core = stored.meta, core
	if r.lac.Observe(core) {
		r.length = stored.meta.Length
	}
	r.signal()
	return nil
}

// refreshOlder reads the metadata if they were read longer than age ago. A watch
// may be deaf, or its signal late. Whether that works is no matter here.
func (r *Reader) refreshOlder(ctx context.Context, age time.Duration) {
	r.mu.Lock()
	old := time.Since(r.readAt) >= age && r.gone == nil
	r.mu.Unlock()
	if !old {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.c.opts.ReadTimeout)
	defer cancel()
	if err := r.refresh(ctx); err != nil {
		r.c.opts.Logger.Debug("ledger metadata not read", zap.Int64("ledger", int64(r.id)), zap.Error(err))
	}
}
