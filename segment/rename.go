package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// Rename moves the stream's tree to another name in one transaction, with the
// operations of extra. It fails with stream.ErrExists if to exists, and with
// stream.ErrNotOwner if somebody holds a lock of the stream. A writer that
// holds no lock is fenced out of the metadata, not out of its last ledger.
func (s *Stream) Rename(ctx context.Context, to stream.Name, extra ...metadata.Op) error {
	dst, err := s.tree.Stream(to)
	if err != nil {
		return err
	}
	for range settleAttempts {
		err = s.rename(ctx, dst, extra)
		if !errors.Is(err, metadata.ErrUnknownOutcome) {
			break
		}
		done, rerr := s.renamed(ctx, dst)
		if done {
			err = nil
		}
		if done || rerr != nil {
			err = errors.Join(err, rerr)
			break
		}
	}
	return s.wrap(fmt.Sprintf("rename to %s", to), err)
}

func (s *Stream) rename(ctx context.Context, dst *Stream, extra []metadata.Op) error {
	if _, err := s.store().Get(ctx, s.keys.ledgers); err != nil {
		return err
	}
	create, err := dst.createOps(ctx)
	if err != nil {
		return err
	}
	copied, deletes, err := s.moveOps(ctx, dst)
	if err != nil {
		return err
	}
	for i, op := range create {
		if v, ok := copied.values[op.Key]; ok {
			create[i].Value = v
		}
	}
	ops := append(create, copied.segments...)
	ops = append(append(ops, deletes...), extra...)
	if lone, err := s.aloneBut(ctx, extra); err != nil {
		return err
	} else if lone {
		ops = append(ops, metadata.Delete(s.keys.stream, metadata.AnyVersion))
	}
	_, err = s.store().Txn(ctx, ops...)
	return err
}

// aloneBut reports whether the stream's node has no child but <default> and
// what ops delete.
func (s *Stream) aloneBut(ctx context.Context, ops []metadata.Op) (bool, error) {
	for n, err := range metadata.Children(ctx, s.store(), s.keys.stream, metadata.ListOptions{KeysOnly: true}) {
		if err != nil {
			return false, err
		}
		gone := slices.ContainsFunc(ops, func(op metadata.Op) bool { return op.Kind == metadata.OpDelete && op.Key == n.Key })
		if n.Key != s.keys.root && !gone {
			return false, nil
		}
	}
	return true, nil
}

// moved is what a rename carries over.
type moved struct {
	values   map[string][]byte // by the key in the new tree
	segments []metadata.Op
}

// moveOps reads the old tree and gives what to create in the new one and what
// to delete, every node with the version read.
func (s *Stream) moveOps(ctx context.Context, dst *Stream) (moved, []metadata.Op, error) {
	m := moved{values: map[string][]byte{}}
	var deletes []metadata.Op
	for _, k := range [][2]string{{s.keys.maxTxID, dst.keys.maxTxID}, {s.keys.allocation, dst.keys.allocation}, {s.keys.ledgers, dst.keys.ledgers}} {
		n, err := s.store().Get(ctx, k[0])
		if err != nil {
			return m, nil, err
		}
		m.values[k[1]] = n.Value
		deletes = append(deletes, metadata.Delete(k[0], n.Version))
	}
	segments, err := s.listNodes(ctx)
	if err != nil {
		return m, nil, err
	}
	var first []metadata.Op
	for _, n := range segments {
		m.segments = append(m.segments, metadata.Create(metadata.Child(dst.keys.ledgers, n.info.name()), n.info.text()))
		first = append(first, metadata.Delete(n.key, n.version))
	}
	for _, key := range []string{s.keys.lock, s.keys.readLock} {
		holder, err := firstMember(ctx, s.store(), key)
		if err != nil {
			return m, nil, err
		}
		if holder != nil {
			return m, nil, &stream.OwnerError{Stream: s.name, Owner: holder.client}
		}
		first = append(first, metadata.Delete(key, metadata.AnyVersion))
	}
	deletes = append(first, deletes...)
	deletes = append(deletes, metadata.Delete(s.keys.version, metadata.AnyVersion), metadata.Delete(s.keys.root, metadata.AnyVersion))
	return m, deletes, nil
}

// renamed finds out what became of a rename whose answer was lost.
func (s *Stream) renamed(ctx context.Context, dst *Stream) (bool, error) {
	oldThere, err := s.Exists(ctx)
	if err != nil || oldThere {
		return false, err
	}
	return dst.Exists(ctx)
}
