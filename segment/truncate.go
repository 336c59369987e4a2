package segment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// truncateMax is the most segments that one transaction marks: etcd takes 128
// operations, and each segment needs two.
const truncateMax = 50

// Truncate cuts off all records before d, at once and, for up to 50 segments,
// in one transaction; also inside the segment in progress, there at most up to
// the newest visible record. A truncation point never moves back: a lower d
// changes nothing. Ledgers go later, by Purge.
func (s *Stream) Truncate(ctx context.Context, d stream.DLSN) error {
	if !d.Valid() {
		return fmt.Errorf("truncate stream %s to %v: %w", s.name, d, stream.ErrInvalidPosition)
	}
	if err := s.truncate(ctx, d); err != nil {
		return s.wrap(fmt.Sprintf("truncate to %v", d), err)
	}
	if f := s.tree.opts.Events.Truncated; f != nil {
		f(s.name, d)
	}
	return nil
}

func (s *Stream) truncate(ctx context.Context, d stream.DLSN) error {
	for {
		nodes, err := s.listNodes(ctx)
		if err != nil {
			return err
		}
		changes, err := s.truncations(ctx, nodes, d)
		if err != nil || len(changes) == 0 {
			return err
		}
		err = s.rewrite(ctx, changes[:min(len(changes), truncateMax)])
		if err != nil && (ctx.Err() != nil || !refused(err) && !errors.Is(err, metadata.ErrUnknownOutcome)) {
			return err
		}
		// Changed by another client meanwhile, an answer lost, or more to do:
		// the marks are computed from what is there, so that repeating is safe.
	}
}

// truncations gives the segments whose marks must change, oldest first, with
// the new marks.
func (s *Stream) truncations(ctx context.Context, nodes []segmentNode, d stream.DLSN) ([]segmentNode, error) {
	var changes []segmentNode
	for _, n := range nodes {
		i := &n.info
		if i.Version < versionNumbered {
			return nil, fmt.Errorf("segment %s has metadata version %d, which has no truncation: %w", n.key, i.Version, stream.ErrUnsupported)
		}
		switch {
		case i.Status == Truncated:
			continue
		case !i.InProgress && i.Last().Less(d):
			i.Status = Truncated
			changes = append(changes, n)
			continue
		}
		cut := d
		if i.InProgress {
			var err error
			if cut, err = s.clampToVisible(ctx, *i, d); err != nil {
				return nil, err
			}
		}
		if i.First().Less(cut) && cut.Segment == i.Segment {
			i.Status, i.MinActiveEntry, i.MinActiveSlot = PartiallyTruncated, cut.Entry, cut.Slot
			changes = append(changes, n)
		}
		if i.InProgress || i.Segment >= d.Segment {
			break
		}
	}
	return changes, nil
}

// clampToVisible keeps a truncation point inside a segment in progress from
// cutting off records that are yet to be written.
func (s *Stream) clampToVisible(ctx context.Context, i Info, d stream.DLSN) (stream.DLSN, error) {
	if d.Segment < i.Segment || d.Compare(stream.DLSN{Segment: i.Segment}) <= 0 {
		return d, nil
	}
	end := stream.DLSN{Segment: i.Segment}
	err := s.with(ctx, i, func(r *Reader) error {
		v, ok, err := r.LastRecord(ctx, false)
		if ok {
			end = v.DLSN.Next()
		}
		return err
	})
	if d.Less(end) {
		end = d
	}
	return end, err
}

// rewrite replaces the text of segments, oldest first, in one transaction. Each
// node is deleted and made again, as DistributedLog does, so that those who
// watch the children of ledgers notice.
func (s *Stream) rewrite(ctx context.Context, nodes []segmentNode) error {
	var ops []metadata.Op
	for _, n := range nodes {
		ops = append(ops, metadata.Delete(n.key, n.version), metadata.Create(n.key, n.info.text()))
	}
	_, err := s.store().Txn(ctx, ops...)
	return err
}

// Purge deletes the ledgers and nodes of truncated segments, and truncates and
// deletes completed segments older than age (0 = none), oldest first. It stops
// at the first segment that stays. The newest completed segment stays in any
// case. It gives the number of segments deleted.
//
// The age of a segment counts from its completion. If a segment was completed
// in the future by this machine's clock, no segment is taken for old.
func (s *Stream) Purge(ctx context.Context, age time.Duration) (int, error) {
	n, err := s.purge(ctx, age)
	return n, s.wrap("purge", err)
}

func (s *Stream) purge(ctx context.Context, age time.Duration) (int, error) {
	nodes, err := s.listNodes(ctx)
	if err != nil {
		return 0, err
	}
	doomed, expired := s.purgeable(nodes, age)
	for len(expired) > 0 {
		k := min(len(expired), truncateMax)
		if err := s.rewrite(ctx, expired[:k]); err != nil {
			return 0, err // the next purge sees what became of it
		}
		expired = expired[k:]
	}
	for k, n := range doomed {
		// What was marked in this call has another version by now; a truncated
		// segment is written by nobody any more.
		n.version = metadata.AnyVersion
		if err := s.deleteSegment(ctx, n); err != nil {
			return k, err
		}
	}
	return len(doomed), nil
}

// purgeable gives the segments to delete and, among them, those that are not
// marked truncated yet.
func (s *Stream) purgeable(nodes []segmentNode, age time.Duration) (doomed, expired []segmentNode) {
	newest := -1
	now := time.Now()
	for k, n := range nodes {
		if n.info.InProgress {
			break
		}
		newest = k
		if age > 0 && n.info.Completed.Sub(now) > s.tree.opts.ClockSkewMax {
			s.tree.log.Warn("retention by age paused: a segment was completed in the future; check the clocks",
				append(s.fields(n.info, nil), zap.Time("completed", n.info.Completed))...)
			age = 0
		}
	}
	for k := 0; k < newest; k++ {
		n := nodes[k]
		if n.info.Version < versionNumbered {
			break
		}
		if n.info.Status != Truncated {
			if age <= 0 || now.Sub(n.info.Completed) < age {
				break
			}
			n.info.Status = Truncated
			expired = append(expired, n)
		}
		doomed = append(doomed, n)
	}
	return doomed, expired
}

// deleteSegment deletes a segment's ledger, then its node. A crash in between
// leaves a node whose ledger is gone; deleting it again finishes it.
func (s *Stream) deleteSegment(ctx context.Context, n segmentNode) error {
	if err := s.tree.ledgers.remove(ctx, n.info.Ledger); err != nil {
		return err
	}
	if err := metadata.Remove(ctx, s.store(), n.key, n.version); err != nil {
		return err
	}
	if f := s.tree.opts.Events.Deleted; f != nil {
		f(s.name, n.info)
	}
	return nil
}
