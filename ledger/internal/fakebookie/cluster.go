package fakebookie

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/memstore"
)

// ErrRefused is what a dial of a bookie that is down gives.
var ErrRefused = errors.New("connection refused")

// Cluster is a number of fake bookies over in-memory pipes, registered in a
// metadata store in memory.
type Cluster struct {
	Store   *memstore.Store
	Layout  *layout.Cluster
	Bookies []*Bookie // b0:1, b1:1, ...

	session metadata.Session
	wg      sync.WaitGroup

	mu    sync.Mutex // guards all below
	down  map[bk.BookieID]bool
	conns map[bk.BookieID][]net.Conn
	dials map[bk.BookieID]int
}

// NewCluster makes n bookies and registers them as writable.
func NewCluster(ctx context.Context, n int) (*Cluster, error) {
	c := &Cluster{
		Store: memstore.New(),
		down:  map[bk.BookieID]bool{}, conns: map[bk.BookieID][]net.Conn{}, dials: map[bk.BookieID]int{},
	}
	if _, err := layout.Init(ctx, c.Store, "/bk"); err != nil {
		return nil, err
	}
	var err error
	if c.Layout, err = layout.Open(ctx, c.Store, "/bk"); err != nil {
		return nil, err
	}
	if c.session, err = c.Store.Session(ctx, metadata.SessionOptions{TTL: time.Hour}); err != nil {
		return nil, err
	}
	for range n {
		if err := c.Add(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Add registers one more bookie.
func (c *Cluster) Add(ctx context.Context) error {
	b := New(bk.BookieID(fmt.Sprintf("b%d:1", len(c.Bookies))))
	c.mu.Lock()
	c.Bookies = append(c.Bookies, b)
	c.mu.Unlock()
	return c.Layout.Register(ctx, c.session, b.ID, layout.ServiceInfo{}, layout.Writable)
}

// Bookie gives a bookie by its id.
func (c *Cluster) Bookie(id bk.BookieID) *Bookie {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.Bookies {
		if b.ID == id {
			return b
		}
	}
	return nil
}

// Dial connects to a bookie; its address is its id.
func (c *Cluster) Dial(_ context.Context, addr string) (net.Conn, error) {
	id := bk.BookieID(addr)
	b := c.Bookie(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dials[id]++
	if b == nil || c.down[id] {
		return nil, fmt.Errorf("dial %s: %w", addr, ErrRefused)
	}
	client, server := net.Pipe()
	c.conns[id] = append(c.conns[id], server)
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		b.Serve(server)
	}()
	return client, nil
}

// Dials counts the dials of a bookie.
func (c *Cluster) Dials(id bk.BookieID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials[id]
}

// SetDown cuts the bookie's connections and refuses new ones, or ends that.
func (c *Cluster) SetDown(id bk.BookieID, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down[id] = down
	if down {
		c.cut(id)
	}
}

// Cut closes the bookie's connections; new ones are taken.
func (c *Cluster) Cut(id bk.BookieID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut(id)
}

func (c *Cluster) cut(id bk.BookieID) {
	for _, conn := range c.conns[id] {
		conn.Close()
	}
	delete(c.conns, id)
}

// Close ends all connections and the store.
func (c *Cluster) Close() error {
	c.mu.Lock()
	for id := range c.conns {
		c.cut(id)
	}
	c.mu.Unlock()
	c.wg.Wait()
	return c.Store.Close()
}
