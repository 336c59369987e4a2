package ledger

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

// Fixed limits of a client.
const (
	backoffMin = 20 * time.Millisecond
	backoffMax = 500 * time.Millisecond
)

// Client talks to the bookies of one cluster. Any number of goroutines may use
// it.
//
// Goroutines: the connections' (see internal/conn), one that watches the list
// of bookies while there are writers, one per ensemble change in flight, one
// per open reader that follows its ledger's metadata. Close waits for them.
type Client struct {
	cluster *layout.Cluster
	store   metadata.Store // to close; nil if it is the caller's
	opts    Options
	pool    *conn.Pool
	metrics *metrics
	start   time.Time
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	waiters sync.Pool // *waiter
	places  places
	hedges  hedges

	mu       sync.Mutex // guards all below
	rng      *mathrand.Rand
	writers  map[*Writer]struct{}
	readers  map[*Reader]struct{}
	watching bool
	closed   bool
}

// New makes a client of a cluster. The cluster's store stays the caller's.
func New(cluster *layout.Cluster, opts Options) (*Client, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	opts.Logger = opts.Logger.Named("ledger")
	m, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, fmt.Errorf("ledger metrics: %w", err)
	}
	c := &Client{
		cluster: cluster, opts: opts, metrics: m, start: time.Now(),
		writers: map[*Writer]struct{}{}, readers: map[*Reader]struct{}{},
	}
	seed := opts.Seed
	if seed == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails, by its documentation
		seed = binary.LittleEndian.Uint64(b[:])
	}
	c.rng = mathrand.New(mathrand.NewPCG(seed, seed))
	c.ctx, c.cancel = context.WithCancel(context.Background())
	tick := min(opts.AddTimeout, opts.ReadTimeout) / 16
	c.pool = conn.NewPool(conn.Options{
		Dial: opts.Dial, Resolve: cluster.Resolve, DialTimeout: opts.DialTimeout,
		Tick:       min(max(tick, time.Millisecond), 250*time.Millisecond),
		QueueBytes: int(opts.QueueBytes), StallTimeout: opts.AddTimeout,
		BackoffMin: backoffMin, BackoffMax: backoffMax, Logger: opts.Logger,
	})
	return c, nil
}

// Cluster is the metadata of the cluster that the client uses.
func (c *Client) Cluster() *layout.Cluster { return c.cluster }

// Close fails what is still in flight and waits for the client's goroutines.
// Writers and readers that are still open end as by Abort.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	var writers []*Writer
	for w := range c.writers {
		writers = append(writers, w)
	}
	var readers []*Reader
	for r := range c.readers {
		readers = append(readers, r)
	}
	c.mu.Unlock()
	var errs []error
	for _, w := range writers {
		errs = append(errs, w.Abort())
	}
	for _, r := range readers {
		errs = append(errs, r.Close())
	}
	c.cancel()
	c.pool.Close()
	c.wg.Wait()
	if c.store != nil {
		errs = append(errs, c.store.Close())
	}
	return errors.Join(errs...)
}

// enter counts a goroutine of the client in; false once it is closed.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Add(1)
	return true
}

// Delete removes a ledger's metadata; bookies drop the entries by their own
// garbage collection. Deleting a ledger that does not exist is success, so that
// a delete whose outcome is not known can be repeated (rule 24).
func (c *Client) Delete(ctx context.Context, id bk.LedgerID) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if err := c.cluster.DeleteLedger(ctx, id); err != nil && !errors.Is(err, bk.ErrNoSuchLedger) {
		return fmt.Errorf("delete ledger %d: %w", id, timedOut(ctx, err))
	}
	return nil
}

// List gives the ids of all ledgers of the cluster in ascending order. It ends
// after the first error.
func (c *Client) List(ctx context.Context) iter.Seq2[bk.LedgerID, error] {
	return c.cluster.Ledgers(ctx)
}

// Metadata reads what the store holds of a ledger.
func (c *Client) Metadata(ctx context.Context, id bk.LedgerID) (*layout.LedgerMetadata, error) {
	m, _, err := c.cluster.Ledger(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("metadata of ledger %d: %w", id, err)
	}
	return m, nil
}

// avoid says which bookies to use last for new entries: they failed a short
// while ago (rule 52).
func (c *Client) avoid(id bk.BookieID) bool { return c.pool.Bookie(id).Quarantined() }

// lookEvery is how often writers that go on with a failed bookie look for
// another though no change of the list was signalled: a watch can be deaf.
const lookEvery = 30 * time.Second

// watchBookies tells writers that go on with a failed bookie when the list of
// bookies changes. It runs from the first Create on.
func (c *Client) watchBookies() {
	defer c.wg.Done()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for c.ctx.Err() == nil {
		watch, err := c.cluster.WatchBookies(c.ctx)
		if err == nil {
			c.follow(watch.C(), look.C)
		}
		select {
		case <-c.ctx.Done():
		case <-time.After(backoffMin):
		}
	}
}

// follow passes signals on until the watch ends.
func (c *Client) follow(changed <-chan struct{}, look <-chan time.Time) {
	for {
		select {
		case _, ok := <-changed:
			if !ok {
				return
			}
		case <-look:
		}
		for _, w := range c.openWriters() {
			w.bookiesChanged()
		}
	}
}

func (c *Client) openWriters() []*Writer {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*Writer, 0, len(c.writers))
	for w := range c.writers {
		out = append(out, w)
	}
	return out
}
