package memstore

import (
	"context"

	"github.com/loglode/loglode/metadata"
)

type watchKey struct {
	key   string
	scope metadata.WatchScope
}

// watch is guarded by the mutex of its tree, all but its channel.
type watch struct {
	at    watchKey
	store *Store
	c     chan struct{}
	err   error // why it ended, nil while it runs
	stop  func() bool
}

func (w *watch) C() <-chan struct{} { return w.c }

func (w *watch) Err() error {
	w.store.tree.mu.Lock()
	defer w.store.tree.mu.Unlock()
	return w.err
}

// signal is called with the tree's mutex held.
func (w *watch) signal() {
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// end is called with the tree's mutex held.
func (w *watch) end(err error) {
	if w.err != nil {
		return
	}
	w.err = err
	t := w.store.tree
	delete(t.watches[w.at], w)
	if len(t.watches[w.at]) == 0 {
		delete(t.watches, w.at)
	}
	delete(w.store.watches, w)
	close(w.c)
}

// notify signals the watches that a change of key concerns.
func (t *Tree) notify(key string) {
	for w := range t.watches[watchKey{key, metadata.WatchNode}] {
		w.signal()
	}
	parent, _ := metadata.Split(key)
	for w := range t.watches[watchKey{parent, metadata.WatchChildren}] {
		w.signal()
	}
}

// Watch is metadata.Store.Watch.
func (s *Store) Watch(ctx context.Context, key string, scope metadata.WatchScope) (metadata.Watch, error) {
	if err := metadata.ValidKey(key); err != nil {
		return nil, err
	}
	t := s.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	w := &watch{at: watchKey{key, scope}, store: s, c: make(chan struct{}, 1)}
	if t.watches[w.at] == nil {
		t.watches[w.at] = map[*watch]struct{}{}
	}
	t.watches[w.at][w] = struct{}{}
	s.watches[w] = struct{}{}
	w.signal()
	w.stop = context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		w.end(ctx.Err())
	})
	return w, nil
}
