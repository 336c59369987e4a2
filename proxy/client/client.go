package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// Client routes calls to proxies. Any number of goroutines may use it. Its one
// goroutine of its own follows the members; connections have theirs.
type Client struct {
	o     Options
	store metadata.Store
	root  string
	log   *zap.Logger
	stats *stats

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	shards map[int]string
	ring   *ring
	owners map[stream.Name]string // host:port
	down   map[string]time.Time   // hosts that failed, and until when
	conns  map[string]*link
	closed bool
}

// link is a connection to a host, or the attempt to get one.
type link struct {
	done chan struct{} // closed when conn or err is set
	conn *wire.Conn
	err  error
}

// Open reads the members of the namespace whose key in the store is root, and
// follows them. The store stays the caller's to close, after the client.
func Open(ctx context.Context, store metadata.Store, root string, o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	st, err := newStats(o.Registerer)
	if err != nil {
		return nil, err
	}
	c := &Client{
		o: o, store: store, root: root, log: o.Logger.Named("proxyclient"), stats: st,
		shards: map[int]string{}, ring: newRing(nil), owners: map[stream.Name]string{},
		down: map[string]time.Time{}, conns: map[string]*link{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	w, err := store.Watch(c.ctx, wire.MembersKey(root), metadata.WatchChildren)
	if err != nil {
		c.cancel()
		return nil, fmt.Errorf("watch proxies of %s: %w", root, err)
	}
	if err := c.readMembers(ctx); err != nil {
		c.cancel()
		return nil, err
	}
	c.wg.Go(func() { c.follow(w) })
	return c, nil
}

// follow reads the members again after each change.
func (c *Client) follow(w metadata.Watch) {
	retry := time.NewTimer(time.Hour)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case _, ok := <-w.C():
			if !ok {
				return
			}
		case <-retry.C:
		case <-c.ctx.Done():
			return
		}
		if err := c.readMembers(c.ctx); err != nil && c.ctx.Err() == nil {
			c.log.Info("members not read", zap.Error(err))
			retry.Reset(time.Second)
		}
	}
}

// readMembers sets the ring. A shard that is gone stays until another address
// takes its number or a connection to it fails: members flap.
func (c *Client) readMembers(ctx context.Context) error {
	found := map[int]string{}
	next := -1 // members without a number
	for n, err := range metadata.Children(ctx, c.store, wire.MembersKey(c.root), metadata.ListOptions{}) {
		if err != nil {
			return fmt.Errorf("read proxies of %s: %w", c.root, err)
		}
		if !wire.IsMember(n.Key) {
			continue
		}
		m, err := wire.ParseMember(n.Value)
		if err != nil {
			c.log.Info("odd member", zap.String("key", n.Key), zap.Error(err))
			continue
		}
		if m.Shard < 0 {
			m.Shard, next = next, next-1
		}
		found[m.Shard] = m.Endpoint().Addr()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(c.shards)
	for shard, addr := range all {
		if _, ok := found[shard]; !ok && (shard < 0 || c.isDown(addr)) {
			delete(all, shard)
		}
	}
	maps.Copy(all, found)
	for _, addr := range found { // it is back
		delete(c.down, addr)
	}
	if !maps.Equal(all, c.shards) {
		c.shards, c.ring = all, newRing(all)
	}
	return nil
}

// isDown reports a host that failed lately. Called with c.mu held.
func (c *Client) isDown(addr string) bool { return time.Now().Before(c.down[addr]) }

// Owner is the "host:port" of the proxy that is taken for the stream's owner,
// "" while none is.
func (c *Client) Owner(name stream.Name) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owners[name]
}

func (c *Client) setOwner(name stream.Name, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if addr == "" {
		delete(c.owners, name)
	} else {
		c.owners[name] = addr
	}
}

// forget drops addr as the stream's owner.
func (c *Client) forget(name stream.Name, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners[name] == addr {
		delete(c.owners, name)
	}
}

// hostFailed leaves a host alone for a while and forgets what it owned.
func (c *Client) hostFailed(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down[addr] = time.Now().Add(c.o.Blackout)
	maps.DeleteFunc(c.owners, func(_ stream.Name, a string) bool { return a == addr })
}

// conn gives a connection to a host. One attempt serves all who ask.
func (c *Client) conn(ctx context.Context, addr string) (*wire.Conn, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, fmt.Errorf("proxy client: %w", stream.ErrClosed)
	}
	l := c.conns[addr]
	if l == nil || l.over() {
		l = &link{done: make(chan struct{})}
		c.conns[addr] = l
		c.wg.Go(func() { c.dial(l, addr) })
	}
	c.mu.Unlock()
	select {
	case <-l.done:
		return l.conn, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to proxy %s: %w", addr, ctx.Err())
	}
}

// over reports a link that can serve nobody any more.
func (l *link) over() bool {
	select {
	case <-l.done:
		return l.err != nil || l.conn.Err() != nil
	default:
		return false
	}
}

// dial connects and asks the host what it owns.
func (c *Client) dial(l *link, addr string) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.ConnectTimeout)
	defer cancel()
	nc, err := c.o.Dial(ctx, addr)
	if err != nil {
		l.err = fmt.Errorf("connect to proxy %s: %w", addr, err)
		close(l.done)
		return
	}
	l.conn = wire.NewConn(nc, 0)
	all, yes := ".*", true
	l.conn.Go(&wire.Call{Method: wire.HandshakeWithClientInfo, Client: &wire.ClientInfo{StreamNameRegex: &all, GetOwnerships: &yes}},
		func(r *wire.Reply, err error) {
			if err == nil && r.Info != nil {
				c.learn(addr, r.Info)
			}
		})
	close(l.done)
}

// learn takes what a handshake said.
func (c *Client) learn(addr string, info *wire.ServerInfo) {
	if info.GetServerStatus() == wire.Down {
		c.hostFailed(addr)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, loc := range info.Ownerships {
		if l, err := wire.ParseLocation(loc); err == nil && l.Addr == addr {
			c.owners[stream.Name(name)] = addr
		}
	}
}

// lookUp reads the stream's owner from metadata, "" for nobody.
func (c *Client) lookUp(ctx context.Context, name stream.Name) (string, error) {
	n, err := c.store.Get(ctx, wire.OwnerKey(c.root, string(name)))
	addr := ""
	switch {
	case errors.Is(err, metadata.ErrNotFound):
	case err != nil:
		return "", fmt.Errorf("look up owner of stream %s: %w", name, err)
	default:
		o, err := wire.ParseOwner(n.Value)
		if err != nil {
			return "", fmt.Errorf("look up owner of stream %s: %w", name, err)
		}
		addr = o.Addr
	}
	c.stats.lookUps.Inc()
	if f := c.o.Events.LookedUp; f != nil {
		f(LookedUp{string(name), addr})
	}
	return addr, nil
}

// Close ends the connections. Writers must be closed before.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	links := make([]*link, 0, len(c.conns))
	for _, l := range c.conns {
		links = append(links, l)
	}
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
	var errs []error
	for _, l := range links {
		if l.conn != nil {
			errs = append(errs, l.conn.Close())
		}
	}
	return errors.Join(errs...)
}
