package namespace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/segment"
	"github.com/loglode/loglode/stream"
)

// Namespace is an open namespace of streams. Any number of goroutines may use
// it. It starts one goroutine, when a first writer starts a segment: the one
// that applies retention. Close waits for it.
type Namespace struct {
	at      location
	binding Binding
	opts    options
	log     *zap.Logger

	store   metadata.Store
	closers []func() error // what Open opened, in that order
	cluster *layout.Cluster
	ledgers *ledger.Client
	tree    *segment.Tree
	purger  purger
}

func newOptions(opts []Option) (options, error) {
	o := options{timeout: timeoutDefault}
	for _, opt := range opts {
		opt(&o)
	}
	if o.logger == nil {
		o.logger = zap.NewNop()
	}
	return o, o.validate()
}

// bound gives ctx a deadline if it has none.
func (o *options) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, o.timeout)
}

// Open opens the namespace at a URI: etcd://host:port,host:port/path or
// mem://name/path. It fails with ErrNotNamespace when nothing is bound there,
// and with stream.ErrUnavailable when the metadata servers do not answer by
// ctx's deadline.
func Open(ctx context.Context, uri string, opts ...Option) (*Namespace, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	at, err := parseLocation(uri)
	if err != nil {
		return nil, fmt.Errorf("open namespace: %w", err)
	}
	ctx, cancel := o.bound(ctx)
	defer cancel()
	n := &Namespace{at: at, opts: o, log: o.logger.Named("namespace")}
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open namespace %s: %w", uri, unreachable(err)), n.closeAll())
	}
	return n, nil
}

// unreachable maps an error of the layers below; whatever a deadline cut off
// while the servers did not answer is stream.ErrUnavailable too.
func unreachable(err error) error {
	err = segment.MapError(err)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, stream.ErrUnavailable) {
		return fmt.Errorf("metadata servers did not answer in time: %w: %w", stream.ErrUnavailable, err)
	}
	return err
}

func (n *Namespace) open(ctx context.Context) (err error) {
	if n.store, err = n.dial(ctx, n.at, n.opts.store); err != nil {
		return err
	}
	if n.binding, err = resolveBinding(ctx, n.store, n.at); err != nil {
		return err
	}
	if n.binding.Federated {
		return fmt.Errorf("the namespace is federated: %w", stream.ErrUnsupported)
	}
	cluster, err := n.clusterStore(ctx)
	if err != nil {
		return err
	}
	if n.cluster, err = layout.Open(ctx, cluster, n.binding.ClusterScope); err != nil {
		return fmt.Errorf("cluster %s: %w", n.binding.ClusterScope, err)
	}
	if n.ledgers, err = ledger.New(n.cluster, n.ledgerOptions()); err != nil {
		return err
	}
	n.closers = append(n.closers, n.ledgers.Close)
	n.tree, err = segment.New(segment.Options{
		Store: n.store, Path: n.at.path, Ledgers: n.ledgers, FirstSegment: n.binding.First(), Logger: n.opts.logger,
	})
	n.purger.init(n.log)
	return err
}

// dial opens the store of a location, unless one was injected.
func (n *Namespace) dial(ctx context.Context, at location, injected metadata.Store) (metadata.Store, error) {
	if injected != nil {
		return injected, nil
	}
	s, _, err := dial.Open(ctx, at.String(), dial.Options{Logger: n.opts.logger})
	if err != nil {
		return nil, err
	}
	n.closers = append(n.closers, s.Close)
	return s, nil
}

// clusterStore is where the cluster's metadata is: mostly the same store.
func (n *Namespace) clusterStore(ctx context.Context) (metadata.Store, error) {
	switch {
	case n.opts.cluster != nil:
		return n.opts.cluster, nil
	case n.opts.store != nil || n.binding.ClusterServers == n.at.servers:
		return n.store, nil
	}
	return n.dial(ctx, location{n.at.scheme, n.binding.ClusterServers, n.binding.ClusterScope}, nil)
}

func (n *Namespace) ledgerOptions() ledger.Options {
	lo := n.opts.ledger
	if n.opts.dial != nil {
		lo.Dial = n.opts.dial
	}
	if lo.Logger == nil {
		lo.Logger = n.opts.logger
	}
	if n.opts.registerer != nil {
		lo.Registerer = n.opts.registerer
	}
	return lo
}

// resolveBinding reads the binding at a location, or at the nearest node above
// it that has a value.
func resolveBinding(ctx context.Context, s metadata.Store, at location) (Binding, error) {
	for key := at.path; key != "/"; key, _ = metadata.Split(key) {
		node, err := s.Get(ctx, key)
		if errors.Is(err, metadata.ErrNotFound) {
			continue
		}
		if err != nil {
			return Binding{}, err
		}
		if len(node.Value) == 0 {
			continue
		}
		b, err := ParseBinding(node.Value, at.servers)
		if err != nil {
			return Binding{}, fmt.Errorf("node %s: %w", key, err)
		}
		return b, nil
	}
	return Binding{}, fmt.Errorf("%s: %w", at, ErrNotNamespace)
}

// Binding is what the namespace's node says.
func (n *Namespace) Binding() Binding { return n.binding }

// Store is the metadata store that the namespace is in. It is closed by Close
// unless it was injected.
func (n *Namespace) Store() metadata.Store { return n.store }

// Root is the namespace's key in the store.
func (n *Namespace) Root() string { return n.at.path }

// URI is what the namespace was opened by.
func (n *Namespace) URI() string { return n.at.String() }

// Ledgers is the client of the bookies that keep the streams' segments.
func (n *Namespace) Ledgers() *ledger.Client { return n.ledgers }

// Close ends the namespace's connections. Writers and readers opened through it
// must be closed before.
func (n *Namespace) Close() error {
	n.purger.close()
	return n.closeAll()
}

func (n *Namespace) closeAll() error {
	var errs []error
	for i := len(n.closers) - 1; i >= 0; i-- {
		errs = append(errs, n.closers[i]())
	}
	n.closers = nil
	return segment.MapError(errors.Join(errs...))
}

// recoverTimeout bounds a takeover whose context has no deadline: a recovery
// may have to wait for bookies to time out.
func (n *Namespace) recoverTimeout() time.Duration { return 3 * n.opts.timeout }
