package namespace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/segment"
	"github.com/loglode/loglode/stream"
)

// Create makes a stream. It fails with stream.ErrExists, with a
// *stream.NameError, with stream.ErrInvalidConfig, and with
// stream.ErrNotEnoughBookies when fewer bookies are writable than the ensemble.
func (n *Namespace) Create(ctx context.Context, name stream.Name, c stream.Config) error {
	s, err := n.tree.Stream(name)
	if err != nil {
		return fmt.Errorf("create stream: %w", err)
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("create stream %s: %w", name, err)
	}
	ctx, cancel := n.opts.bound(ctx)
	defer cancel()
	if exists, err := s.Exists(ctx); err != nil || exists {
		if exists {
			err = fmt.Errorf("create stream %s: %w", name, stream.ErrExists)
		}
		return unreachable(err)
	}
	if err := n.enoughBookies(ctx, c.WithDefaults().Quorum); err != nil {
		return fmt.Errorf("create stream %s: %w", name, err)
	}
	if err := s.SetPlacement(c.Placement); err != nil {
		return fmt.Errorf("create stream %s: %w", name, err)
	}
	if err := s.CheckPlacement(ctx, c.WithDefaults().Quorum); err != nil {
		return fmt.Errorf("create stream %s: %w", name, unreachable(err))
	}
	value, err := marshalConfig(c)
	if err != nil {
		return fmt.Errorf("create stream %s: %w", name, err)
	}
	return unreachable(s.Create(ctx, metadata.Create(configKey(s), value)))
}

// enoughBookies checks that an ensemble can be made now.
func (n *Namespace) enoughBookies(ctx context.Context, q stream.Quorum) error {
	b, err := n.cluster.Bookies(ctx)
	if err != nil {
		return unreachable(err)
	}
	if len(b.Writable) < q.Ensemble {
		return fmt.Errorf("an ensemble of %d bookies is wanted, %d are writable (and %d read-only): start more bookies or choose a smaller ensemble: %w",
			q.Ensemble, len(b.Writable), len(b.ReadOnly), stream.ErrNotEnoughBookies)
	}
	return nil
}

// Stream gives a handle on a stream. It fails with stream.ErrNotFound.
func (n *Namespace) Stream(ctx context.Context, name stream.Name) (*Stream, error) {
	seg, err := n.tree.Stream(name)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	ctx, cancel := n.opts.bound(ctx)
	defer cancel()
	exists, err := seg.Exists(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	if !exists {
		return nil, fmt.Errorf("open stream %s in %s: %w", name, n.at, stream.ErrNotFound)
	}
	cfg, err := n.loadConfig(ctx, seg)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", name, err)
	}
	if err := seg.SetPlacement(cfg.Placement); err != nil {
		return nil, fmt.Errorf("open stream %s: %w", name, err)
	}
	return &Stream{n: n, seg: seg, cfg: cfg}, nil
}

// List gives the streams whose name begins with prefix, by name.
func (n *Namespace) List(ctx context.Context, prefix string) iter.Seq2[stream.Info, error] {
	return func(yield func(stream.Info, error) bool) {
		ctx, cancel := n.opts.bound(ctx)
		defer cancel()
		for info, err := range n.tree.List(ctx, prefix) {
			if !yield(info, unreachable(err)) || err != nil {
				return
			}
		}
	}
}

// Event is a change in the list of streams.
type Event struct {
	Name    stream.Name
	Deleted bool // false: created, or there already
}

// watchEvery is how often Watch looks for changes in nested names, of which
// the store does not tell.
const watchEvery = 2 * time.Second

// Watch gives an event for each stream there is, and then for each that is
// created or deleted, until ctx ends. Changes directly in the namespace show at
// once, those of nested names within two seconds.
func (n *Namespace) Watch(ctx context.Context, prefix string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		wctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w, err := n.store.Watch(wctx, n.at.path, metadata.WatchChildren)
		if err != nil {
			yield(Event{}, fmt.Errorf("watch streams of %s: %w", n.at, unreachable(err)))
			return
		}
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		known := map[stream.Name]bool{}
		for {
			if !n.tellChanges(ctx, prefix, known, yield) {
				return
			}
			select {
			case _, ok := <-w.C():
				if !ok {
					yield(Event{}, fmt.Errorf("watch streams of %s: %w", n.at, segment.MapError(w.Err())))
					return
				}
			case <-tick.C:
			case <-ctx.Done():
				yield(Event{}, fmt.Errorf("watch streams of %s: %w", n.at, ctx.Err()))
				return
			}
		}
	}
}

// tellChanges yields the difference to what is known. A store that does not
// answer is tried again later.
func (n *Namespace) tellChanges(ctx context.Context, prefix string, known map[stream.Name]bool, yield func(Event, error) bool) bool {
	now := map[stream.Name]bool{}
	for info, err := range n.List(ctx, prefix) {
		switch {
		case errors.Is(err, stream.ErrUnavailable) || ctx.Err() != nil:
			return true
		case err != nil:
			yield(Event{}, err)
			return false
		}
		now[info.Name] = true
		if !known[info.Name] {
			known[info.Name] = true
			if !yield(Event{Name: info.Name}, nil) {
				return false
			}
		}
	}
	var gone []stream.Name
	for name := range known {
		if !now[name] {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	for _, name := range gone {
		delete(known, name)
		if !yield(Event{Name: name, Deleted: true}, nil) {
			return false
		}
	}
	return true
}

// Rename moves a stream, with its configuration and checkpoints, to another
// name. It fails with stream.ErrNotFound, stream.ErrExists, and with
// stream.ErrNotOwner when somebody holds a lock of the stream. A writer of the
// old name fails at its next segment, at the latest.
func (n *Namespace) Rename(ctx context.Context, from, to stream.Name) error {
	src, err := n.tree.Stream(from)
	if err != nil {
		return fmt.Errorf("rename stream: %w", err)
	}
	dst, err := n.tree.Stream(to)
	if err != nil {
		return fmt.Errorf("rename stream %s: %w", from, err)
	}
	ctx, cancel := n.opts.bound(ctx)
	defer cancel()
	var ops []metadata.Op
	for _, part := range [...]string{configNode, checkpointsNode} {
		more, err := moveOps(ctx, n.store, metadata.Child(src.Key(), part), metadata.Child(dst.Key(), part))
		if err != nil {
			return fmt.Errorf("rename stream %s to %s: %w", from, to, unreachable(err))
		}
		ops = append(ops, more...)
	}
	return unreachable(src.Rename(ctx, to, ops...))
}

// moveOps moves a node and its children.
func moveOps(ctx context.Context, s metadata.Store, from, to string) ([]metadata.Op, error) {
	node, err := s.Get(ctx, from)
	if errors.Is(err, metadata.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	create := []metadata.Op{metadata.Create(to, node.Value)}
	var remove []metadata.Op
	for c, err := range metadata.Children(ctx, s, from, metadata.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		create = append(create, metadata.Create(metadata.Child(to, metadata.Name(c.Key)), c.Value))
		remove = append(remove, metadata.Delete(c.Key, c.Version))
	}
	return append(append(create, remove...), metadata.Delete(from, node.Version)), nil
}

// Delete removes a stream, its ledgers, configuration and checkpoints. Its
// writer is fenced. It fails with stream.ErrNotFound.
func (n *Namespace) Delete(ctx context.Context, name stream.Name) error {
	s, err := n.tree.Stream(name)
	if err != nil {
		return fmt.Errorf("delete stream: %w", err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.recoverTimeout())
		defer cancel()
	}
	return unreachable(s.Delete(ctx))
}

// reserved tells children of a namespace's node that are no streams.
func reserved(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "<") }
