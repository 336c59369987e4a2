package metadata

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
)

// settleAttempts bounds how often one change is sent when every answer is lost.
const settleAttempts = 5

// CreateOnce does a single Create and settles a lost answer by reading back: a
// node that mine recognises is one's own. ErrExists then means that another
// made it. With mine nil a node is one's own if it has the value and the
// session of op, so a value that several clients may write needs a token in it.
// The key of a sequential create is not known, so op must not be one.
func CreateOnce(ctx context.Context, s Store, op Op, mine func(Node) bool) (Node, error) {
	if op.Kind != OpCreate || op.Sequential {
		return Node{}, fmt.Errorf("create %q once: not a plain create: %w", op.Key, errors.ErrUnsupported)
	}
	if mine == nil {
		mine = func(n Node) bool { return n.Session == op.Session && bytes.Equal(n.Value, op.Value) }
	}
	return settle(ctx, s, op, mine)
}

// CompareAndSet overwrites a node that still has version v, and gives its new
// version. A lost answer is settled by reading back: a node that holds value
// counts as written, so a value that several clients may write needs a token in
// it where it matters whose it is. ErrConflict or ErrNotFound mean that the precondition no
// longer holds: read again, test again, compute again.
func CompareAndSet(ctx context.Context, s Store, key string, value []byte, v Version) (Version, error) {
	n, err := settle(ctx, s, Set(key, value, v), func(n Node) bool { return bytes.Equal(n.Value, value) })
	return n.Version, err
}

// Remove deletes a node that still has version v (AnyVersion: whatever it is).
// No node there is success; ErrConflict if it was changed, ErrNotEmpty if it
// has children.
func Remove(ctx context.Context, s Store, key string, v Version) error {
	if err := RemoveExisting(ctx, s, key, v); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// RemoveExisting is Remove, but ErrNotFound if there was no node. After a lost
// answer a node that is not there counts as one's own success.
func RemoveExisting(ctx context.Context, s Store, key string, v Version) error {
	_, err := settle(ctx, s, Delete(key, v), nil)
	return err
}

// Update reads a node, asks change for its new value and writes that if the
// node is still the one read; else it starts over. It gives the node as
// written. change tests its precondition on what it is given and may refuse
// with an error, which Update returns; it may be called more than once. If an
// answer was lost and the node overwritten by another before it could be read
// back, change is applied on top, so it must be harmless to apply twice.
func Update(ctx context.Context, s Store, key string, change func(Node) ([]byte, error)) (Node, error) {
	for {
		old, err := s.Get(ctx, key)
		if err != nil {
			return Node{}, fmt.Errorf("update %q: %w", key, err)
		}
		value, err := change(old)
		if err != nil {
			return Node{}, err
		}
		v, err := CompareAndSet(ctx, s, key, value, old.Version)
		if errors.Is(err, ErrConflict) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return Node{}, fmt.Errorf("update %q: %w", key, err)
		}
		return Node{Key: key, Value: value, Version: v, Writes: old.Writes + 1, Session: old.Session}, nil
	}
}

// settle does one operation and, after a lost answer, reads back to find out
// whether it happened, and sends it again if it did not. Once an answer was
// lost, a refusal proves nothing: it may be one's own first try that is in the
// way.
func settle(ctx context.Context, s Store, op Op, mine func(Node) bool) (Node, error) {
	var lost error
	for range settleAttempts {
		res, err := s.Txn(ctx, op)
		switch {
		case err == nil:
			return res.Nodes[0], nil
		case errors.Is(err, ErrUnknownOutcome):
			lost = err
		case lost == nil:
			return Node{}, err
		case !refused(err):
			return Node{}, errors.Join(lost, err)
		}
		n, err := s.Get(ctx, op.Key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return Node{}, errors.Join(lost, err)
		}
		done, err := readBack(op, n, err == nil, mine)
		if done {
			return n, err
		}
	}
	return Node{}, lost
}

func refused(err error) bool {
	return errors.Is(err, ErrExists) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound)
}

// readBack judges a change by what is there now. done is false if the change
// did not happen and may be sent again.
func readBack(op Op, n Node, found bool, mine func(Node) bool) (done bool, err error) {
	refuse := func(err error) (bool, error) { return true, &TxnError{Key: op.Key, Err: err} }
	switch {
	case op.Kind == OpDelete && !found:
		return true, nil
	case op.Kind == OpDelete && op.Version != AnyVersion && n.Version != op.Version:
		return refuse(ErrConflict)
	case op.Kind == OpDelete:
		return false, nil
	case op.Kind == OpCreate && !found:
		return false, nil
	case !found:
		return refuse(ErrNotFound)
	case op.Kind != OpCreate && n.Version == op.Version:
		return false, nil
	case mine(n):
		return true, nil
	case op.Kind == OpCreate:
		return refuse(ErrExists)
	case op.Version == AnyVersion:
		return false, nil
	default:
		return refuse(ErrConflict)
	}
}

// Children lists all direct children of key, page by page. The sequence ends
// after the first error. opts.After and opts.Limit set the start and the page
// size.
func Children(ctx context.Context, s Store, key string, opts ListOptions) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for {
			page, err := s.List(ctx, key, opts)
			if err != nil {
				yield(Node{}, err)
				return
			}
			for _, n := range page.Nodes {
				if !yield(n, nil) {
					return
				}
			}
			if !page.More {
				return
			}
			opts.After = page.Next
		}
	}
}
