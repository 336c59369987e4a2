package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/quorum"
	"github.com/loglode/loglode/ledger/placement"
)

// Writer appends to one ledger. Any number of goroutines may use it; entries
// get their ids in the order of the calls.
//
// A Writer ends for good with its first failure (fenced, too few bookies,
// closed): every pending and later add then fails with that cause. A failed add
// may still become part of the ledger by recovery.
//
// Callbacks, and the wake-ups of Append, are run by whichever goroutine of the
// client brought the answer that completed an entry; one at a time.
//
// Goroutines: one per ensemble change or metadata write in flight.
type Writer struct {
	c        *Client
	id       bk.LedgerID
	q        bk.Quorum
	digester *bk.Digester
	key      [bk.MasterKeySize]byte
	deferred bool
	finished chan struct{}    // closed when the core is done; then finishErr is set
	answered func(*conn.Call) // takes answers in protocol version 3

	mu    sync.Mutex // guards all below
	core  *quorum.Writer
	slots []slot
	acts  []quorum.Action // scratch

	ring  []entry // entry e is at e & (len(ring)-1), for head <= e <= last pushed
	head  bk.EntryID
	held  *conn.Held // bytes of all chunks that are still needed
	clock quorumClock
	chunk *conn.Chunk // being filled; nil while idle
	fill  int
	grade int // of the next chunk, in conn.ChunkSizes

	completed []completion // to be handed to their callers, in order
	spare     []completion
	draining  bool // someone runs callbacks
	drained   chan struct{}
	dirty     bool // something is queued and not flushed
	blocked   []chan struct{}
	flushes   []flushWaiter
	closing   bool // Close was called
	forces    map[uint32]chan error
	advanced  *AdvancedWriter // nil: ids are given here
	placement placement.Policy

	stored    storedMetadata // while an update is in flight: the updater's
	changeOf  []bk.BookieID  // ensemble before the change in flight
	finishErr error
	lacTold   bk.EntryID // highest LAC that entries or explicit LACs carry
	idleSince time.Time
	lacTimer  *time.Timer
	lacArmed  bool
	lacRetry  time.Duration // before the next attempt to tell it
}

// ringMin is the ring's first size.
const ringMin = 4

// slot is one position of the ensemble, as the shell sees it.
type slot struct {
	gen    uint32
	bookie *conn.Bookie
	adds   *conn.Adds // nil until the next send
	epoch  uint64     // of the connection whose acknowledgements count; 0 = of none yet
	failed bool       // and has not answered since

	resting time.Duration // until then, since the client was made, it gets no entries
}

// entry is an add that is not complete.
type entry struct {
	chunk    *conn.Chunk
	from, to int32
	bytes    int32
	done     func(bk.EntryID, error)
	waiter   *waiter
	pushed   time.Duration // since the client was made; only with AddQuorumTimeout
}

// completion is an add whose outcome is to be told.
type completion struct {
	id     bk.EntryID
	err    error
	done   func(bk.EntryID, error)
	waiter *waiter
}

type flushWaiter struct {
	entry bk.EntryID
	ch    chan error
}

// waiter is a caller of Append.
type waiter struct {
	ch  chan struct{}
	id  bk.EntryID
	err error
}

// newWriter makes the writer of a ledger that was just created, when the
// connections to its ensemble had these epochs.
func newWriter(c *Client, stored storedMetadata, epochs []uint64, d *bk.Digester, cfg createConfig) (*Writer, error) {
	core, err := quorum.NewWriter(quorum.WriterConfig{
		Quorum: stored.meta.Quorum, Metadata: stored.core(), Policy: c.opts.policy(), DeferredSync: cfg.deferredSync,
		ChangesMax: c.opts.EnsembleChangesMax,
	})
	if err != nil {
		return nil, err
	}
	w := &Writer{
		c: c, id: stored.id, q: stored.meta.Quorum, digester: d, key: bk.MasterKey(cfg.password),
		deferred: cfg.deferredSync, finished: make(chan struct{}),
		held: conn.NewHeld(),
		core: core, slots: make([]slot, stored.meta.Quorum.Ensemble), ring: make([]entry, ringMin),
		stored: stored, lacTold: bk.InvalidEntryID,
	}
	for p := range w.slots {
		w.slots[p] = slot{gen: core.Slot(p).Gen, bookie: c.pool.Bookie(core.Bookie(p))}
		if !w.deferred { // which uses other connections
			w.slots[p].epoch = epochs[p]
		}
	}
	w.answered = w.deferredAnswer
	w.lacTimer = time.AfterFunc(time.Hour, w.lacTick)
	w.lacTimer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, bk.ErrClosed
	}
	c.writers[w] = struct{}{}
	if !c.watching {
		c.watching = true
		c.wg.Add(1)
		go c.watchBookies()
	}
	return w, nil
}

// ID is the ledger's id.
func (w *Writer) ID() bk.LedgerID { return w.id }

// Append adds one entry and waits until it is confirmed. p is not kept after
// return. If ctx ends first, the entry may still be confirmed later.
func (w *Writer) Append(ctx context.Context, p []byte) (bk.EntryID, error) {
	wt, ok := w.c.waiters.Get().(*waiter)
	if !ok {
		wt = &waiter{ch: make(chan struct{}, 1)}
	}
	if err := w.push(ctx, p, nil, wt, true); err != nil {
		w.c.waiters.Put(wt)
		return bk.InvalidEntryID, err
	}
	select {
	case <-wt.ch:
		id, err := wt.id, wt.err
		wt.err = nil
		w.c.waiters.Put(wt)
		return id, err
	case <-ctx.Done():
		return bk.InvalidEntryID, fmt.Errorf("append to ledger %d, outcome unknown: %w", w.id, expired(ctx))
	}
}

// Go adds one entry and calls done once it is confirmed or failed. Callbacks
// run one at a time, in entry order, with no lock held; they must not block.
// They run on a goroutine of the client, or within Go when the writer has ended
// already. p is not kept after Go returns.
//
// Go blocks while the limit of bytes in flight is reached; when ctx ends
// meanwhile, done gets its error and bk.InvalidEntryID before Go returns.
func (w *Writer) Go(ctx context.Context, p []byte, done func(bk.EntryID, error)) {
	if err := w.push(ctx, p, done, nil, true); err != nil {
		done(bk.InvalidEntryID, err)
	}
}

// TryGo is Go that does not block: bk.ErrBufferFull when the limit of bytes in
// flight is reached, the writer's failure when it has ended. done is called
// only if TryGo returns nil.
func (w *Writer) TryGo(p []byte, done func(bk.EntryID, error)) error {
	return w.push(context.Background(), p, done, nil, false)
}

// Err is why the writer has ended, nil while it has not.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.core.Err()
}

// LAC is the last entry confirmed, bk.InvalidEntryID at first.
func (w *Writer) LAC() bk.EntryID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.core.LAC()
}

// LastPushed is the id of the last entry handed to Append, Go or TryGo.
func (w *Writer) LastPushed() bk.EntryID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.core.LastPushed()
}

// Length is the number of payload bytes of all entries pushed and not failed.
func (w *Writer) Length() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.core.Length()
}
