package owner

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// Claim is the ownership of one stream under one lease.
type Claim struct {
	l       *Lease
	name    stream.Name
	version metadata.Version
	Epoch   int64
}

// TakenError says who owns the stream. It wraps stream.ErrNotOwner.
type TakenError struct {
	Stream stream.Name
	Owner  wire.Owner
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("stream %s is owned by %s in epoch %d", e.Stream, e.Owner.Location, e.Owner.Epoch)
}

func (e *TakenError) Unwrap() error { return stream.ErrNotOwner }

// Take makes this proxy the owner of a stream. If another proxy is, the answer
// is a *TakenError; but if unreachable(addr of the owner) says that the client
// could not use that proxy, Take replaces it once it is certainly dead, or
// waits until it lets go, up to ctx.
func (l *Lease) Take(ctx context.Context, name stream.Name, unreachable func(addr string) bool) (*Claim, error) {
	for {
		c, taken, err := l.tryTake(ctx, name, unreachable)
		if c != nil || err != nil {
			return c, err
		}
		if taken == nil {
			continue // it changed meanwhile
		}
		if !unreachable(taken.Owner.Addr) {
			return nil, taken
		}
		if err := l.waitChange(ctx, name, taken); err != nil {
			return nil, err
		}
	}
}

// tryTake takes the stream if it is free or its owner is dead. All results nil
// means: try again.
func (l *Lease) tryTake(ctx context.Context, name stream.Name, unreachable func(string) bool) (*Claim, *TakenError, error) {
	node, err := l.o.Store.Get(ctx, wire.OwnerKey(l.o.Root, string(name)))
	free := errors.Is(err, metadata.ErrNotFound)
	if err != nil && !free {
		return nil, nil, fmt.Errorf("take stream %s: %w", name, err)
	}
	if !free && node.Session != l.sess.ID() {
		o, err := wire.ParseOwner(node.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("take stream %s: %w", name, err)
		}
		dead := o.Addr == l.o.Addr || unreachable(o.Addr) && l.o.Probe(ctx, o.Addr)
		if !dead {
			return nil, &TakenError{Stream: name, Owner: o}, nil
		}
	}
	c, err := l.write(ctx, name, node, free)
	return c, nil, err
}

// write puts our node in the place of what was read, and raises the epoch.
func (l *Lease) write(ctx context.Context, name stream.Name, old metadata.Node, free bool) (*Claim, error) {
	epochKey := wire.EpochKey(l.o.Root, string(name))
	ownerKey := wire.OwnerKey(l.o.Root, string(name))
	last, err := l.o.Store.Get(ctx, epochKey)
	none := errors.Is(err, metadata.ErrNotFound)
	if err != nil && !none {
		return nil, fmt.Errorf("take stream %s: %w", name, err)
	}
	epoch := int64(1)
	if !none {
		n, err := strconv.ParseInt(string(last.Value), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("take stream %s: epoch %q: %w", name, last.Value, stream.ErrCorrupt)
		}
		epoch = n + 1
	}
	var ops []metadata.Op
	text := strconv.AppendInt(nil, epoch, 10)
	if none {
		ops = append(ops, metadata.Create(epochKey, text).WithParents())
	} else {
		ops = append(ops, metadata.Set(epochKey, text, last.Version))
	}
	if !free {
		ops = append(ops, metadata.Delete(ownerKey, old.Version))
	}
	val := wire.Owner{Location: l.Location(), Epoch: epoch}.Marshal()
	ops = append(ops, metadata.Create(ownerKey, val).WithSession(l.sess.ID()).WithParents())
	res, err := l.o.Store.Txn(ctx, ops...)
	switch {
	case err == nil:
		return &Claim{l: l, name: name, version: res.Nodes[len(res.Nodes)-1].Version, Epoch: epoch}, nil
	case errors.Is(err, metadata.ErrSessionLost):
		l.lose()
		return nil, fmt.Errorf("take stream %s: %w: %w", name, ErrLost, err)
	case errors.Is(err, metadata.ErrUnknownOutcome):
		return l.found(ctx, name, val, epoch)
	case changed(err):
		return nil, nil
	}
	return nil, fmt.Errorf("take stream %s: %w", name, err)
}

// found settles a transaction whose answer was lost: the epoch in the value is
// its token.
func (l *Lease) found(ctx context.Context, name stream.Name, val []byte, epoch int64) (*Claim, error) {
	n, err := l.o.Store.Get(ctx, wire.OwnerKey(l.o.Root, string(name)))
	if err != nil && !errors.Is(err, metadata.ErrNotFound) {
		return nil, fmt.Errorf("take stream %s: %w", name, err)
	}
	if err == nil && n.Session == l.sess.ID() && string(n.Value) == string(val) {
		return &Claim{l: l, name: name, version: n.Version, Epoch: epoch}, nil
	}
	return nil, nil
}

// waitChange waits until the owner's node is not the one that was read.
func (l *Lease) waitChange(ctx context.Context, name stream.Name, taken *TakenError) error {
	key := wire.OwnerKey(l.o.Root, string(name))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := l.o.Store.Watch(ctx, key, metadata.WatchNode)
	if err != nil {
		return fmt.Errorf("wait for owner of stream %s: %w", name, err)
	}
	for {
		select {
		case <-l.lost:
			return ErrLost
		case <-ctx.Done():
			return taken
		case _, ok := <-w.C():
			if !ok {
				return taken
			}
		}
		n, err := l.o.Store.Get(ctx, key)
		if errors.Is(err, metadata.ErrNotFound) {
			return nil
		}
		if err != nil {
			if ctx.Err() != nil {
				return taken
			}
			return fmt.Errorf("wait for owner of stream %s: %w", name, err)
		}
		if string(n.Value) != string(taken.Owner.Marshal()) {
			return nil
		}
	}
}

// Drop gives the stream up. A claim that is gone already is no error.
func (c *Claim) Drop(ctx context.Context) error {
	_, err := c.l.o.Store.Txn(ctx, metadata.Delete(wire.OwnerKey(c.l.o.Root, string(c.name)), c.version))
	if err == nil || errors.Is(err, metadata.ErrNotFound) || errors.Is(err, metadata.ErrConflict) {
		return nil
	}
	return fmt.Errorf("drop stream %s: %w", c.name, err)
}

// Forget deletes the stream's epoch too, when the stream itself is deleted.
func (c *Claim) Forget(ctx context.Context) error {
	_, err := c.l.o.Store.Txn(ctx, metadata.Delete(wire.EpochKey(c.l.o.Root, string(c.name)), metadata.AnyVersion))
	if err != nil && !errors.Is(err, metadata.ErrNotFound) {
		return fmt.Errorf("forget epoch of stream %s: %w", c.name, err)
	}
	return nil
}

// Owner reads who owns the stream now, nil for nobody.
func (l *Lease) Owner(ctx context.Context, name stream.Name) (*wire.Owner, error) {
	n, err := l.o.Store.Get(ctx, wire.OwnerKey(l.o.Root, string(name)))
	if errors.Is(err, metadata.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("owner of stream %s: %w", name, err)
	}
	o, err := wire.ParseOwner(n.Value)
	if err != nil {
		return nil, fmt.Errorf("owner of stream %s: %w", name, err)
	}
	return &o, nil
}
