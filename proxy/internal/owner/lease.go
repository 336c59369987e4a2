package owner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/proxy/wire"
)

// Conditions of a lease.
var (
	// ErrLost: the session of this lease is over.
	ErrLost = errors.New("lease of the proxy is lost")
	// ErrShardTaken: another proxy has the shard number.
	ErrShardTaken = errors.New("shard number is another proxy's")
)

// Options of a Lease.
type Options struct {
	Store metadata.Store
	Root  string        // key of the namespace
	Addr  string        // "host:port" where clients reach this proxy
	Shard int           // shard number, -1 = the lowest free one
	TTL   time.Duration // the session's; confirmed three times in it

	// Probe tells whether the proxy at addr is certainly dead. Default: a TCP
	// connection to it is refused.
	Probe  func(ctx context.Context, addr string) bool
	Logger *zap.Logger
}

// Lease is one session of a proxy. Its one goroutine confirms it until it is
// lost or closed.
type Lease struct {
	o       Options
	sess    metadata.Session
	shard   int
	log     *zap.Logger
	until   atomic.Int64 // nanoseconds after born until which the lease counts as held
	born    time.Time
	lost    chan struct{}
	once    sync.Once
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex      // guards member and waiters
	member  string          // key of the membership, "" while there is none
	waiters []func(ok bool) // to be told after the next confirmation
	kick    chan struct{}   // confirm now
}

// Open starts a session and takes a shard number.
func Open(ctx context.Context, o Options) (*Lease, error) {
	if o.Probe == nil {
		o.Probe = Refused
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	born := time.Now()
	sess, err := o.Store.Session(ctx, metadata.SessionOptions{TTL: o.TTL})
	if err != nil {
		return nil, fmt.Errorf("open lease of proxy %s: %w", o.Addr, err)
	}
	l := &Lease{o: o, sess: sess, born: born, log: o.Logger.Named("owner"), lost: make(chan struct{}), kick: make(chan struct{}, 1)}
	if err := l.takeShard(ctx); err != nil {
		return nil, errors.Join(err, sess.Close(context.WithoutCancel(ctx)))
	}
	l.heldFrom(born)
	run, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.wg.Go(func() { l.keep(run) })
	return l, nil
}

// Shard is the proxy's shard number.
func (l *Lease) Shard() int { return l.shard }

// Location is what redirects to this proxy say.
func (l *Lease) Location() wire.Location { return wire.Location{Shard: l.shard, Addr: l.o.Addr} }

// Lost is closed once the lease is known to be lost, or is closed.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Held reports whether the lease was confirmed less than its TTL ago. It costs
// a clock reading.
func (l *Lease) Held() bool {
	select {
	case <-l.lost:
		return false
	default:
		return int64(time.Since(l.born)) < l.until.Load()
	}
}

// Confirmed calls fn once the lease was confirmed by a reading that began after
// this call, or was lost. fn runs on the lease's goroutine, or here if the lease
// is lost already, and must not block.
func (l *Lease) Confirmed(fn func(held bool)) {
	l.mu.Lock()
	select {
	case <-l.lost:
		l.mu.Unlock()
		fn(false)
		return
	default:
	}
	l.waiters = append(l.waiters, fn)
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// Confirm waits until the lease is confirmed. It fails with ErrLost, or when ctx
// ends.
func (l *Lease) Confirm(ctx context.Context) error {
	ch := make(chan bool, 1)
	l.Confirmed(func(held bool) { ch <- held })
	select {
	case held := <-ch:
		if !held {
			return ErrLost
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("confirm lease: %w", ctx.Err())
	}
}

func (l *Lease) heldFrom(t time.Time) { l.until.Store(int64(t.Add(l.o.TTL).Sub(l.born))) }

// keep confirms the lease three times in its TTL, and at once when asked.
func (l *Lease) keep(ctx context.Context) {
	tick := time.NewTicker(max(l.o.TTL/3, time.Millisecond))
	defer tick.Stop()
	defer l.lose()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.sess.Done():
			l.log.Info("lease lost", zap.String("proxy", l.o.Addr))
			return
		case <-tick.C:
		case <-l.kick:
		}
		l.mu.Lock()
		waiting := l.waiters
		l.waiters = nil
		l.mu.Unlock()
		err := l.check(ctx)
		if errors.Is(err, ErrLost) {
			l.mu.Lock()
			l.waiters = append(waiting, l.waiters...)
			l.mu.Unlock()
			l.log.Info("lease lost", zap.String("proxy", l.o.Addr), zap.Error(err))
			return
		}
		if err != nil { // not known: those who wait go on waiting
			l.mu.Lock()
			l.waiters = append(waiting, l.waiters...)
			l.mu.Unlock()
			l.log.Debug("lease not confirmed", zap.Error(err))
			continue
		}
		for _, fn := range waiting {
			fn(true)
		}
	}
}

// check reads a node that dies with the session.
func (l *Lease) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.TTL)
	defer cancel()
	began := time.Now()
	n, err := l.o.Store.Get(ctx, wire.ShardKey(l.o.Root, l.shard))
	if errors.Is(err, metadata.ErrNotFound) || err == nil && n.Session != l.sess.ID() {
		return ErrLost
	}
	if err != nil {
		return err
	}
	l.heldFrom(began)
	return nil
}

// lose marks the lease as lost and tells those who wait.
func (l *Lease) lose() {
	l.once.Do(func() {
		l.mu.Lock()
		close(l.lost)
		waiting := l.waiters
		l.waiters = nil
		l.mu.Unlock()
		for _, fn := range waiting {
			fn(false)
		}
	})
}

// Close ends the session at the store: everything that was held goes at once.
func (l *Lease) Close(ctx context.Context) error {
	l.cancel()
	l.wg.Wait()
	if err := l.sess.Close(ctx); err != nil {
		return fmt.Errorf("close lease of proxy %s: %w", l.o.Addr, err)
	}
	return nil
}

// Abandon lets go without telling the store, as a crash does: others wait for
// the TTL.
func (l *Lease) Abandon() {
	l.cancel()
	l.wg.Wait()
	l.sess.Abandon()
}

// takeShard takes the shard number that was asked for, or the lowest free one.
func (l *Lease) takeShard(ctx context.Context) error {
	if l.o.Shard >= 0 {
		ok, err := l.tryShard(ctx, l.o.Shard)
		if err == nil && !ok {
			err = fmt.Errorf("shard %d: %w", l.o.Shard, ErrShardTaken)
		}
		return err
	}
	for n := 0; ; n++ {
		if ok, err := l.tryShard(ctx, n); ok || err != nil {
			return err
		}
	}
}

func (l *Lease) tryShard(ctx context.Context, n int) (bool, error) {
	key := wire.ShardKey(l.o.Root, n)
	for {
		create := metadata.Create(key, []byte(l.o.Addr)).WithSession(l.sess.ID()).WithParents()
		_, err := l.o.Store.Txn(ctx, create)
		if err == nil {
			l.shard = n
			return true, nil
		}
		if !errors.Is(err, metadata.ErrExists) && !errors.Is(err, metadata.ErrUnknownOutcome) {
			return false, fmt.Errorf("take shard %d: %w", n, err)
		}
		node, err := l.o.Store.Get(ctx, key)
		switch {
		case errors.Is(err, metadata.ErrNotFound):
			continue
		case err != nil:
			return false, fmt.Errorf("take shard %d: %w", n, err)
		case node.Session == l.sess.ID():
			l.shard = n
			return true, nil
		case string(node.Value) != l.o.Addr:
			return false, nil
		}
		// We serve at this address now, so that one of before is gone.
		_, err = l.o.Store.Txn(ctx, metadata.Delete(key, node.Version))
		if err != nil && !changed(err) {
			return false, fmt.Errorf("take shard %d: %w", n, err)
		}
	}
}

// changed reports whether a transaction may go through on newer data.
func changed(err error) bool {
	return errors.Is(err, metadata.ErrExists) || errors.Is(err, metadata.ErrNotFound) ||
		errors.Is(err, metadata.ErrConflict) || errors.Is(err, metadata.ErrUnknownOutcome)
}

// Join lists the proxy among the members.
func (l *Lease) Join(ctx context.Context) error {
	m, err := wire.NewMember(l.o.Addr, l.shard)
	if err != nil {
		return fmt.Errorf("join as %q: %w", l.o.Addr, err)
	}
	val, err := m.Marshal()
	if err != nil {
		return fmt.Errorf("join as %q: %w", l.o.Addr, err)
	}
	op := metadata.Create(wire.MemberKey(l.o.Root), val).WithSession(l.sess.ID()).WithParents().AsSequential()
	res, err := l.o.Store.Txn(ctx, op)
	if err != nil { // a second entry after an unknown outcome does no harm: it is alike
		return fmt.Errorf("join as %q: %w", l.o.Addr, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.member = res.Nodes[0].Key
	return nil
}

// Leave takes the proxy off the list of members.
func (l *Lease) Leave(ctx context.Context) error {
	l.mu.Lock()
	key := l.member
	l.member = ""
	l.mu.Unlock()
	if key == "" {
		return nil
	}
	_, err := l.o.Store.Txn(ctx, metadata.Delete(key, metadata.AnyVersion))
	if err != nil && !errors.Is(err, metadata.ErrNotFound) {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// Refused reports whether a TCP connection to addr is refused: no process
// listens there.
func Refused(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = c.Close() // nothing was sent
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
