package zkstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
)

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

// Defaults of Options.
const (
	sessionTimeout = 6 * time.Second
	dialTimeout    = 5 * time.Second
	requestTimeout = 5 * time.Second
)

// Store is one client of a ZooKeeper ensemble.
type Store struct {
	opts   Options
	log    *zap.Logger
	l      *link
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex // guards what follows
	closed   bool
	sessions map[metadata.SessionID]*session
	triggers map[point]*trigger
}

var _ metadata.Store = (*Store)(nil)

// Open connects and waits for a first session, at most Options.DialTimeout;
// metadata.ErrUnavailable if none comes.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.SessionTimeout == 0 {
		opts.SessionTimeout = sessionTimeout
	}
	if opts.DialTimeout == 0 {
		opts.DialTimeout = dialTimeout
	}
	if opts.RequestTimeout == 0 {
		opts.RequestTimeout = requestTimeout
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	s := &Store{
		opts: opts, log: opts.Logger.Named("zkstore"),
		sessions: map[metadata.SessionID]*session{}, triggers: map[point]*trigger{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.l = newLink(opts, opts.SessionTimeout, s.log)
	s.l.renew, s.l.event, s.l.onUp = true, s.fire, s.fireAll
	s.l.start()
	dctx, cancel := context.WithTimeout(ctx, opts.DialTimeout)
	defer cancel()
	if _, err := s.l.use(dctx); err != nil {
		s.cancel()
		s.l.abandon()
		return nil, fmt.Errorf("zookeeper at %v: %w", opts.Servers, err)
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

// Get is metadata.Store.Get: a sync, then a read on the same connection.
func (s *Store) Get(ctx context.Context, key string) (metadata.Node, error) {
	if err := validKey(key); err != nil {
		return metadata.Node{}, err
	}
	ctx, cancel, err := s.call(ctx)
	if err != nil {
		return metadata.Node{}, fmt.Errorf("get %q: %w", key, err)
	}
	defer cancel()
	n, err := read(ctx, s, s.l, func(c *zk.Conn) (metadata.Node, error) {
		if _, err := c.Sync(key); err != nil {
			return metadata.Node{}, err
		}
		value, stat, err := c.Get(key)
		if err != nil {
			return metadata.Node{}, err
		}
		return nodeOf(key, value, stat), nil
	})
	if key == "/" && err == nil {
		err = zk.ErrNoNode // the root has no value
	}
	if err != nil {
		if refused(err) {
			err = condition(err)
		}
		return metadata.Node{}, fmt.Errorf("get %q: %w", key, err)
	}
	return n, nil
}

// containerOwner is what ZooKeeper puts in place of an owner of a node that is
// not a session's, but goes when it is empty.
const containerOwner = math.MinInt64

func nodeOf(key string, value []byte, stat *zk.Stat) metadata.Node {
	n := metadata.Node{
		Key: key, Value: value, Version: versionOf(stat.Version), Writes: int64(stat.Version) + 1,
		Session: metadata.SessionID(stat.EphemeralOwner),
	}
	if n.Session == containerOwner {
		n.Session = 0
	}
	return n
}

// versionOf makes a version of a znode's data version: 0 means none.
func versionOf(v int32) metadata.Version { return metadata.Version(v) + 1 }

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
	for _, h := range s.sessions {
		open = append(open, h)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var ends sync.WaitGroup
	for _, h := range open {
		ends.Go(func() {
			if err := h.Close(ctx); err != nil {
				s.log.Warn("session not ended, it goes with its TTL", zap.Error(err))
			}
		})
	}
	ends.Wait()
	s.cancel()
	if err := s.l.finish(ctx); err != nil {
		s.log.Debug("own session not ended, it goes with its timeout", zap.Error(err))
	}
	s.wg.Wait()
	return nil
}
