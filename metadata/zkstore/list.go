package zkstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/loglode/loglode/metadata"
)

// inFlight is how many reads of one listing, or one watch, wait for answers at
// once.
const inFlight = 32

// List is metadata.Store.List. ZooKeeper has no pages: each page asks for all
// names, then reads the nodes of the page one by one, many at once.
func (s *Store) List(ctx context.Context, key string, opts metadata.ListOptions) (metadata.Page, error) {
	if err := validKey(key); err != nil {
		return metadata.Page{}, err
	}
	ctx, cancel, err := s.call(ctx)
	if err != nil {
		return metadata.Page{}, fmt.Errorf("list %q: %w", key, err)
	}
	defer cancel()
	page, err := read(ctx, s, s.l, func(c *zk.Conn) (metadata.Page, error) { return list(c, key, opts) })
	if err != nil {
		if refused(err) {
			err = condition(err)
		}
		return metadata.Page{}, fmt.Errorf("list %q: %w", key, err)
	}
	return page, nil
}

func list(c *zk.Conn, key string, opts metadata.ListOptions) (metadata.Page, error) {
	if _, err := c.Sync(key); err != nil {
		return metadata.Page{}, err
	}
	names, _, err := c.Children(key)
	if errors.Is(err, zk.ErrNoNode) {
		return metadata.Page{}, nil
	}
	if err != nil {
		return metadata.Page{}, err
	}
	names, more := onPage(key, names, opts)
	nodes := make([]metadata.Node, len(names))
	err = each(len(names), func(i int) error {
		n, err := readChild(c, metadata.Child(key, names[i]), opts.KeysOnly)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		nodes[i] = n
		return err
	})
	if err != nil {
		return metadata.Page{}, err
	}
	page := metadata.Page{Nodes: slices.DeleteFunc(nodes, func(n metadata.Node) bool { return n.Key == "" }), More: more}
	if more {
		page.Next = names[len(names)-1]
	}
	return page, nil
}

// onPage gives the names that belong on a page, in order, and whether there are
// more.
func onPage(key string, names []string, opts metadata.ListOptions) (page []string, more bool) {
	if opts.Limit <= 0 {
		opts.Limit = metadata.DefaultListLimit
	}
	after := strings.TrimSuffix(opts.After, "/")
	names = slices.DeleteFunc(names, func(n string) bool {
		return after != "" && n <= after || metadata.Child(key, n) == reserved
	})
	slices.Sort(names)
	if len(names) > opts.Limit {
		return names[:opts.Limit], true
	}
	return names, false
}

func readChild(c *zk.Conn, key string, keysOnly bool) (metadata.Node, error) {
	if keysOnly {
		ok, stat, err := c.Exists(key)
		if err == nil && !ok {
			err = zk.ErrNoNode
		}
		if err != nil {
			return metadata.Node{}, err
		}
		return nodeOf(key, nil, stat), nil
	}
	value, stat, err := c.Get(key)
	if err != nil {
		return metadata.Node{}, err
	}
	return nodeOf(key, value, stat), nil
}

// each calls f for 0 to n-1, some at once, until one fails.
func each(n int, f func(i int) error) error {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex // guards what follows
		next   int
		failed error
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, failed == nil && next <= n
	}
	for range min(n, inFlight) {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := f(i); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return failed
}
