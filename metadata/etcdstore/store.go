package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/loglode/loglode/metadata"
)

// Options set up a Store.
type Options struct {
	Endpoints      []string      // host:port of the members, at least one
	DialTimeout    time.Duration // how long Open waits for a first answer; 0 = 5 s
	RequestTimeout time.Duration // bound of each call whose context has no sooner deadline; 0 = 5 s
	Logger         *zap.Logger   // nil = none
}

// Validate names the field that cannot be used.
func (o Options) Validate() error {
	switch {
	case len(o.Endpoints) == 0:
		return errors.New("etcdstore: Endpoints is empty: want host:port of at least one member")
	case o.DialTimeout < 0:
		return fmt.Errorf("etcdstore: DialTimeout is %v: want 0 or more", o.DialTimeout)
	case o.RequestTimeout < 0:
		return fmt.Errorf("etcdstore: RequestTimeout is %v: want 0 or more", o.RequestTimeout)
	}
	return nil
}

// Keep-alive of the connection: the least interval that an etcd server allows
// by default, and how long it may take to answer. A member that is gone without
// a word is noticed within their sum.
const (
	pingInterval = 5 * time.Second
	pingTimeout  = 3 * time.Second
)

// Store is one client of an etcd cluster.
type Store struct {
	opts   Options
	log    *zap.Logger
	cli    *clientv3.Client
	kv     pb.KVClient // for Txn: its errors still tell what became of the request
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex // guards what follows
	closed   bool
	sessions map[*session]struct{}
}

var _ metadata.Store = (*Store)(nil)

// Open connects and waits for a first answer, at most Options.DialTimeout;
// metadata.ErrUnavailable if none comes.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.DialTimeout == 0 {
		opts.DialTimeout = 5 * time.Second
	}
	if opts.RequestTimeout == 0 {
		opts.RequestTimeout = 5 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	log := opts.Logger.Named("etcdstore")
	cli, err := clientv3.New(clientv3.Config{
		Endpoints:            opts.Endpoints,
		DialKeepAliveTime:    pingInterval,
		DialKeepAliveTimeout: pingTimeout,
		PermitWithoutStream:  true,
		Logger:               log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel)),
		DialOptions: []grpc.DialOption{
			grpc.WithStatsHandler(sentHandler{}),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
				},
				MinConnectTimeout: 2 * time.Second,
			}),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("etcd client for %v: %w", opts.Endpoints, err)
	}
	s := &Store{
		opts: opts, log: log, cli: cli, kv: pb.NewKVClient(cli.ActiveConnection()), sessions: map[*session]struct{}{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	dctx, cancel := context.WithTimeout(ctx, opts.DialTimeout)
	defer cancel()
	if _, err := cli.Get(dctx, "/", clientv3.WithKeysOnly()); err != nil {
		err = readError(dctx, err)
		return nil, errors.Join(fmt.Errorf("etcd at %v: %w", opts.Endpoints, err), s.Close())
	}
	return s, nil
}

// call bounds a call by RequestTimeout and refuses it on a closed store.
func (s *Store) call(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.ctx.Err() != nil {
		return nil, nil, metadata.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", metadata.ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	return ctx, cancel, nil
}

// start runs f in a goroutine that Close waits for.
func (s *Store) start(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return metadata.ErrClosed
	}
	s.wg.Go(f)
	return nil
}

// Get is metadata.Store.Get, a linearizable read.
func (s *Store) Get(ctx context.Context, key string) (metadata.Node, error) {
	if err := metadata.ValidKey(key); err != nil {
		return metadata.Node{}, err
	}
	ctx, cancel, err := s.call(ctx)
	if err != nil {
		return metadata.Node{}, fmt.Errorf("get %q: %w", key, err)
	}
	defer cancel()
	resp, err := s.cli.Get(ctx, key)
	if err != nil {
		return metadata.Node{}, fmt.Errorf("get %q: %w", key, readError(ctx, err))
	}
	if len(resp.Kvs) == 0 {
		return metadata.Node{}, fmt.Errorf("get %q: %w", key, metadata.ErrNotFound)
	}
	return nodeOf(resp.Kvs[0]), nil
}

func nodeOf(kv *mvccpb.KeyValue) metadata.Node {
	return metadata.Node{
		Key: string(kv.Key), Value: kv.Value, Version: metadata.Version(kv.ModRevision),
		Writes: kv.Version, Session: metadata.SessionID(kv.Lease),
	}
}

// closeTimeout bounds how long Close tries to end sessions at the server. What
// it cannot end goes with its TTL.
const closeTimeout = 2 * time.Second

// Close is metadata.Store.Close. It ends the sessions at the server as far as
// that answers soon.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	open := make([]*session, 0, len(s.sessions))
	for h := range s.sessions {
		open = append(open, h)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, h := range open {
		if err := h.Close(ctx); err != nil {
			s.log.Warn("session not ended, it goes with its TTL", zap.Error(err))
		}
	}
	s.cancel()
	s.wg.Wait()
	if err := s.cli.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close etcd client: %w", err)
	}
	return nil
}

// readError names the failure of a request that changes nothing.
func readError(ctx context.Context, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		err = ctxErr
	}
	return fmt.Errorf("%w: %w", metadata.ErrUnavailable, err)
}

// writeError names the failure of a request that may have changed something.
func writeError(ctx context.Context, sent bool, err error) error {
	if errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) {
		return &metadata.TxnError{Index: -1, Err: metadata.ErrSessionLost}
	}
	if !sent {
		return readError(ctx, err)
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange,
		codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
		return fmt.Errorf("etcd refused: %w", err) // for good
	case codes.ResourceExhausted:
		return fmt.Errorf("%w: etcd refused: %w", metadata.ErrUnavailable, err) // too busy, or no space left
	default:
		if ctxErr := ctx.Err(); ctxErr != nil {
			err = ctxErr
		}
		return fmt.Errorf("%w: %w", metadata.ErrUnknownOutcome, err)
	}
}
