package zkstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
)

// Spacing of attempts to connect, and how long one may take at most.
const (
	retryMin       = 20 * time.Millisecond
	retryMax       = time.Second
	connectTime    = 2 * time.Second
	connectTimeMin = 100 * time.Millisecond
	timeoutParts   = 10 // retries of a session are at most this part of its timeout apart
	closeAttempts  = 3  // a session's end is asked for at most this often on broken connections
)

// link is one ZooKeeper session over one connection after another. Its
// goroutine connects; each connection that is over is cleaned up by another.
type link struct {
	servers []string
	timeout time.Duration // as asked for
	renew   bool          // begin a new session when one has expired
	log     *zap.Logger
	event   func(zk.Event) // watch events; called by the client's goroutine
	onUp    func()         // after each new connection; called by the link's goroutine
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	done    chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex // guards what follows
	cur   *conn      // nil while there is none
	moved chan struct{}
	id    identity
	ttl   time.Duration // as granted
	alive time.Time     // since when nothing was heard of the session; 0 before the first connection
	over  bool          // the server has ended the session as it was asked to
	err   error         // why it ended
}

func newLink(o Options, timeout time.Duration, log *zap.Logger) *link {
	l := &link{
		servers: append([]string(nil), o.Servers...), timeout: timeout, log: log,
		event: func(zk.Event) {}, onUp: func() {}, done: make(chan struct{}), moved: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	rand.Shuffle(len(l.servers), func(i, j int) { l.servers[i], l.servers[j] = l.servers[j], l.servers[i] })
	return l
}

// start is called once.
func (l *link) start() { go l.run() }

func (l *link) run() {
	wait := retryMin
	for i := 0; ; i++ {
		c, err := l.connect(l.servers[i%len(l.servers)])
		switch {
		case l.ctx.Err() != nil:
			if c != nil {
				l.drop(c)
			}
			l.end(metadata.ErrClosed)
			return
		case err == nil:
			wait = retryMin
			l.set(c)
			l.onUp()
			l.follow(c)
			l.set(nil)
			l.drop(c)
		case errors.Is(err, errExpired):
			l.log.Warn("session expired", zap.Int64("session", l.identity().session))
			l.forget()
		default:
			l.log.Debug("no connection", zap.String("server", l.servers[i%len(l.servers)]), zap.Error(err))
		}
		if l.lost(errors.Is(err, errExpired)) {
			l.end(metadata.ErrSessionLost)
			return
		}
		if err != nil && !errors.Is(err, errExpired) {
			l.pause(wait)
			wait = min(wait*2, retryMax, max(retryMin, l.timeout/timeoutParts))
		}
	}
}

// pause waits about d, or until the link is closed.
func (l *link) pause(d time.Duration) {
	if end := l.deadline(); !end.IsZero() {
		d = max(min(d, time.Until(end)), time.Millisecond)
	}
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.ctx.Done():
	}
}

func (l *link) connect(server string) (*conn, error) {
	limit := time.Now().Add(min(connectTime, max(l.timeout/3, connectTimeMin)))
	if end := l.deadline(); !end.IsZero() && end.Before(limit) {
		limit = end
	}
	ctx, cancel := context.WithDeadline(l.ctx, limit)
	defer cancel()
	return l.dial(ctx, server)
}

// follow waits until c has ended, or its session, as far as this process's
// clock can tell.
func (l *link) follow(c *conn) {
	if l.renew {
		select {
		case <-c.down:
		case <-l.ctx.Done():
		}
		return
	}
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-c.down:
			return
		case <-l.ctx.Done():
			return
		case <-t.C:
		}
		_, ttl, alive := c.w.state()
		left := time.Until(alive.Add(ttl))
		if left <= 0 {
			return
		}
		t.Reset(left)
	}
}

// deadline is when the session is given up, 0 if never.
func (l *link) deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renew || l.alive.IsZero() {
		return time.Time{}
	}
	return l.alive.Add(l.ttl)
}

// lost says whether the session is over for good. A link that renews has none
// that matters, unless it was closed.
func (l *link) lost(expired bool) bool {
	end := l.deadline()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over || expired && !l.renew || !end.IsZero() && !time.Now().Before(end)
}

// set makes c the connection to use; nil takes the last one away and keeps what
// it knew of the session.
func (l *link) set(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := c
	if c == nil {
		from = l.cur
	}
	l.id, l.ttl, l.alive = from.w.state()
	l.over = from.w.over()
	l.cur = c
	close(l.moved)
	l.moved = make(chan struct{})
}

// forget makes the next session a new one.
func (l *link) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id = identity{}
}

func (l *link) identity() identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

func (l *link) end(err error) {
	l.mu.Lock()
	l.err = err
	close(l.moved)
	l.moved = make(chan struct{})
	l.mu.Unlock()
	l.cancel()
	close(l.done)
}

// drop cleans a connection up.
func (l *link) drop(c *conn) {
	c.w.cut()
	l.wg.Go(c.discard)
}

// use gives a connection, when there is one. It fails with
// metadata.ErrUnavailable when ctx ends before, with metadata.ErrSessionLost or
// metadata.ErrClosed when there will be none.
func (l *link) use(ctx context.Context) (*conn, error) {
	for {
		l.mu.Lock()
		c, moved, err := l.cur, l.moved, l.err
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if c != nil && !c.ended() {
			return c, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: no connection: %w", metadata.ErrUnavailable, ctx.Err())
		}
	}
}

// abandon lets go of the session without ending it.
func (l *link) abandon() {
	l.cancel()
	<-l.done
	l.wg.Wait()
}

// finish ends the session at the server and then the link. A session that is
// over already is success.
func (l *link) finish(ctx context.Context) error {
	defer l.abandon()
	var last error
	for range closeAttempts {
		c, err := l.use(ctx)
		if errors.Is(err, metadata.ErrSessionLost) {
			return nil
		}
		if err != nil {
			return err
		}
		closed := make(chan struct{})
		l.wg.Go(func() {
			c.Close()
			close(closed)
		})
		select {
		case <-closed:
		case <-ctx.Done():
			c.w.cut()
		}
		if c.w.over() {
			return nil
		}
		last = fmt.Errorf("end session %x: %w", l.identity().session, metadata.ErrUnknownOutcome)
		c.w.cut()
	}
	return last
}
