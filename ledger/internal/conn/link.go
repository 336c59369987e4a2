package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
)

// protocol says which version a connection speaks.
type protocol int

const (
	v2 protocol = iota
	v3
)

type linkState uint8

const (
	linkDown linkState = iota // dialled on next use
	linkDialing
	linkUp
	linkLosing // the connection is gone; what was outstanding is being failed
	linkClosed // for good
)

// link is one connection to one bookie, over all its lives.
//
//	down --use--> dialing --> up --lost--> down
//
// Its reader goroutine lives from dialing to down, its writer goroutine while
// it is up.
type link struct {
	pool   *Pool
	bookie *Bookie
	proto  protocol
	wake   chan struct{} // to the writer goroutine; holds one signal

	mu      sync.Mutex // guards all below
	state   linkState
	epoch   uint64        // number of connections so far
	dialed  chan struct{} // closed when the dial under way, or the last one, has ended
	conn    net.Conn
	raw     syscall.RawConn // nil: only the writer goroutine may write
	cancel  context.CancelFunc
	retryAt time.Duration // no dial before
	backoff time.Duration
	cause   error // why we closed the connection ourselves

	queue   []span // to be sent
	queued  int    // bytes of the chunks that queue holds on to
	sending int    // and of those that the batch on its way out does
	batches uint64 // taken so far
	writing bool   // someone writes; the fields of sender are theirs
	stalled bool   // the write waits for the bookie to read
	since   time.Duration
	heard   time.Duration // when the bookie last sent something, or was connected to
	snd     sender

	calls calls
	adds  map[bk.LedgerID]*Adds
}

func newLink(p *Pool, b *Bookie, proto protocol) *link {
	return &link{
		pool: p, bookie: b, proto: proto,
		wake:  make(chan struct{}, 1),
		calls: calls{byID: map[uint64]*Call{}, byKey: map[callKey]*Call{}},
		adds:  map[bk.LedgerID]*Adds{},
	}
}

// ready makes sure that the link is up or on its way. The caller holds mu.
func (l *link) ready() error {
	switch l.state {
	case linkUp, linkDialing:
		return nil
	case linkLosing:
		return unavailable(errLosing)
	case linkClosed:
		return bk.ErrClosed
	}
	// After a dial that failed, the next waits a little, and requests with it:
	// the bookie may just be starting.
	wait := l.retryAt - l.pool.now()
	l.state = linkDialing
	l.dialed = make(chan struct{})
	ctx, cancel := context.WithCancel(l.pool.ctx)
	l.cancel = cancel
	l.pool.wg.Add(1)
	go l.run(ctx, cancel, wait, l.dialed)
	return nil
}

// room refuses what would make the send queue hold too much memory: n more bytes
// of it. The caller holds mu.
func (l *link) room(n int) error {
	if held := l.queued + l.sending; held > 0 && held+n > l.pool.opts.QueueBytes {
		return fmt.Errorf("%d bytes wait to be sent: %w", held, bk.ErrTooManyRequests)
	}
	return nil
}

// start registers a call and queues its frame.
func (l *link) start(c *Call) error {
	c.id = l.pool.nextID.Add(1)
	chunk, n, err := l.encode(c)
	if err != nil {
		return err
	}
	defer chunk.Release()
	c.Payload = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		return err
	}
	if err := l.room(chunk.Size()); err != nil {
		return err
	}
	if l.calls.clash(c) || c.Op == OpRecoveryAddV2 && l.adds[c.Ledger] != nil {
		return unavailable(errClash)
	}
	c.deadline = l.pool.now() + c.Timeout
	l.calls.add(c)
	l.queue = appendSpan(l.queue, chunk, 0, n)
	l.queued += chunk.Size()
	return nil
}

// run dials, reads until the connection is lost, and cleans up.
func (l *link) run(ctx context.Context, cancel context.CancelFunc, wait time.Duration, dialed chan<- struct{}) {
	defer l.pool.wg.Done()
	conn, err := l.dial(ctx, wait)
	cancel()
	if err != nil {
		close(dialed)
		l.down(err, true)
		return
	}
	stop := make(chan struct{})
	written := make(chan struct{})
	up := l.up(conn)
	close(dialed)
	if !up {
		conn.Close()
		l.down(bk.ErrClosed, false)
		return
	}
	go l.writeLoop(stop, written)
	l.kick()
	err = l.readLoop(conn)
	conn.Close()
	close(stop)
	<-written
	l.down(err, false)
}

func (l *link) dial(ctx context.Context, wait time.Duration) (net.Conn, error) {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.pool.opts.DialTimeout)
	defer cancel()
	addr, err := l.pool.opts.Resolve(ctx, l.bookie.id)
	if err != nil {
		return nil, fmt.Errorf("resolve: %w", err)
	}
	conn, err := l.pool.opts.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return conn, nil
}

// up makes conn the connection; false if the link was closed meanwhile.
func (l *link) up(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == linkClosed {
		return false
	}
	l.state = linkUp
	l.epoch++
	l.conn = conn
	l.backoff = 0
	l.heard = l.pool.now()
	l.writing, l.stalled = false, false
	if sc, ok := conn.(syscall.Conn); ok && canWriteNow {
		if raw, err := sc.SyscallConn(); err == nil {
			l.raw = raw
		}
	}
	return true
}

// down fails all that is outstanding. No writer or reader goroutine runs any
// more, and an inline write that still does keeps writing set until it ends.
func (l *link) down(cause error, dialFailed bool) {
	l.mu.Lock()
	if l.state != linkClosed {
		l.state = linkLosing
	}
	for l.writing { // an inline write on the closed connection is about to return
		l.mu.Unlock()
		<-l.wake
		l.mu.Lock()
	}
	if l.state != linkClosed {
		l.state = linkDown
	}
	l.conn, l.raw = nil, nil
	if l.cause != nil {
		cause, l.cause = l.cause, nil
	}
	err := unavailable(cause)
	if dialFailed {
		l.backoff = min(max(2*l.backoff, l.pool.opts.BackoffMin), l.pool.opts.BackoffMax)
		l.retryAt = l.pool.now() + l.backoff
	}
	l.snd.reset()
	releaseSpans(l.queue)
	l.queue, l.queued, l.sending = l.queue[:0], 0, 0
	calls := l.calls.takeAll()
	lost := l.takeLost(func(a *Adds) bool { return a.ring.waiting > 0 })
	l.mu.Unlock()

	if l.pool.ctx.Err() == nil {
		l.bookie.NoteFailure()
		l.pool.opts.Logger.Debug("connection lost", zap.String("bookie", string(l.bookie.id)),
			zap.Int("calls", len(calls)), zap.Int("ledgers", len(lost)), zap.Error(cause))
	}
	for _, c := range calls {
		if c.Op == OpBatchRead && !dialFailed {
			l.bookie.NoteNoBatch()
		}
		c.finish(err)
	}
	for _, a := range lost {
		a.adds.sink.AddsLost(a.adds, a.first, err)
	}
}

type lostAdds struct {
	adds  *Adds
	first bk.EntryID
	sent  time.Duration // when first was
}

// takeLost gives up those adds that test says true of. The caller holds mu.
func (l *link) takeLost(test func(*Adds) bool) []lostAdds {
	var out []lostAdds
	for _, a := range l.adds {
		if !test(a) {
			continue
		}
		if first, sent, tell := a.lost(); tell {
			out = append(out, lostAdds{a, first, sent})
		}
	}
	return out
}

// expire fails what has waited too long.
func (l *link) expire(now time.Duration) {
	l.mu.Lock()
	due := l.calls.takeDue(now)
	lost := l.takeLost(func(a *Adds) bool {
		_, at, ok := a.ring.oldest()
		return ok && now-at >= a.timeout
	})
	switch {
	case l.stalled && now-l.since >= l.pool.opts.StallTimeout:
		l.giveUp(fmt.Errorf("nothing could be sent for %v: %w", now-l.since, bk.ErrTimeout))
	case l.silentSince(due, lost):
		// Whatever comes next may be lost like these: a path that broke without
		// a word shows in nothing else for minutes.
		l.giveUp(fmt.Errorf("nothing came for %v: %w", now-l.heard, bk.ErrTimeout))
	case l.state == linkDialing && len(due)+len(lost) > 0:
		l.giveUp(fmt.Errorf("dial: %w", bk.ErrTimeout)) // with what waits for it
	}
	l.mu.Unlock()
	if len(due)+len(lost) == 0 {
		return
	}
	for _, c := range due {
		l.bookie.NoteFailure()
		c.finish(bk.ErrTimeout)
	}
	for _, a := range lost {
		l.bookie.NoteFailure()
		a.adds.sink.AddsLost(a.adds, a.first, bk.ErrTimeout)
	}
}

// silentSince reports whether the bookie has sent nothing at all since one of
// these overdue requests was sent. The caller holds mu.
func (l *link) silentSince(due []*Call, lost []lostAdds) bool {
	for _, c := range due {
		if l.heard <= c.deadline-c.Timeout {
			return true
		}
	}
	for _, a := range lost {
		if l.heard <= a.sent {
			return true
		}
	}
	return false
}

// giveUp closes the connection, or ends its dial, because of err; the reader
// goroutine sees it and cleans up. The caller holds mu.
func (l *link) giveUp(err error) {
	if l.conn == nil && l.state != linkDialing {
		return
	}
	if l.cause == nil {
		l.cause = err
	}
	if l.conn == nil {
		l.cancel()
		return
	}
	l.conn.Close()
}

// close ends the link for good.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == linkDialing {
		l.cancel()
	}
	if l.conn != nil {
		l.conn.Close()
	}
	l.state = linkClosed
}

// readErr tells a connection closed by us from others.
func readErr(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return bk.ErrClosed
	}
	return err
}
