package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
)

var (
	errDetached = errors.New("adds detached")
	errOrder    = errors.New("adds out of order")
	errLosing   = errors.New("connection lost")
	errClash    = errors.New("the answer could not be told from that to another request")
)

// Options of a Pool. All fields but Logger are required.
type Options struct {
	Dial        func(ctx context.Context, addr string) (net.Conn, error)
	Resolve     func(ctx context.Context, id bk.BookieID) (addr string, err error)
	DialTimeout time.Duration
	// Tick is the resolution of deadlines.
	Tick time.Duration
	// QueueBytes is the most memory that waits to be sent on one connection, in
	// chunks. Beyond it requests fail with bk.ErrTooManyRequests.
	QueueBytes int
	// StallTimeout is how long a write may make no progress before its
	// connection is given up.
	StallTimeout time.Duration
	BackoffMin   time.Duration // between a dial that failed and the next
	BackoffMax   time.Duration
	Logger       *zap.Logger
}

// Pool is the set of connections of one client.
type Pool struct {
	opts   Options
	start  time.Time
	nextID atomic.Uint64 // v3 transaction ids and v2 request ids: one counter, from 1
	chunks Chunks
	bodies sync.Pool // *[]byte, for the answers to batch reads
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // guards bookies, closed
	bookies map[bk.BookieID]*Bookie
	closed  bool
}

// NewPool starts the goroutine that watches deadlines.
func NewPool(opts Options) *Pool {
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	p := &Pool{opts: opts, start: time.Now(), bookies: map[bk.BookieID]*Bookie{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Add(1)
	go p.watchDeadlines()
	return p
}

// Close closes all connections, fails what is outstanding on them and waits for
// their goroutines.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	bookies := p.all()
	p.mu.Unlock()
	p.cancel()
	for _, b := range bookies {
		for _, l := range b.links {
			l.close()
		}
	}
	p.wg.Wait()
}

// Bookie gives the way to one bookie; nothing is dialled yet.
func (p *Pool) Bookie(id bk.BookieID) *Bookie {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.bookies[id]
	if b == nil {
		b = &Bookie{id: id}
		for proto := range b.links {
			b.links[proto] = newLink(p, b, protocol(proto))
			if p.closed {
				b.links[proto].state = linkClosed
			}
		}
		p.bookies[id] = b
	}
	return b
}

// all lists the bookies. The caller holds mu.
func (p *Pool) all() []*Bookie {
	out := make([]*Bookie, 0, len(p.bookies))
	for _, b := range p.bookies {
		out = append(out, b)
	}
	return out
}

// now is the time since the pool was made.
func (p *Pool) now() time.Duration { return time.Since(p.start) }

// watchDeadlines fails what is overdue, every tick.
func (p *Pool) watchDeadlines() {
	defer p.wg.Done()
	tick := time.NewTicker(p.opts.Tick)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		bookies := p.all()
		p.mu.Unlock()
		now := p.now()
		for _, b := range bookies {
			for _, l := range b.links {
				l.expire(now)
			}
		}
	}
}

// Bookie is one bookie, as seen by one client.
type Bookie struct {
	id    bk.BookieID
	links [2]*link
	health
	batchReads
}

// ID is the bookie's id.
func (b *Bookie) ID() bk.BookieID { return b.id }

// Connect dials the bookie for adds, unless there is a connection. It does not
// wait; what it gives is closed when the dial has ended, well or not.
func (b *Bookie) Connect() <-chan struct{} {
	l := b.links[v2]
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil || l.dialed == nil {
		return closedChan // it ends just now, and is dialled again by its next use
	}
	return l.dialed
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// EpochV3 is Adds.Epoch for the connection for protocol version 3, within the
// Done of a Call that was answered.
func (b *Bookie) EpochV3() uint64 {
	l := b.links[v3]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// Epoch is Adds.Epoch of the connection for adds that is up; 0 if none is.
func (b *Bookie) Epoch() uint64 {
	l := b.links[v2]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != linkUp {
		return 0
	}
	return l.epoch
}

// Start sends a call. If it cannot be sent, Done is called before Start returns.
func (b *Bookie) Start(c *Call) {
	if err := b.Queue(c); err != nil {
		c.finish(err)
		return
	}
	b.link(c).flush()
}

// Queue queues a call for the connection's writer goroutine, or says why it
// cannot be sent; Done is not called then.
func (b *Bookie) Queue(c *Call) error {
	c.Bookie = b
	c.MaxLAC = bk.InvalidEntryID
	return b.link(c).start(c)
}

// Kick has the writer goroutine send what Queue queued for protocol version 3.
func (b *Bookie) Kick() { b.links[v3].kick() }

func (b *Bookie) link(c *Call) *link {
	if c.v2() {
		return b.links[v2]
	}
	return b.links[v3]
}

func unavailable(cause error) error {
	return fmt.Errorf("%w: %w", bk.ErrBookieUnavailable, cause)
}

// Chunks is where the frames of adds come from.
func (p *Pool) Chunks() *Chunks { return &p.chunks }
