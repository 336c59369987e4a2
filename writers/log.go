package writers

import (
	"context"

	"github.com/loglode/loglode/segment"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// stepper is the claimed stream as a Writer uses it: a segment.Claim, or a fake.
// Its methods are called one at a time; prepare may be beside calls of a
// segment.
type stepper interface {
	// prepare makes what the next segment needs ahead of start: the slow part.
	// It does nothing when that is there already. Without full it makes do with
	// fewer bookies than the ensemble.
	prepare(ctx context.Context, full bool) error
	start(ctx context.Context, first stream.TxID) (target, error)
	// complete ends a segment after its last entry; it gives its user records.
	complete(ctx context.Context, t target) (records int64, err error)
	// seal ends the stream, in t or, where that is nil, in a segment of its own.
	seal(ctx context.Context, t target) error
	// discard gives back what was prepared and not used.
	discard()
}

// target is the segment being written, as a Writer uses it.
type target interface {
	Segment() int64
	Short() bool // has fewer bookies than configured
	Go(ctx context.Context, payload []byte, sum record.Summary, done func(entry int64, err error))
	Abort() error
}

// claimed is the stepper of a segment.Claim.
type claimed struct {
	claim  *segment.Claim
	quorum stream.Quorum
	alloc  *segment.Allocation
}

func (c *claimed) prepare(ctx context.Context, full bool) (err error) {
	switch {
	case c.alloc != nil:
	case full:
		c.alloc, err = c.claim.Allocate(ctx, c.quorum)
	default:
		c.alloc, err = c.claim.AllocateAtLeast(ctx, c.quorum)
	}
	return err
}

func (c *claimed) start(ctx context.Context, first stream.TxID) (target, error) {
	if err := c.prepare(ctx, false); err != nil {
		return nil, err
	}
	w, err := c.claim.Start(ctx, c.alloc, first)
	if err != nil {
		return nil, err
	}
	c.alloc = nil
	return w, nil
}

func (c *claimed) complete(ctx context.Context, t target) (int64, error) {
	info, err := c.claim.Complete(ctx, t.(*segment.Writer))
	return info.Records, err
}

func (c *claimed) seal(ctx context.Context, t target) error {
	if t == nil {
		return c.claim.Seal(ctx, nil, c.quorum)
	}
	return c.claim.Seal(ctx, t.(*segment.Writer), c.quorum)
}

func (c *claimed) discard() {
	if c.alloc != nil {
		c.claim.Discard(c.alloc)
		c.alloc = nil
	}
}
