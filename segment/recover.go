package segment

import (
	"context"
	"errors"
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/stream"
)

// recover settles a segment that a dead writer, or one that this claim fences,
// left in progress: it is completed at the end that its ledger's recovery
// finds, or deleted if that is empty.
func (c *Claim) recover(ctx context.Context, n segmentNode) error {
	i := n.info
	if i.Version < versionNumbered {
		return fmt.Errorf("segment %s in progress has metadata version %d: %w", n.key, i.Version, stream.ErrUnsupported)
	}
	e, err := c.s.recoverLedger(ctx, i)
	if errors.Is(err, stream.ErrCorrupt) {
		// A newer claim may have deleted the ledger since the list was read.
		if lost := c.check(ctx, err); lost != nil {
			return lost
		}
	}
	if err != nil {
		return err
	}
	info, err := c.finish(ctx, i, e)
	if err != nil {
		return err
	}
	if info.Segment != 0 {
		c.s.tree.log.Info("recovered a segment", c.s.fields(info, nil)...)
		if f := c.s.tree.opts.Events.Recovered; f != nil {
			f(c.s.name, info)
		}
	}
	return nil
}

// recoverLedger fences a segment's ledger, closes it at its end and reads its
// last record, of any kind.
func (s *Stream) recoverLedger(ctx context.Context, i Info) (end, error) {
	l, err := s.tree.ledgers.open(ctx, i.Ledger, openRecover)
	if errors.Is(err, bk.ErrNoSuchLedger) {
		if i.Status == Truncated {
			return end{lastTx: i.FirstTxID, last: -1, lastSlot: -1}, nil // its deletion was cut short
		}
		return end{}, &stream.CorruptError{Where: fmt.Sprintf("segment %d of stream %s", i.Segment, s.name), Offset: -1,
			Want: fmt.Sprintf("ledger %d", i.Ledger), Got: "no such ledger"}
	}
	if err != nil {
		return end{}, err
	}
	r := newReader(s, i, l)
	e, err := r.end(ctx)
	return e, errors.Join(err, r.Close())
}

// end reads what a completion writes from the last record of a closed segment.
func (r *Reader) end(ctx context.Context) (end, error) {
	e := end{lastTx: r.info.FirstTxID, last: -1, lastSlot: -1}
	if r.LAC() < 0 {
		return e, nil
	}
	e.entries = true
	v, ok, err := r.LastRecord(ctx, true)
	if err != nil || !ok {
		return e, err
	}
	e.lastTx, e.records = v.TxID, v.LastPosition
	e.last, e.lastSlot = v.DLSN.Entry, v.DLSN.Slot
	return e, nil
}
