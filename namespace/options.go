package namespace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
)

// Conditions of a namespace itself; those of its streams are in package stream.
var (
	// ErrNotNamespace: no node from the URI's path up is bound to a cluster.
	ErrNotNamespace = errors.New("not a namespace of streams")
	// ErrNoCluster: no cluster of bookies was made at the URI.
	ErrNoCluster = errors.New("no cluster of bookies there")
	// ErrNamespaceExists: the path is bound already.
	ErrNamespaceExists = errors.New("namespace exists")
	// ErrNotEmpty: the namespace still has streams.
	ErrNotEmpty = errors.New("namespace has streams")
	// ErrBadBinding: the namespace node's value cannot be used.
	ErrBadBinding = errors.New("bad namespace binding")
	// ErrInvalidURI: the URI of a namespace or a cluster cannot be used.
	ErrInvalidURI = errors.New("invalid URI")
)

const timeoutDefault = 10 * time.Second

// options is what Options set.
type options struct {
	store      metadata.Store
	cluster    metadata.Store
	dial       func(ctx context.Context, addr string) (net.Conn, error)
	timeout    time.Duration
	logger     *zap.Logger
	registerer prometheus.Registerer
	ledger     ledger.Options
}

// Option changes how a namespace is opened.
type Option func(*options)

// WithStore gives the metadata store to use instead of dialing the URI's
// servers; of the URI only the path counts then. The store stays the caller's
// to close. It also serves the cluster of bookies, unless WithClusterStore
// gives another.
func WithStore(s metadata.Store) Option { return func(o *options) { o.store = s } }

// WithClusterStore gives the metadata store of the cluster of bookies.
func WithClusterStore(s metadata.Store) Option { return func(o *options) { o.cluster = s } }

// WithDialer opens connections to bookies. Default TCP.
func WithDialer(dial func(ctx context.Context, addr string) (net.Conn, error)) Option {
	return func(o *options) { o.dial = dial }
}

// WithTimeout bounds an operation on metadata whose context has no deadline.
// Default 10 s.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithLogger logs state changes. Default none.
func WithLogger(l *zap.Logger) Option { return func(o *options) { o.logger = l } }

// WithRegisterer registers metrics. Default none.
func WithRegisterer(r prometheus.Registerer) Option { return func(o *options) { o.registerer = r } }

// WithLedgerOptions tunes the client of the bookies. Dial, Logger and
// Registerer in it count only where WithDialer, WithLogger and WithRegisterer
// are absent.
func WithLedgerOptions(lo ledger.Options) Option {
	return func(o *options) { o.ledger = lo }
}

func (o *options) validate() error {
	if o.timeout <= 0 {
		return fmt.Errorf("namespace options: timeout %v is not positive", o.timeout)
	}
	return nil
}
