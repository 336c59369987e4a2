package zkstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
)

var (
	errExpired = errors.New("zkstore: the server says the session has expired")
	errNoConn  = errors.New("zkstore: connection lost")
)

// answerMax bounds one answer: the names of some million children.
const answerMax = 64 << 20

// conn is one connection of a session, with a ZooKeeper client of its own: that
// client's way of connecting again is not used, as it sets watches again while
// requests are on their way already, and cannot say what it has sent.
type conn struct {
	*zk.Conn
	w    *wire
	up   chan struct{} // closed when the session is established
	down chan struct{} // closed when the connection has ended
	idle chan struct{} // closed when the client tries to connect again
	quit chan struct{} // closed to let it go on from there
	ends <-chan zk.Event

	downOnce sync.Once
	idleOnce sync.Once
}

// dial makes a connection for l's session, a new session if it has none.
// errExpired if the server does not know the session any more. What failed is
// left to l to clean up.
func (l *link) dial(ctx context.Context, server string) (*conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	c := &conn{w: newWire(nc, l.identity()), up: make(chan struct{}), down: make(chan struct{}), idle: make(chan struct{}), quit: make(chan struct{})}
	expired := make(chan struct{})
	unused := make(chan net.Conn, 1)
	unused <- c.w
	dial := func(string, string, time.Duration) (net.Conn, error) {
		select {
		case nc := <-unused:
			return nc, nil
		default:
			return nil, c.hold()
		}
	}
	c.Conn, c.ends, err = zk.Connect([]string{server}, l.timeout, zk.WithDialer(dial), zk.WithHostProvider(&once{server: server}),
		zk.WithMaxBufferSize(answerMax), zk.WithLogInfo(false), zk.WithLogger(quiet{l.log}), zk.WithEventCallback(func(ev zk.Event) {
			switch {
			case ev.Type > 0:
				l.event(ev)
			case ev.Type != zk.EventSession:
			case ev.State == zk.StateHasSession:
				close(c.up)
			case ev.State == zk.StateExpired:
				close(expired)
			case ev.State == zk.StateDisconnected:
				c.downOnce.Do(func() { close(c.down) })
			}
		}))
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("zookeeper client for %s: %w", server, err)
	}
	select {
	case <-c.up:
		if err = l.settle(ctx, c); err == nil {
			return c, nil
		}
	case <-expired:
		err = errExpired
	case <-c.down:
		err = errNoConn
		select {
		case <-expired:
			err = errExpired
		default:
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.drop(c)
	return nil, err
}

// settle makes a first round trip. The client sets the watches of earlier
// connections as its first act, of which there are none; no watch may come in
// before it has looked.
func (l *link) settle(ctx context.Context, c *conn) error {
	answer := make(chan error, 1)
	l.wg.Go(func() { // it ends with the connection, at the latest when that is discarded
		_, err := c.Sync("/")
		answer <- err
	})
	select {
	case err := <-answer:
		return err
	case <-c.down:
		return errNoConn
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeGrace is how long hold gives Close to queue its last request.
const closeGrace = 5 * time.Millisecond

// hold keeps the client from connecting again. Its Close queues a request, and
// waits a second if nobody looks at it: in here the client still comes to look.
func (c *conn) hold() error {
	c.idleOnce.Do(func() { close(c.idle) })
	<-c.quit
	t := time.NewTimer(closeGrace)
	<-t.C
	return errNoConn
}

// discard breaks the connection, leaves the session alone and waits for the
// client's goroutines.
func (c *conn) discard() {
	c.w.cut()
	for {
		select {
		case <-c.idle:
			close(c.quit)
			c.Close()
			for range c.ends {
			}
			return
		case _, open := <-c.ends:
			if !open {
				return
			}
		}
	}
}

// ended says whether the connection has ended.
func (c *conn) ended() bool {
	select {
	case <-c.down:
		return true
	default:
		return false
	}
}

// once is a zk.HostProvider for one connection. The second attempt is held, and
// then it says that all servers were tried, which makes the client answer what
// it has not sent and look whether it is closed.
type once struct {
	server string
	tries  int
}

func (*once) Init([]string) error { return nil }
func (*once) Len() int            { return 1 }
func (*once) Connected()          {}
func (o *once) Next() (string, bool) {
	o.tries++
	return o.server, o.tries > 2
}

// quiet passes what the client says on at debug level: what matters of it is
// logged here.
type quiet struct{ log *zap.Logger }

func (q quiet) Printf(format string, args ...any) {
	if q.log.Core().Enabled(zap.DebugLevel) {
		q.log.Debug(fmt.Sprintf(format, args...))
	}
}
