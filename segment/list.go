package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

const (
	openRecover    = ledger.Recover
	openNoRecovery = ledger.NoRecovery
)

// listAttempts bounds how often a list that shows a change half done is read
// again.
const listAttempts = 4

// segmentNode is a segment with the node it was read from.
type segmentNode struct {
	info    Info
	key     string
	version metadata.Version
}

// List gives the stream's segments, oldest first: numbers rise by one, the last
// one or two may be in progress. It fails with stream.ErrNotFound without a
// stream, with stream.ErrCorrupt at a gap.
func (s *Stream) List(ctx context.Context) ([]Info, error) {
	nodes, err := s.listNodes(ctx)
	if err != nil {
		return nil, s.wrap("list segments", err)
	}
	infos := make([]Info, len(nodes))
	for i, n := range nodes {
		infos[i] = n.info
	}
	fillSequence(infos)
	return infos, nil
}

// fillSequence gives the first segment in progress the start that it will have
// once the one before it is known to be complete.
func fillSequence(infos []Info) {
	for i := range infos {
		in := &infos[i]
		if !in.InProgress || in.Version < versionSequence {
			continue
		}
		if i == 0 {
			in.StartSequence = 0
		} else if !infos[i-1].InProgress {
			in.StartSequence = infos[i-1].nextStart()
		}
		return
	}
}

func (s *Stream) listNodes(ctx context.Context) ([]segmentNode, error) {
	var gap error
	for range listAttempts {
		nodes, err := s.readNodes(ctx)
		if err != nil {
			return nil, err
		}
		if len(nodes) == 0 {
			_, err := s.store().Get(ctx, s.keys.ledgers) // no segment, or no stream?
			return nil, err
		}
		if nodes, gap = s.arrange(nodes); gap == nil {
			return nodes, nil
		}
	}
	return nil, gap
}

func (s *Stream) readNodes(ctx context.Context) ([]segmentNode, error) {
	var nodes []segmentNode
	for n, err := range metadata.Children(ctx, s.store(), s.keys.ledgers, metadata.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		if !isSegmentName(metadata.Name(n.Key)) {
			continue
		}
		info, err := parseInfo(n.Key, n.Value)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, segmentNode{info: info, key: n.Key, version: n.Version})
	}
	return nodes, nil
}

// arrange sorts segments and checks that none is missing. A segment that shows
// twice was completed while the list was read: its completed node counts.
func (s *Stream) arrange(nodes []segmentNode) ([]segmentNode, error) {
	slices.SortStableFunc(nodes, func(a, b segmentNode) int {
		if a.info.Segment == 0 || b.info.Segment == 0 {
			return cmp.Compare(a.info.FirstTxID, b.info.FirstTxID)
		}
		return cmp.Or(cmp.Compare(a.info.Segment, b.info.Segment), compareBool(a.info.InProgress, b.info.InProgress))
	})
	nodes = slices.CompactFunc(nodes, func(a, b segmentNode) bool {
		return a.info.Segment == b.info.Segment && a.info.Ledger == b.info.Ledger
	})
	for i := 1; i < len(nodes); i++ {
		prev, this := nodes[i-1].info, nodes[i].info
		if prev.Version < versionNumbered || this.Version < versionNumbered || this.Segment == prev.Segment+1 {
			continue
		}
		return nil, &stream.CorruptError{Where: s.keys.ledgers, Offset: -1,
			Want: fmt.Sprintf("segment %d after segment %d", prev.Segment+1, prev.Segment), Got: fmt.Sprint(this.Segment)}
	}
	return nodes, nil
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// Watch signals changes of the list: a segment started, completed, truncated or
// deleted. Read List after each signal.
func (s *Stream) Watch(ctx context.Context) (metadata.Watch, error) {
	w, err := s.store().Watch(ctx, s.keys.ledgers, metadata.WatchChildren)
	if err != nil {
		return nil, s.wrap("watch segments", err)
	}
	return w, nil
}

// list walks the namespace. A node is a stream if it has a <default> child with
// ledgers; its other children may be nested streams.
func (t *Tree) list(ctx context.Context, prefix string) iter.Seq2[stream.Info, error] {
	return func(yield func(stream.Info, error) bool) {
		dir, rest := "", prefix
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			dir, rest = prefix[:i], prefix[i+1:]
			if err := stream.Name(dir).Validate(); err != nil {
				yield(stream.Info{}, err)
				return
			}
		}
		key := t.opts.Path
		if dir != "" {
			key = joinKey(key, dir)
		}
		_, err := t.walk(ctx, key, dir, rest, yield)
		if err != nil {
			yield(stream.Info{}, MapError(fmt.Errorf("list streams below %q: %w", prefix, err)))
		}
	}
}

// lookers is how many nodes a listing looks at at once: each takes a few
// requests, and a namespace may have very many.
const lookers = 32

// node is a child that may be a stream, may have streams below it, or both.
type node struct {
	key, name        string
	isStream, nested bool
}

// walk gives the streams below the node key of the name dir whose next
// component begins with prefix. more is false once yield has had enough.
func (t *Tree) walk(ctx context.Context, key, dir, prefix string, yield func(stream.Info, error) bool) (more bool, err error) {
	group := make([]node, 0, lookers)
	for n, err := range metadata.Children(ctx, t.opts.Store, key, metadata.ListOptions{KeysOnly: true}) {
		if err != nil {
			return false, err
		}
		name := metadata.Name(n.Key)
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, "<") || dir == "" && strings.HasPrefix(name, ".") {
			continue
		}
		if dir != "" {
			name = dir + "/" + name
		}
		if group = append(group, node{key: n.Key, name: name}); len(group) < lookers {
			continue
		}
		if more, err := t.visit(ctx, group, yield); !more || err != nil {
			return more, err
		}
		group = group[:0]
	}
	return t.visit(ctx, group, yield)
}

// visit looks at all nodes of a group at once and then gives them in order.
func (t *Tree) visit(ctx context.Context, group []node, yield func(stream.Info, error) bool) (more bool, err error) {
	looking, lctx := errgroup.WithContext(ctx)
	for i := range group {
		looking.Go(func() (err error) {
			group[i].isStream, group[i].nested, err = t.look(lctx, group[i].key)
			return err
		})
	}
	if err := looking.Wait(); err != nil {
		return false, err
	}
	for _, n := range group {
		if n.isStream && stream.Name(n.name).Validate() == nil && !yield(stream.Info{Name: stream.Name(n.name)}, nil) {
			return false, nil
		}
		if n.nested {
			if more, err := t.walk(ctx, n.key, n.name, "", yield); !more || err != nil {
				return more, err
			}
		}
	}
	return true, nil
}

func (t *Tree) look(ctx context.Context, key string) (isStream, nested bool, err error) {
	for c, err := range metadata.Children(ctx, t.opts.Store, key, metadata.ListOptions{KeysOnly: true}) {
		if err != nil {
			return false, false, err
		}
		switch name := metadata.Name(c.Key); {
		case name == partition:
			_, err := t.opts.Store.Get(ctx, metadata.Child(c.Key, "ledgers"))
			if err != nil && !errors.Is(err, metadata.ErrNotFound) {
				return false, false, err
			}
			isStream = err == nil
		case !strings.HasPrefix(name, "<"):
			nested = true
		}
	}
	return isStream, nested, nil
}

func (s *Stream) fields(i Info, err error) []zap.Field {
	f := []zap.Field{zap.String("stream", string(s.name)), zap.Int64("segment", i.Segment), zap.Int64("ledger", int64(i.Ledger))}
	if err != nil {
		f = append(f, zap.Error(err))
	}
	return f
}
