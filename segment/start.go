package segment

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// Allocation is a ledger made for a segment that has not started yet.
type Allocation struct {
	claim  *Claim
	ledger bk.LedgerID
	writer ledgerWriter
	short  bool    // fewer bookies than asked for
	start  *step   // sent, maybe happened
	opened *Writer // what it became
}

// Ledger is the id of the ledger.
func (a *Allocation) Ledger() bk.LedgerID { return a.ledger }

// Allocate makes the ledger of the next segment: the slow part of a start,
// which may run while the segment before is being written and completed. One
// allocation may be open at a time. It fails with stream.ErrNotEnoughBookies,
// stream.ErrFenced.
func (c *Claim) Allocate(ctx context.Context, q stream.Quorum) (*Allocation, error) {
	a, err := c.allocate(ctx, q)
	return a, c.s.wrap("allocate a ledger", err)
}

// AllocateAtLeast is Allocate that makes do with fewer bookies than the
// ensemble while some are away: ensemble and write quorum shrink to what there
// is, never below the ack quorum, so that a stream can be taken over as long as
// an acknowledgement means what it always means. Short tells of it.
func (c *Claim) AllocateAtLeast(ctx context.Context, q stream.Quorum) (*Allocation, error) {
	a, err := c.allocateAtLeast(ctx, q)
	return a, c.s.wrap("allocate a ledger", err)
}

func (c *Claim) allocateAtLeast(ctx context.Context, q stream.Quorum) (*Allocation, error) {
	a, err := c.allocate(ctx, q)
	for short := q; errors.Is(err, bk.ErrNotEnoughBookies) && short.Ensemble > q.Ack; {
		short.Ensemble--
		short.Write = min(short.Write, short.Ensemble)
		b, lessErr := c.allocate(ctx, short)
		if lessErr == nil {
			b.short = true
			c.s.tree.log.Warn("segment with fewer bookies than configured",
				append(c.s.fields(Info{Ledger: b.ledger}, err), zap.Int("ensemble", short.Ensemble))...)
			return b, nil
		}
		if !errors.Is(lessErr, bk.ErrNotEnoughBookies) {
			return nil, lessErr
		}
	}
	return a, err
}

// Short reports whether the ledger has fewer bookies than were asked for.
func (a *Allocation) Short() bool { return a.short }

func (c *Claim) allocate(ctx context.Context, q stream.Quorum) (*Allocation, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	id, w, err := c.s.tree.ledgers.create(ctx, bk.Quorum(q), c.s.policy)
	if err != nil {
		return nil, err
	}
	if err := c.noteAllocation(ctx, id); err != nil {
		abandon(w)
		return nil, err
	}
	return &Allocation{claim: c, ledger: id, writer: w}, nil
}

// noteAllocation puts the ledger into the allocation node, where a next writer
// finds it if this one dies. If that certainly failed the ledger is deleted.
func (c *Claim) noteAllocation(ctx context.Context, id bk.LedgerID) error {
	if err := c.enter(ctx); err != nil {
		c.removeLedger(ctx, id)
		return err
	}
	defer c.leave()
	if err := c.settle(ctx); err != nil {
		c.removeLedger(ctx, id)
		return err
	}
	if c.allocated != bk.InvalidLedgerID {
		c.removeLedger(ctx, id)
		return fmt.Errorf("ledger %d is allocated already: %w", c.allocated, stream.ErrConflict)
	}
	k := &c.s.keys
	value := strconv.AppendInt(nil, int64(id), 10)
	st := &step{
		what:  fmt.Sprintf("allocate ledger %d", id),
		ops:   []metadata.Op{metadata.Set(k.allocation, value, c.allocatedAt), metadata.Check(k.ledgers, c.epoch.version)},
		moves: -1,
		mark: func(ctx context.Context) (bool, error) {
			n, err := c.s.store().Get(ctx, k.allocation)
			return err == nil && string(n.Value) == string(value), notFoundIsFalse(err)
		},
	}
	st.done = func(version func(string) metadata.Version) {
		c.allocatedAt, c.allocated = version(k.allocation), id
	}
	if err := c.run(ctx, st); err != nil {
		if !st.sent || c.Err() != nil { // no segment can come to use it
			c.removeLedger(ctx, id)
		} else if c.unsettled == st {
			// If it happened after all, the ledger is nobody's: the next
			// allocation deletes it.
			st.done = func(version func(string) metadata.Version) {
				c.allocatedAt, c.leftover = version(k.allocation), id
			}
		}
		return err
	}
	if c.leftover != bk.InvalidLedgerID {
		// The version compared above proves that no claim uses it.
		c.removeLedger(ctx, c.leftover)
		c.leftover = bk.InvalidLedgerID
	}
	return nil
}

func notFoundIsFalse(err error) error {
	if errors.Is(err, metadata.ErrNotFound) {
		return nil
	}
	return err
}

// removeLedger deletes a ledger that is in no segment. If that fails the ledger
// stays behind, empty; it is named in the log.
func (c *Claim) removeLedger(ctx context.Context, id bk.LedgerID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := c.s.tree.ledgers.remove(ctx, id); err != nil {
		c.s.tree.log.Warn("an unused ledger could not be deleted", c.s.fields(Info{Ledger: id}, err)...)
	}
}

const removeTimeout = 5 * time.Second

// abandon lets go of a ledger writer that has written nothing.
func abandon(w ledgerWriter) {
	_ = w.Abort() // there is nothing that could be lost
}

// Discard gives back an allocation that is not needed: its ledger is deleted
// after the next Allocate, of this claim or of a later one.
func (c *Claim) Discard(a *Allocation) {
	if a == nil || a.opened != nil {
		return
	}
	abandon(a.writer)
	c.turn <- struct{}{}
	defer c.leave()
	if c.allocated == a.ledger && a.start == nil {
		c.allocated, c.leftover = bk.InvalidLedgerID, a.ledger
	}
}

// Start starts the next segment on an allocated ledger, in one transaction.
// firstTxID may not be lower than LastTxID; at a roll it is the txid of the last
// record of the segment before. The segment before may still be in progress:
// Complete it then. A Start that failed with anything but a lost claim can be
// called again with the same allocation. It fails with *stream.TxIDOrderError,
// stream.ErrSealed, and with stream.ErrFenced once another claim was made.
func (c *Claim) Start(ctx context.Context, a *Allocation, firstTxID stream.TxID) (*Writer, error) {
	if !firstTxID.Valid() {
		return nil, &stream.TxIDOrderError{TxID: firstTxID, Last: c.LastTxID()}
	}
	w, err := c.start(ctx, a, firstTxID)
	return w, c.s.wrap("start a segment", err)
}

func (c *Claim) start(ctx context.Context, a *Allocation, first stream.TxID) (*Writer, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.leave()
	if a.start == nil {
		st, err := c.startStep(a, first)
		if err != nil {
			return nil, err
		}
		a.start = st
	}
	if err := c.run(ctx, a.start); err != nil {
		if !a.start.sent {
			a.start = nil // certainly not happened: it can be computed anew
		}
		if c.Err() != nil {
			abandon(a.writer)
		}
		return nil, err
	}
	return a.opened, nil
}

// startStep computes the transaction. Its operations and their order are
// DistributedLog's.
func (c *Claim) startStep(a *Allocation, first stream.TxID) (*step, error) {
	if err := c.mayStart(a, first); err != nil {
		return nil, err
	}
	k := &c.s.keys
	next, err := c.nextSegment()
	if err != nil {
		return nil, err
	}
	info := Info{
		Version: versionCurrent, Segment: next, Ledger: a.ledger, InProgress: true, FirstTxID: first,
		LastTxID: stream.InvalidTxID, LastEntry: -1, LastSlot: -1, Region: c.s.tree.opts.Region, StartSequence: -1,
	}
	key := metadata.Child(k.ledgers, info.name())
	st := &step{
		what: fmt.Sprintf("start segment %d", next),
		ops: []metadata.Op{
			metadata.Set(k.allocation, nil, c.allocatedAt),
			metadata.Create(key, info.text()),
			metadata.Set(k.ledgers, strconv.AppendInt(nil, next, 10), c.epoch.version),
		},
		moves: 2,
		mark: func(ctx context.Context) (bool, error) {
			n, err := c.s.store().Get(ctx, key)
			if err != nil {
				return false, notFoundIsFalse(err)
			}
			there, err := parseInfo(key, n.Value)
			return err == nil && there.Ledger == a.ledger, err
		},
	}
	st.done = func(version func(string) metadata.Version) {
		c.epoch.segment, c.newest = next, next
		c.allocatedAt, c.allocated = version(k.allocation), bk.InvalidLedgerID
		a.opened = newWriter(c, info, a.writer)
		a.opened.short = a.short
		c.open = append(c.open, a.opened)
		if f := c.s.tree.opts.Events.Started; f != nil {
			f(c.s.name, info)
		}
	}
	return st, nil
}

func (c *Claim) mayStart(a *Allocation, first stream.TxID) error {
	if a.claim != c || c.allocated != a.ledger || a.opened != nil {
		return fmt.Errorf("ledger %d is not allocated by this claim: %w", a.ledger, stream.ErrConflict)
	}
	if c.Sealed() {
		return stream.ErrSealed
	}
	last := max(c.LastTxID(), c.maxTxID)
	for _, w := range c.open {
		if _, _, t := w.Acked(); t > last {
			last = t
		}
	}
	if first < last {
		return &stream.TxIDOrderError{TxID: first, Last: last}
	}
	return nil
}

// nextSegment gives the number of the next segment and checks it against the
// highest number ever given: the same after an empty segment was deleted, one
// less otherwise.
func (c *Claim) nextSegment() (int64, error) {
	next := c.newest + 1
	if c.newest == 0 {
		next = c.s.tree.opts.FirstSegment
		if c.epoch.segment == 0 {
			return next, nil
		}
	}
	if c.epoch.segment != next-1 && c.epoch.segment != next {
		return 0, &stream.CorruptError{Where: c.s.keys.ledgers, Offset: -1,
			Want: fmt.Sprintf("%d or %d", next-1, next), Got: fmt.Sprint(c.epoch.segment)}
	}
	return next, nil
}
