package segment

import (
	"context"
	"errors"
	"strings"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
)

// Delete fences the stream's writer, deletes every segment (ledger first), then
// the tree and every "<…>" node beside it; nested streams stay. It fails with
// stream.ErrNotFound without a stream. A Delete that was cut short can be
// repeated.
func (s *Stream) Delete(ctx context.Context) error {
	return s.wrap("delete", s.delete(ctx))
}

func (s *Stream) delete(ctx context.Context) error {
	if _, err := s.bumpEpoch(ctx); err != nil {
		return err
	}
	segments, err := s.listNodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range segments {
		if n.info.InProgress {
			s.fenceForDelete(ctx, n.info)
		}
		if err := s.deleteSegment(ctx, n); err != nil {
			return err
		}
	}
	if err := s.deleteAllocated(ctx); err != nil {
		return err
	}
	return s.deleteTree(ctx)
}

// fenceForDelete keeps a writer from having entries acknowledged in a ledger
// that is about to go. A ledger that cannot be recovered is deleted all the
// same.
func (s *Stream) fenceForDelete(ctx context.Context, i Info) {
	r, err := s.tree.ledgers.open(ctx, i.Ledger, openRecover)
	if err != nil {
		s.tree.log.Info("deleting a segment that could not be fenced", s.fields(i, err)...)
		return
	}
	_ = r.Close() // nothing was read by it
}

func (s *Stream) deleteAllocated(ctx context.Context) error {
	n, err := s.store().Get(ctx, s.keys.allocation)
	if errors.Is(err, metadata.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	id, err := parseAllocation(s.keys.allocation, n.Value)
	if err != nil || id == bk.InvalidLedgerID {
		return err
	}
	return s.tree.ledgers.remove(ctx, id)
}

// deleteTree deletes what is left after the segments, in one transaction but
// for the members of locks and the subscribers.
func (s *Stream) deleteTree(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		ops, nested, err := s.treeDeletes(ctx)
		if err != nil || len(ops) == 0 {
			return err
		}
		if !nested {
			ops = append(ops, metadata.Delete(s.keys.stream, metadata.AnyVersion))
		}
		_, err = s.store().Txn(ctx, ops...)
		if err == nil {
			return nil
		}
		if attempt >= settleAttempts || !refused(err) && !errors.Is(err, metadata.ErrUnknownOutcome) {
			return err
		}
	}
}

// treeDeletes collects the deletion of <default> and of the other "<…>" nodes
// of the stream. nested reports other children: nested streams.
func (s *Stream) treeDeletes(ctx context.Context) (ops []metadata.Op, nested bool, err error) {
	for n, err := range metadata.Children(ctx, s.store(), s.keys.stream, metadata.ListOptions{KeysOnly: true}) {
		if err != nil {
			return nil, false, err
		}
		if !strings.HasPrefix(metadata.Name(n.Key), "<") {
			nested = true
			continue
		}
		for c, err := range metadata.Children(ctx, s.store(), n.Key, metadata.ListOptions{KeysOnly: true}) {
			if err != nil {
				return nil, false, err
			}
			if err := removeBelow(ctx, s.store(), c.Key); err != nil {
				return nil, false, err
			}
			if c.Version != 0 {
				ops = append(ops, metadata.Delete(c.Key, metadata.AnyVersion))
			}
		}
		if n.Version != 0 {
			ops = append(ops, metadata.Delete(n.Key, metadata.AnyVersion))
		}
	}
	return ops, nested, nil
}

// removeBelow removes everything below key, deepest first.
func removeBelow(ctx context.Context, st metadata.Store, key string) error {
	for n, err := range metadata.Children(ctx, st, key, metadata.ListOptions{KeysOnly: true}) {
		if err != nil {
			return err
		}
		if err := removeBelow(ctx, st, n.Key); err != nil {
			return err
		}
		if err := metadata.Remove(ctx, st, n.Key, metadata.AnyVersion); err != nil {
			return err
		}
	}
	return nil
}

// refused reports that a transaction certainly did not happen because of what
// the store holds.
func refused(err error) bool {
	return errors.Is(err, metadata.ErrExists) || errors.Is(err, metadata.ErrConflict) ||
		errors.Is(err, metadata.ErrNotFound) || errors.Is(err, metadata.ErrNotEmpty)
}

const settleAttempts = 5

func ignoreMissing(err error) error {
	if errors.Is(err, bk.ErrNoSuchLedger) {
		return nil
	}
	return err
}
