package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// end is what a completion writes of a segment's content.
type end struct {
	entries  bool // there is at least one, of any kind
	records  int64
	lastTx   stream.TxID
	lastSlot int64
	last     int64 // entry of the last record
}

// Complete waits for the writer's entries in flight, closes its ledger and
// completes the segment with what was acknowledged: entries that failed are not
// part of it and never will be. A segment without entries is deleted instead if
// it is the newest (Info is zero then). Older segments of this claim that are
// still open are completed first. A Complete that failed with anything but a
// lost claim can be called again. It fails with stream.ErrFenced if another
// claim has recovered the segment.
func (c *Claim) Complete(ctx context.Context, w *Writer) (Info, error) {
	info, err := c.complete(ctx, w)
	return info, c.s.wrap(fmt.Sprintf("complete segment %d", w.info.Segment), err)
}

func (c *Claim) complete(ctx context.Context, w *Writer) (Info, error) {
	// Outside the turn: it waits for bookies.
	closeErr := w.close(ctx)
	if err := c.enter(ctx); err != nil {
		return Info{}, err
	}
	defer c.leave()
	for len(c.open) > 0 {
		older := c.open[0]
		if older != w {
			if !slices.Contains(c.open, w) {
				break
			}
			closeErr := older.close(ctx)
			if _, err := c.completeOldest(ctx, older, closeErr); err != nil {
				return Info{}, err
			}
			continue
		}
		return c.completeOldest(ctx, w, closeErr)
	}
	return Info{}, errors.Join(fmt.Errorf("segment %d is not open: %w", w.info.Segment, stream.ErrClosed), c.Err())
}

func (c *Claim) completeOldest(ctx context.Context, w *Writer, closeErr error) (Info, error) {
	if err := c.settle(ctx); err != nil {
		return Info{}, err
	}
	e := w.end()
	if closeErr != nil {
		var err error
		if e, err = c.endAfter(ctx, w, closeErr); err != nil {
			return Info{}, err
		}
	}
	info, err := c.finish(ctx, w.info, e)
	if err == nil && !info.InProgress && info.Segment != 0 {
		if f := c.s.tree.opts.Events.Completed; f != nil {
			f(c.s.name, info)
		}
	}
	return info, err
}

// endAfter finds the end of a segment whose ledger the writer could not close.
// Another client may have fenced it; if that was no claim on this stream, the
// ledger's own recovery tells what is in it.
func (c *Claim) endAfter(ctx context.Context, w *Writer, cause error) (end, error) {
	for _, fenced := range []error{bk.ErrFenced, bk.ErrMetadataConflict, bk.ErrLedgerClosed, bk.ErrNoSuchLedger} {
		if !errors.Is(cause, fenced) {
			continue
		}
		if err := c.check(ctx, cause); err != nil {
			return end{}, err
		}
		return c.s.recoverLedger(ctx, w.info)
	}
	return end{}, cause
}

// check finds out whether the claim still holds; if not it fails for good.
func (c *Claim) check(ctx context.Context, cause error) error {
	n, err := c.s.store().Get(ctx, c.s.keys.ledgers)
	if err != nil && !errors.Is(err, metadata.ErrNotFound) {
		return errors.Join(cause, err)
	}
	if err != nil || n.Version != c.epoch.version {
		return c.lose("check the epoch", cause)
	}
	return nil
}

// finish completes a segment, or deletes it if it is the newest and has no
// entry; then it gives a zero Info. An empty segment that others follow is
// completed: without it there would be a gap.
func (c *Claim) finish(ctx context.Context, i Info, e end) (Info, error) {
	var info Info
	var err error
	if !e.entries && i.Segment == c.newest {
		err = c.drop(ctx, i)
	} else {
		info, err = c.finishWithRecords(ctx, i, e)
	}
	return info, err
}

func (c *Claim) closed(segment int64) {
	c.open = slices.DeleteFunc(c.open, func(w *Writer) bool { return w.info.Segment == segment })
}

func (c *Claim) finishWithRecords(ctx context.Context, i Info, e end) (Info, error) {
	for attempt := 0; ; attempt++ {
		st, info, err := c.completeStep(ctx, i, e)
		if err != nil {
			return Info{}, err
		}
		err = c.run(ctx, st)
		switch {
		case err == nil || st.settled: // settled, but the claim is lost: the segment is complete all the same
			return info, nil
		case refused(err) && c.Err() == nil && ctx.Err() == nil && attempt < settleAttempts:
			continue // truncated meanwhile: its node was made again
		default:
			return Info{}, err
		}
	}
}

// completeStep computes the transaction that completes segment i. Its
// operations and their order are DistributedLog's.
func (c *Claim) completeStep(ctx context.Context, i Info, e end) (*step, Info, error) {
	k := &c.s.keys
	oldKey := metadata.Child(k.ledgers, i.name())
	node, err := c.s.store().Get(ctx, oldKey)
	if err != nil {
		return nil, Info{}, c.vanished(ctx, err)
	}
	info, err := parseInfo(oldKey, node.Value) // with the truncation that it may have got
	if err != nil {
		return nil, Info{}, err
	}
	if info.Ledger != i.Ledger || !info.InProgress {
		return nil, Info{}, &stream.CorruptError{Where: oldKey, Offset: -1,
			Want: fmt.Sprintf("ledger %d in progress", i.Ledger), Got: fmt.Sprintf("ledger %d", info.Ledger)}
	}
	info.InProgress = false
	info.Completed = time.UnixMilli(time.Now().UnixMilli())
	info.LastTxID, info.Records, info.LastEntry, info.LastSlot = e.lastTx, e.records, e.last, e.lastSlot
	info.StartSequence = c.last.nextStart()
	newKey, text := metadata.Child(k.ledgers, info.name()), info.text()
	highest, maxTx := max(info.Segment, c.epoch.segment), max(e.lastTx, c.maxTxID)
	st := &step{
		what: fmt.Sprintf("complete segment %d", info.Segment),
		ops: []metadata.Op{
			metadata.Create(newKey, text),
			metadata.Delete(oldKey, node.Version),
			metadata.Set(k.ledgers, strconv.AppendInt(nil, highest, 10), c.epoch.version),
			metadata.Set(k.maxTxID, strconv.AppendInt(nil, int64(maxTx), 10), c.maxTxIDAt),
		},
		moves: 2,
		mark: func(ctx context.Context) (bool, error) {
			n, err := c.s.store().Get(ctx, newKey)
			if err != nil {
				return false, notFoundIsFalse(err)
			}
			there, err := parseInfo(newKey, n.Value)
			return err == nil && there.Ledger == info.Ledger, err
		},
	}
	st.done = func(version func(string) metadata.Version) {
		c.epoch.segment, c.maxTxID, c.maxTxIDAt = highest, maxTx, version(k.maxTxID)
		c.completed(info)
		c.closed(info.Segment)
	}
	return st, info, nil
}

// vanished explains why a segment in progress has no node: a newer claim took
// it away.
func (c *Claim) vanished(ctx context.Context, err error) error {
	if !errors.Is(err, metadata.ErrNotFound) {
		return err
	}
	if lost := c.check(ctx, err); lost != nil {
		return lost
	}
	return err
}

// drop deletes an empty segment. Its node is marked truncated first: a crash
// between the deletions of ledger and node then leaves something that the next
// claim can tell from a segment that lost its ledger.
func (c *Claim) drop(ctx context.Context, i Info) error {
	k := &c.s.keys
	key := metadata.Child(k.ledgers, i.name())
	for attempt := 0; ; attempt++ {
		node, err := c.s.store().Get(ctx, key)
		if err != nil {
			return c.vanished(ctx, err)
		}
		info, err := parseInfo(key, node.Value)
		if err != nil {
			return err
		}
		if info.Status != Truncated && info.Version >= versionNumbered {
			info.Status = Truncated
			text := info.text()
			err = c.run(ctx, &step{
				what:  fmt.Sprintf("mark empty segment %d", i.Segment),
				ops:   []metadata.Op{metadata.Set(key, text, node.Version), metadata.Check(k.ledgers, c.epoch.version)},
				moves: -1,
				mark: func(ctx context.Context) (bool, error) {
					n, err := c.s.store().Get(ctx, key)
					return err == nil && string(n.Value) == string(text), notFoundIsFalse(err)
				},
			})
			if refused(err) && c.Err() == nil && ctx.Err() == nil && attempt < settleAttempts {
				continue // truncated meanwhile
			}
			if err != nil {
				return err
			}
		}
		break
	}
	if err := c.s.tree.ledgers.remove(ctx, i.Ledger); err != nil {
		return err
	}
	return c.dropNode(ctx, i, key)
}

func (c *Claim) dropNode(ctx context.Context, i Info, key string) error {
	err := c.run(ctx, &step{
		what:  fmt.Sprintf("delete empty segment %d", i.Segment),
		ops:   []metadata.Op{metadata.Delete(key, metadata.AnyVersion), metadata.Check(c.s.keys.ledgers, c.epoch.version)},
		moves: -1,
		mark: func(ctx context.Context) (bool, error) {
			_, err := c.s.store().Get(ctx, key)
			return errors.Is(err, metadata.ErrNotFound), notFoundIsFalse(err)
		},
		done: func(func(string) metadata.Version) {
			c.closed(i.Segment)
			c.newest = c.last.Segment
			if n := len(c.open); n > 0 {
				c.newest = c.open[n-1].info.Segment
			}
			if f := c.s.tree.opts.Events.Deleted; f != nil {
				f(c.s.name, i)
			}
		},
	})
	return err
}

// Seal ends the stream for good: it writes the end-of-stream record into w, or
// into a new segment with quorum q if w is nil, and completes it. Sealing a
// sealed stream is success.
func (c *Claim) Seal(ctx context.Context, w *Writer, q stream.Quorum) error {
	return c.s.wrap("seal", c.seal(ctx, w, q))
}

func (c *Claim) seal(ctx context.Context, w *Writer, q stream.Quorum) error {
	if c.Sealed() {
		return nil
	}
	if w == nil {
		a, err := c.allocateAtLeast(ctx, q)
		if err != nil {
			return err
		}
		if w, err = c.start(ctx, a, stream.EndOfStreamTxID); err != nil {
			return err
		}
	}
	var b record.Builder
	b.Reset(stream.CompressionNone, w.Position())
	if err := b.AppendEndOfStream(); err != nil {
		return err
	}
	payload, err := b.Finish()
	if err != nil {
		return err
	}
	acked := make(chan error, 1)
	w.Go(ctx, payload, b.Summary(), func(_ int64, err error) { acked <- err })
	if err := <-acked; err != nil {
		return err
	}
	_, err = c.complete(ctx, w)
	return err
}
