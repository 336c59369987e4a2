package segment

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// Create makes the stream's tree, with the operations of extra in the same
// transaction. It fails with stream.ErrExists if the stream exists.
func (s *Stream) Create(ctx context.Context, extra ...metadata.Op) error {
	return s.wrap("create", s.create(ctx, extra))
}

func (s *Stream) create(ctx context.Context, extra []metadata.Op) error {
	lost := error(nil)
	for {
		ops, err := s.createOps(ctx)
		if err != nil {
			if lost != nil && errors.Is(err, stream.ErrExists) {
				return s.createdByUs(ctx, extra, err)
			}
			return err
		}
		_, err = s.store().Txn(ctx, append(ops, extra...)...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, metadata.ErrUnknownOutcome):
			lost = err
		case !refused(err):
			return errors.Join(lost, err)
		}
		if e := s.createBlocked(ctx, extra, err); e != nil {
			return errors.Join(lost, e)
		}
	}
}

// createBlocked tells a refusal that will come again from one that another
// creator caused: an extra operation that cannot be applied is final.
func (s *Stream) createBlocked(ctx context.Context, extra []metadata.Op, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var te *metadata.TxnError
	if !errors.As(cause, &te) {
		return nil
	}
	for _, op := range extra {
		if te.Key == op.Key {
			return cause
		}
	}
	return nil
}

// createOps gives the creation of what is missing of the tree, outermost first.
func (s *Stream) createOps(ctx context.Context) ([]metadata.Op, error) {
	k := &s.keys
	nodes := []metadata.Op{
		metadata.Create(k.stream, nil),
		metadata.Create(k.root, nil),
		metadata.Create(k.maxTxID, []byte("0")),
		metadata.Create(k.version, layoutVersion),
		metadata.Create(k.lock, nil),
		metadata.Create(k.readLock, nil),
		metadata.Create(k.ledgers, []byte("0")),
		metadata.Create(k.allocation, nil),
	}
	var ancestors []metadata.Op
	key := s.tree.opts.Path
	parts := strings.Split(string(s.name), "/")
	for _, part := range parts[:len(parts)-1] {
		key = metadata.Child(key, part)
		ancestors = append(ancestors, metadata.Create(key, nil))
	}
	var missing []metadata.Op
	for _, op := range append(ancestors, nodes...) {
		_, err := s.store().Get(ctx, op.Key)
		switch {
		case errors.Is(err, metadata.ErrNotFound):
			missing = append(missing, op)
		case err != nil:
			return nil, err
		case op.Key == k.ledgers:
			return nil, stream.ErrExists
		}
	}
	missing[0] = missing[0].WithParents()
	return missing, nil
}

// createdByUs settles a creation whose answer was lost: the stream exists now,
// and it is ours if the extra nodes are as we wrote them.
func (s *Stream) createdByUs(ctx context.Context, extra []metadata.Op, exists error) error {
	for _, op := range extra {
		if op.Kind != metadata.OpCreate && op.Kind != metadata.OpPut && op.Kind != metadata.OpSet {
			continue
		}
		n, err := s.store().Get(ctx, op.Key)
		if errors.Is(err, metadata.ErrNotFound) || err == nil && !bytes.Equal(n.Value, op.Value) {
			return exists
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Exists reports whether the stream's tree is there.
func (s *Stream) Exists(ctx context.Context) (bool, error) {
	_, err := s.store().Get(ctx, s.keys.ledgers)
	if errors.Is(err, metadata.ErrNotFound) {
		return false, nil
	}
	return err == nil, s.wrap("look up", err)
}
