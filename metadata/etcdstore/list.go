package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/loglode/loglode/metadata"
)

// Keys asked for at once. A listing starts with few, as they may all lie in one
// sub-tree, and asks for more while they belong to many children.
const (
	listChunkMin = 128
	listChunkMax = 1024
)

// childPrefix is what the keys of all descendants of key begin with.
func childPrefix(key string) string {
	if key == "/" {
		return "/"
	}
	return key + "/"
}

// past is the first key after all descendants of key: '0' follows '/'.
func past(key string) string { return strings.TrimSuffix(key, "/") + "0" }

// List is metadata.Store.List.
func (s *Store) List(ctx context.Context, key string, opts metadata.ListOptions) (metadata.Page, error) {
	if err := metadata.ValidKey(key); err != nil {
		return metadata.Page{}, err
	}
	ctx, cancel, err := s.call(ctx)
	if err != nil {
		return metadata.Page{}, fmt.Errorf("list %q: %w", key, err)
	}
	defer cancel()
	for {
		l := newLister(s, key, opts)
		err := l.run(ctx)
		if errors.Is(err, rpctypes.ErrCompacted) && ctx.Err() == nil {
			continue // the page took so long that its revision is gone
		}
		if err != nil {
			return metadata.Page{}, fmt.Errorf("list %q: %w", key, readError(ctx, err))
		}
		return l.page, nil
	}
}

// lister builds one page from ranges at one revision.
type lister struct {
	s      *Store
	opts   metadata.ListOptions
	prefix string
	start  string // where the next range begins
	end    string
	rev    int64 // of the first range
	after  string
	page   metadata.Page
	given  map[string]struct{} // names in the page
	nested string              // the child whose descendants are being skipped
}

func newLister(s *Store, key string, opts metadata.ListOptions) *lister {
	if opts.Limit <= 0 {
		opts.Limit = metadata.DefaultListLimit
	}
	l := &lister{s: s, opts: opts, prefix: childPrefix(key), given: map[string]struct{}{}}
	l.start, l.end = l.prefix, past(l.prefix)
	switch {
	case strings.HasSuffix(opts.After, "/"): // a child that is only a parent
		l.start = past(l.prefix + opts.After)
	case opts.After != "":
		l.start = l.prefix + opts.After + "\x00"
	}
	l.after = strings.TrimSuffix(opts.After, "/")
	return l
}

func (l *lister) run(ctx context.Context) error {
	chunk := listChunkMin
	for {
		n := min(chunk, l.opts.Limit-len(l.page.Nodes)+1)
		opts := []clientv3.OpOption{clientv3.WithRange(l.end), clientv3.WithLimit(int64(n)), clientv3.WithRev(l.rev)}
		if l.opts.KeysOnly {
			opts = append(opts, clientv3.WithKeysOnly())
		}
		resp, err := l.s.cli.Get(ctx, l.start, opts...)
		if err != nil {
			return err
		}
		if l.rev == 0 {
			l.rev = resp.Header.Revision
		}
		before := len(l.page.Nodes)
		for _, kv := range resp.Kvs {
			full, err := l.take(ctx, nodeOf(kv))
			if full || err != nil {
				return err
			}
		}
		if !resp.More {
			return nil
		}
		// etcd counts all that is left of the range for each request, so that one
		// request a child would cost the square of their number. Children with
		// few keys are read over; only those with many are worth a skip.
		if found := len(l.page.Nodes) - before; found*16 > len(resp.Kvs) {
			chunk = min(chunk*4, listChunkMax)
		}
		last := string(resp.Kvs[len(resp.Kvs)-1].Key)
		l.start = last + "\x00"
		if name, _, nested := strings.Cut(last[len(l.prefix):], "/"); nested {
			l.start = past(l.prefix + name)
		}
	}
}

// take adds what one key means for the listing. full says that the page holds
// all it may.
func (l *lister) take(ctx context.Context, n metadata.Node) (full bool, err error) {
	name, _, nested := strings.Cut(n.Key[len(l.prefix):], "/")
	place := name
	if nested {
		if name == l.nested {
			return false, nil
		}
		l.nested = name
		if _, ok := l.given[name]; ok {
			return false, nil
		}
		if name <= l.after {
			// It may have been on an earlier page as a node of its own.
			resp, err := l.s.cli.Get(ctx, l.prefix+name, clientv3.WithKeysOnly(), clientv3.WithRev(l.rev))
			if err != nil || len(resp.Kvs) > 0 {
				return false, err
			}
		}
		n, place = metadata.Node{Key: l.prefix + name}, name+"/"
	}
	if len(l.page.Nodes) == l.opts.Limit {
		l.page.More = true
		return true, nil
	}
	l.given[name] = struct{}{}
	l.page.Nodes = append(l.page.Nodes, n)
	l.page.Next = place
	return false, nil
}
