package namespace

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/readers"
	"github.com/loglode/loglode/segment"
	"github.com/loglode/loglode/stream"
)

// checkpointIDMax is the most bytes of a checkpoint's id.
const checkpointIDMax = 255

// Checkpoint gives the saved position of a consumer, which id names. A new one
// stands at the first record.
func (s *Stream) Checkpoint(ctx context.Context, id string) (*readers.Checkpoint, error) {
	if id == "" || len(id) > checkpointIDMax {
		return nil, fmt.Errorf("checkpoint of stream %s: an id of 1 to %d bytes is wanted, this one has %d: %w",
			s.Name(), checkpointIDMax, len(id), stream.ErrInvalidName)
	}
	parent := metadata.Child(s.seg.Key(), checkpointsNode)
	// "c-" keeps the ids "." and ".." from being relative keys.
	c := &cell{n: s.n, parent: parent, key: metadata.Child(parent, "c-"+url.PathEscape(id))}
	cp, err := readers.OpenCheckpoint(ctx, fmt.Sprintf("%s of stream %s", id, s.Name()), c)
	return cp, unreachable(err)
}

// cell keeps a checkpoint in a node.
type cell struct {
	n           *Namespace
	parent, key string
}

// noVersion stands for "no such node": versions of nodes are not negative.
const noVersion = 0

// Load gives the node's value.
func (c *cell) Load(ctx context.Context) ([]byte, int64, error) {
	ctx, cancel := c.n.opts.bound(ctx)
	defer cancel()
	node, err := c.n.store.Get(ctx, c.key)
	if errors.Is(err, metadata.ErrNotFound) {
		return nil, noVersion, nil
	}
	if err != nil {
		return nil, 0, unreachable(err)
	}
	return node.Value, int64(node.Version) + 1, nil
}

// Store replaces the node's value.
func (c *cell) Store(ctx context.Context, value []byte, version int64) (int64, error) {
	ctx, cancel := c.n.opts.bound(ctx)
	defer cancel()
	var res metadata.Result
	var err error
	if version == noVersion {
		if err = c.makeParent(ctx); err == nil {
			res, err = c.n.store.Txn(ctx, metadata.Create(c.key, value))
		}
	} else {
		res, err = c.n.store.Txn(ctx, metadata.Set(c.key, value, metadata.Version(version-1)))
	}
	switch {
	case err == nil:
		return int64(res.Nodes[0].Version) + 1, nil
	case errors.Is(err, metadata.ErrExists) || errors.Is(err, metadata.ErrConflict) || errors.Is(err, metadata.ErrNotFound):
		return 0, fmt.Errorf("%w: %w", stream.ErrConflict, err)
	}
	return 0, unreachable(segment.MapError(err))
}

// makeParent makes the node that the stream's checkpoints are below.
func (c *cell) makeParent(ctx context.Context) error {
	_, err := metadata.CreateOnce(ctx, c.n.store, metadata.Create(c.parent, nil), func(metadata.Node) bool { return true })
	if errors.Is(err, metadata.ErrExists) {
		return nil
	}
	return err
}
