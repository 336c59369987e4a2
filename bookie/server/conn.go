package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/wire"
)

// Why the server closed a connection.
var (
	errHalfFrame  = errors.New("frame left unfinished for too long")
	errWriteStall = errors.New("peer does not read its answers")
)

// conn is one connection. run owns its reader, and starts its writer.
type conn struct {
	s      *Server
	nc     net.Conn
	remote string
	frames *wire.FrameReader
	out    outbox
	reads  lane
	syncs  lane
	v2adds v2Sink
	v3adds v3Sink

	auth   AuthExchange // reader's; nil: the client is let in
	batch  batch        // reader's
	vector [][]byte     // writer's

	pending    atomic.Int64 // requests handed over and not yet answered
	draining   atomic.Bool  // no more requests are read
	lastRead   atomic.Int64 // Unix ns of the last bytes
	partial    atomic.Bool  // a frame has begun and not ended
	released   atomic.Bool  // the read buffer has been let go
	writeSince atomic.Int64 // Unix ns when the running write began, 0 if none runs
	dead       chan struct{}

	mu    sync.Mutex // guards all below
	err   error      // why dead was closed
	gone  bool       // dead is closed
	polls map[*longPoll]struct{}
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		s: s, nc: nc, remote: nc.RemoteAddr().String(),
		frames: wire.NewFrameReader(nc), out: newOutbox(s),
		dead: make(chan struct{}), polls: make(map[*longPoll]struct{}),
	}
	c.reads, c.syncs = lane{c: c, pool: s.reads}, lane{c: c, pool: s.syncs}
	c.v2adds.c, c.v3adds.c = c, c
	c.lastRead.Store(time.Now().UnixNano())
	return c
}

// run serves the connection until it ends.
func (c *conn) run() {
	defer c.s.ended(c)
	if a := c.s.opts.Auth; a != nil {
		c.auth = a.Begin(c.remote)
	}
	var writer sync.WaitGroup
	writer.Go(c.writeLoop)
	switch err := c.readLoop(); {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, errTurnedAway):
		c.drain() // the writer closes once all is answered
	default:
		c.fail(err)
	}
	writer.Wait()
	c.fail(nil)
	c.dropPolls()
	c.resume() // workers drop what is left
	c.out.close()
	if c.s.opts.Events.Closed != nil {
		c.s.opts.Events.Closed(c.remote, c.err)
	}
}

// fail ends the connection at once. The first cause is kept; nil is none.
func (c *conn) fail(err error) {
	c.mu.Lock()
	first := !c.gone
	if first {
		c.gone, c.err = true, err
		close(c.dead)
	}
	c.mu.Unlock()
	if !first {
		return
	}
	if err != nil {
		c.s.m.broken.Inc()
		c.s.log.Info("connection closed", zap.String("remote", c.remote), zap.Error(err))
	}
	c.nc.Close()
}

// drain stops reading requests; the writer closes the connection once all that
// were read are answered.
func (c *conn) drain() {
	c.draining.Store(true)
	if err := c.nc.SetReadDeadline(time.Unix(1, 0)); err != nil {
		c.fail(nil) // closed already
	}
	c.wakePolls()
	c.out.signal()
}

// readLoop hands over requests until the connection ends. Each turn is one
// read and all the frames it brought.
func (c *conn) readLoop() error {
	for {
		if err := c.waitRoom(); err != nil {
			return err
		}
		if err := c.frames.Fill(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) || c.draining.Load() {
				return err
			}
			// The janitor asks an idle reader to let its buffer go.
			c.frames.Release()
			c.released.Store(true)
			if err := c.nc.SetReadDeadline(time.Time{}); err != nil {
				return err
			}
			if c.draining.Load() { // drain came in between
				return os.ErrDeadlineExceeded
			}
			continue
		}
		c.lastRead.Store(time.Now().UnixNano())
		err := c.decode()
		c.handOver()
		if err != nil {
			return err
		}
		c.partial.Store(c.frames.Buffered() > 0)
		c.released.Store(false)
	}
}

// waitRoom waits while the peer leaves too many answers unread.
func (c *conn) waitRoom() error {
	for c.out.full() {
		select {
		case <-c.out.room:
		case <-c.dead:
			return net.ErrClosed
		}
	}
	return nil
}

// decode sorts the frames that one read brought into the batch.
func (c *conn) decode() error {
	for {
		frame, err := c.frames.Next()
		if err != nil || frame == nil {
			return err
		}
		if wire.IsV3(frame) {
			err = c.decodeV3(frame)
		} else {
			err = c.decodeV2(frame)
		}
		if err != nil {
			return err
		}
	}
}

// batch is what one read brought, by who takes it next.
type batch struct {
	v2adds, v3adds []bookie.Add
	reads, syncs   []task
	answers        []byte // of requests that need no work
	ops            [wire.OpBatchRead + 1]int
}

// handOver passes the batch on and empties it. Adds go first: a read that
// follows an add on the wire finds it handed over.
func (c *conn) handOver() {
	b := &c.batch
	c.s.m.count(&b.ops)
	work := len(b.v2adds) + len(b.v3adds) + len(b.reads) + len(b.syncs)
	c.pending.Add(int64(work))
	if len(b.v2adds) > 0 {
		c.s.store.AddBatch(&c.v2adds, b.v2adds)
		clear(b.v2adds)
		b.v2adds = b.v2adds[:0]
	}
	if len(b.v3adds) > 0 {
		c.s.store.AddBatch(&c.v3adds, b.v3adds)
		clear(b.v3adds)
		b.v3adds = b.v3adds[:0]
	}
	b.reads = c.submit(&c.reads, b.reads)
	b.syncs = c.submit(&c.syncs, b.syncs)
	if len(b.answers) > 0 {
		c.out.send(b.answers)
		b.answers = b.answers[:0]
	}
}

// submit queues tasks on a lane and refuses those that are too many. It gives
// back the slice, empty.
func (c *conn) submit(l *lane, tasks []task) []task {
	if len(tasks) == 0 {
		return tasks
	}
	taken := l.pool.submit(l, tasks)
	for i := range tasks[taken:] {
		c.batch.answers = tasks[taken+i].refuse(c.batch.answers)
		c.pending.Add(-1)
	}
	clear(tasks)
	return tasks[:0]
}

// done counts n requests as answered, and lets their answers go. The answers
// have been queued before.
func (c *conn) done(n int) {
	c.pending.Add(-int64(n))
	c.out.signal()
}

// writeLoop writes answers, all that are there at a time, until the connection
// is dead or drained.
func (c *conn) writeLoop() {
	var chunks []*[]byte
	for {
		// Read before taking: what is counted as answered has been queued.
		last := c.draining.Load() && c.pending.Load() == 0
		chunks = c.out.take(chunks[:0])
		if len(chunks) == 0 {
			if last {
				c.fail(nil)
				return
			}
			select {
			case <-c.out.wake:
				continue
			case <-c.dead:
				return
			}
		}
		if err := c.write(chunks); err != nil {
			c.fail(fmt.Errorf("write: %w", err))
			return
		}
	}
}

// write sends chunks, in one system call unless they are very large: the
// janitor measures each call.
func (c *conn) write(chunks []*[]byte) error {
	for len(chunks) > 0 {
		k, size := 0, 0
		for k < len(chunks) && (k == 0 || size+len(*chunks[k]) <= writeMax) {
			size += len(*chunks[k])
			k++
		}
		c.writeSince.Store(time.Now().UnixNano())
		n, err := c.writeChunks(chunks[:k])
		c.writeSince.Store(0)
		if c.out.sent(n) {
			c.resume()
		}
		if err != nil {
			return err
		}
		chunks = chunks[k:]
	}
	return nil
}

// resume gives the connection's tasks their turn again.
func (c *conn) resume() {
	c.reads.pool.resume(&c.reads)
	c.syncs.pool.resume(&c.syncs)
}
