package memstore

import (
	"context"
	"fmt"

	"github.com/loglode/loglode/metadata"
)

// Store is one client of a Tree.
type Store struct {
	tree *Tree
	// guarded by tree.mu
	sessions map[*session]struct{}
	watches  map[*watch]struct{}
	shut     bool
}

var _ metadata.Store = (*Store)(nil)

// New gives the only client of a new tree.
func New() *Store { return NewTree().Open() }

// Tree is the tree this is a client of.
func (s *Store) Tree() *Tree { return s.tree }

// usable is called with the mutex held.
func (s *Store) usable(ctx context.Context) error {
	if s.shut {
		return metadata.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrUnavailable, err)
	}
	return nil
}

// Get is metadata.Store.Get.
func (s *Store) Get(ctx context.Context, key string) (metadata.Node, error) {
	if err := metadata.ValidKey(key); err != nil {
		return metadata.Node{}, err
	}
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return metadata.Node{}, fmt.Errorf("get %q: %w", key, err)
	}
	n := s.tree.find(key)
	if n == nil || !n.exists {
		return metadata.Node{}, fmt.Errorf("get %q: %w", key, metadata.ErrNotFound)
	}
	return n.public(key, false), nil
}

// List is metadata.Store.List.
func (s *Store) List(ctx context.Context, key string, opts metadata.ListOptions) (metadata.Page, error) {
	if err := metadata.ValidKey(key); err != nil {
		return metadata.Page{}, err
	}
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return metadata.Page{}, fmt.Errorf("list %q: %w", key, err)
	}
	return s.tree.list(key, opts), nil
}

// Txn is metadata.Store.Txn. Its outcome is always known.
func (s *Store) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	for i, op := range ops {
		if err := metadata.ValidOp(op); err != nil {
			return metadata.Result{}, &metadata.TxnError{Index: i, Key: op.Key, Err: err}
		}
	}
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return metadata.Result{}, err
	}
	return s.tree.txn(ops)
}

// Close ends this client's watches and sessions; the nodes of the sessions go.
func (s *Store) Close() error {
	s.shutdown(s.tree.expire)
	return nil
}

// Crash ends this client as kill -9 would: its sessions live on until their
// TTL is over. Calls fail with metadata.ErrClosed from then on.
func (s *Store) Crash() { s.shutdown(s.tree.abandon) }

func (s *Store) shutdown(end func(*session)) {
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	if s.shut {
		return
	}
	s.shut = true
	for ses := range s.sessions {
		end(ses)
	}
	for w := range s.watches {
		w.stop()
		w.end(metadata.ErrClosed)
	}
}
