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

// conn is one connection of a session, with a ZooKeeper client of its own: that
// client's way of connecting again is not used, as it sets watches again while
// requests are on their way already, and cannot say what it has sent.
type conn struct {
	*zk.Conn
	w    *wire
	up   chan struct{} // closed when the session is established
	down chan struct{} // closed when the connection has ended
	idle chan struct{} // closed when the client would try to connect again
	ends <-chan zk.Event

	downOnce sync.Once
}

// connect makes a connection for the session of id, a new session if that has
// none. It calls event for each watch event, in a goroutine of the client.
// errExpired if the server does not know the session any more.
func connect(ctx context.Context, server string, timeout time.Duration, id identity, log *zap.Logger, event func(zk.Event)) (*conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	c := &conn{w: newWire(nc, id), up: make(chan struct{}), down: make(chan struct{}), idle: make(chan struct{})}
	expired := make(chan struct{})
	unused := make(chan net.Conn, 1)
	unused <- c.w
	dial := func(string, string, time.Duration) (net.Conn, error) {
		select {
		case nc := <-unused:
			return nc, nil
		default:
			return nil, errNoConn
		}
	}
	c.Conn, c.ends, err = zk.Connect([]string{server}, timeout, zk.WithDialer(dial), zk.WithHostProvider(&once{server: server, idle: c.idle}),
		zk.WithLogInfo(false), zk.WithLogger(quiet{log}), zk.WithEventCallback(func(ev zk.Event) {
			switch {
			case ev.Type > 0:
				event(ev)
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
		if err = c.settle(ctx); err == nil {
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
	c.discard()
	return nil, err
}

// settle makes a first round trip. The client sets the watches of earlier
// connections as its first act, of which there are none; no watch may come in
// before it has looked.
func (c *conn) settle(ctx context.Context) error {
	answer := make(chan error, 1)
	go func() {
		_, err := c.Sync("/")
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		c.w.cut()
		<-answer
		return ctx.Err()
	}
}

// discard breaks the connection, leaves the session alone and waits for the
// client's goroutines. A client that is closed before it wants to connect again
// would take a second for it.
func (c *conn) discard() {
	c.w.cut()
	for {
		select {
		case <-c.idle:
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

// once is a zk.HostProvider for one attempt: after it the client waits to be
// closed.
type once struct {
	server string
	idle   chan struct{}
	tries  int
}

func (*once) Init([]string) error { return nil }
func (*once) Len() int            { return 1 }
func (*once) Connected()          {}
func (o *once) Next() (string, bool) {
	o.tries++
	if o.tries == 2 {
		close(o.idle)
	}
	return o.server, o.tries > 1
}

// quiet passes what the client says on at debug level: what matters of it is
// logged here.
type quiet struct{ log *zap.Logger }

func (q quiet) Printf(format string, args ...any) {
	if q.log.Core().Enabled(zap.DebugLevel) {
		q.log.Debug(fmt.Sprintf(format, args...))
	}
}
