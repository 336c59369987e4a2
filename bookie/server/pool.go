package server

import (
	"sync"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

const (
	readWorkersPerConn = 4        // of the read workers, how many one connection may keep busy
	readsPerTurn       = 64       // reads a worker takes from a connection at once
	turnBytes          = 64 << 10 // answers a worker collects before it hands them to the writer
)

// task is one request that a worker does.
type task struct {
	do        func(*worker, *conn, *task)
	v3        *bkpb.Request // nil: version 2
	version   uint8         // version 2: to answer in
	fence     bool
	ledger    bk.LedgerID
	entry     bk.EntryID
	key       []byte // owned by the task
	requestID int64  // batch read
	maxCount  int32
	maxSize   int64
	op        wire.Op
	poll      *longPoll // a long poll that has ended
}

// refuse appends the answer to a task that there is no room for.
func (t *task) refuse(dst []byte) []byte {
	if t.v3 != nil {
		return appendStatusV3(dst, t.v3, bk.StatusTooManyRequests)
	}
	return t.appendStatusV2(dst, bk.StatusTooManyRequests)
}

// lane is the queue of one connection at a pool; pool.mu guards it.
type lane struct {
	c       *conn
	pool    *pool
	tasks   []task
	head    int  // first of tasks that waits
	running int  // workers on it
	ready   bool // is in pool.ready
}

func (l *lane) waiting() int { return len(l.tasks) - l.head }

// take moves up to n waiting tasks to dst.
func (l *lane) take(dst []task, n int) []task {
	n = min(n, l.waiting())
	from := l.tasks[l.head : l.head+n]
	dst = append(dst, from...)
	clear(from)
	if l.head += n; l.head == len(l.tasks) {
		l.tasks, l.head = l.tasks[:0], 0
	}
	return dst
}

// poolLimits sets up a pool.
type poolLimits struct {
	workers int // goroutines
	perConn int // of them on one connection
	perTurn int // tasks a worker takes at once
	waiting int // tasks waiting on one connection; one more is refused
}

// pool runs the tasks of all connections, in turns, so that none starves
// another. A connection whose outbox is full gets no turn until it has room.
type pool struct {
	s      *Server
	limits poolLimits

	mu     sync.Mutex // guards all below and all lanes
	more   sync.Cond  // ready is not empty, or closed
	ready  []*lane
	closed bool
}

func newPool(s *Server, limits poolLimits) *pool {
	p := &pool{s: s, limits: limits}
	p.more.L = &p.mu
	for range limits.workers {
		w := &worker{s: s, pool: p}
		s.background.Go(w.run)
	}
	return p
}

// submit queues tasks and tells how many it took; the rest is over the limit.
func (p *pool) submit(l *lane, tasks []task) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(tasks), max(0, p.limits.waiting-l.waiting()))
	p.push(l, tasks[:n])
	return n
}

// submitEnded queues a task that was let in before: the end of a long poll.
func (p *pool) submitEnded(l *lane, t task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.push(l, []task{t})
}

func (p *pool) push(l *lane, tasks []task) {
	if l.head > 0 && len(l.tasks)+len(tasks) > cap(l.tasks) {
		n := copy(l.tasks, l.tasks[l.head:])
		clear(l.tasks[n:])
		l.tasks, l.head = l.tasks[:n], 0
	}
	l.tasks = append(l.tasks, tasks...)
	p.schedule(l)
}

// schedule makes a lane ready if it has work that may run. mu is held.
func (p *pool) schedule(l *lane) {
	if !l.ready && l.waiting() > 0 && l.running < p.limits.perConn {
		l.ready = true
		p.ready = append(p.ready, l)
		p.more.Signal()
	}
}

// resume gives a lane its turn again after its outbox was full.
func (p *pool) resume(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule(l)
}

// next waits for work: tasks of one lane, taken to dst. nil means the end.
func (p *pool) next(dst []task) (*lane, []task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.ready) == 0 {
			if p.closed {
				return nil, dst
			}
			p.more.Wait()
		}
		l := p.ready[0]
		p.ready = append(p.ready[:0], p.ready[1:]...)
		l.ready = false
		if l.c.out.full() && !l.c.isDead() {
			continue // resume will come: the writer has bytes to send
		}
		l.running++
		dst = l.take(dst, p.limits.perTurn)
		p.schedule(l)
		return l, dst
	}
}

// giveBack puts tasks that were taken and not done in front of the others.
func (p *pool) giveBack(l *lane, tasks []task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.tasks = append(append(make([]task, 0, len(tasks)+l.waiting()), tasks...), l.tasks[l.head:]...)
	l.head = 0
}

func (p *pool) finished(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.running--
	p.schedule(l)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.more.Broadcast()
}

// isDead reports whether the connection has ended.
func (c *conn) isDead() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// worker is one goroutine of a pool. It collects the answers of its turn and
// hands them to the connection's writer together.
type worker struct {
	s     *Server
	pool  *pool
	tasks []task
	buf   *[]byte // answers; from Server.chunks
	n     int     // requests answered in buf
	body  []byte  // entry of a version 3 answer
}

func (w *worker) run() {
	for {
		var l *lane
		if l, w.tasks = w.pool.next(w.tasks[:0]); l == nil {
			return
		}
		w.turn(l)
		w.flush(l.c)
		clear(w.tasks)
		w.pool.finished(l)
	}
}

// turn does the tasks that were taken from a lane, as long as its outbox is
// not full.
func (w *worker) turn(l *lane) {
	for i := range w.tasks {
		t := &w.tasks[i]
		if l.c.isDead() {
			w.n++ // nobody is left to answer
			t.abandon(w.s)
			continue
		}
		if w.buf == nil {
			w.buf = w.s.chunks.Get().(*[]byte)
		}
		t.do(w, l.c, t)
		if len(*w.buf) < turnBytes {
			continue
		}
		w.flush(l.c)
		if l.c.out.full() {
			w.pool.giveBack(l, w.tasks[i+1:])
			return
		}
	}
}

// abandon ends a task of a dead connection.
func (t *task) abandon(s *Server) {
	if t.poll != nil {
		s.longPolls.Add(-1)
	}
}

// flush queues the collected answers at the connection.
func (w *worker) flush(c *conn) {
	if w.buf != nil && len(*w.buf) > 0 {
		if len(*w.buf) <= chunkCopyMax {
			c.out.send(*w.buf)
			*w.buf = (*w.buf)[:0]
		} else {
			c.out.sendChunk(w.buf)
			w.buf = nil
		}
	}
	if w.n > 0 {
		c.done(w.n)
		w.n = 0
	}
}

// shrink lets a scratch buffer go that an unusual entry made large.
func (w *worker) shrink() {
	if cap(w.body) > chunkPoolMax {
		w.body = nil
	}
}
