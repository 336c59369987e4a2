package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Conn is the client's side of one connection: calls are pipelined, replies
// come in any order and are told by their number. Its two goroutines, one for writing and one
// for reading, end with Close or when the connection fails.
type Conn struct {
	nc           net.Conn
	max          int
	writeTimeout time.Duration
	wg           sync.WaitGroup

	mu      sync.Mutex        // guards the fields below
	cond    sync.Cond         // wbuf or err changed
	wbuf    []byte            // frames not yet handed to the connection
	pending map[int32]waiting // calls without a reply, by number
	seq     int32
	err     error // why the connection ended
}

// waiting is one call without a reply.
type waiting struct {
	name string
	done func(*Reply, error)
}

// NewConn makes a client connection of nc, which it owns from now on. Replies
// of more than frameBytesMax bytes end it (0: FrameBytesMax).
func NewConn(nc net.Conn, frameBytesMax int) *Conn {
	c := &Conn{nc: nc, max: frameBytesMax, pending: map[int32]waiting{}, writeTimeout: 30 * time.Second}
	c.cond.L = &c.mu
	c.wg.Go(c.write)
	c.wg.Go(c.read)
	return c
}

// Go sends a call. done runs once, on the connection's reader or, if the
// connection has ended, before Go returns; it must not block. An error of done
// that is ErrConnClosed means that the call may have been carried out. Data is
// not kept after Go returns.
func (c *Conn) Go(call *Call, done func(*Reply, error)) {
	c.mu.Lock()
	if c.err != nil {
		err := c.err
		c.mu.Unlock()
		done(nil, err)
		return
	}
	c.seq++
	call.Seq = c.seq
	buf, err := AppendCall(c.wbuf, call)
	if err != nil {
		c.mu.Unlock()
		done(nil, fmt.Errorf("encode %s: %w", call.Method, err))
		return
	}
	c.wbuf = buf
	name := call.Name
	if name == "" {
		name = call.Method.String()
	}
	c.pending[call.Seq] = waiting{name, done}
	c.cond.Signal()
	c.mu.Unlock()
}

// Call sends a call and waits for its reply, or for ctx: then the call may
// still be carried out. A refusal in the reply's header is not an error here.
func (c *Conn) Call(ctx context.Context, call *Call) (*Reply, error) {
	type result struct {
		r   *Reply
		err error
	}
	ch := make(chan result, 1)
	c.Go(call, func(r *Reply, err error) { ch <- result{r, err} })
	select {
	case res := <-ch:
		return res.r, res.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Err tells why the connection ended, nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits for its goroutines. Outstanding calls
// fail with ErrConnClosed. It must not be called from a done function; use Fail
// there.
func (c *Conn) Close() error {
	c.Fail(errors.New("closed here"))
	c.wg.Wait()
	return nil
}

// Fail ends the connection because of cause and fails what is outstanding.
func (c *Conn) Fail(cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = fmt.Errorf("%w: %w", ErrConnClosed, cause)
	failed := c.pending
	c.pending, c.wbuf = nil, nil
	c.cond.Broadcast()
	c.mu.Unlock()
	_ = c.nc.Close() // its failure says nothing that the caller could use
	for _, w := range failed {
		w.done(nil, c.err) // err is set once
	}
}

func (c *Conn) write() {
	var spare []byte
	for {
		c.mu.Lock()
		for len(c.wbuf) == 0 && c.err == nil {
			c.cond.Wait()
		}
		if c.err != nil {
			c.mu.Unlock()
			return
		}
		out := c.wbuf
		c.wbuf = spare[:0]
		c.mu.Unlock()
		err := c.nc.SetWriteDeadline(time.Now().Add(c.writeTimeout))
		if err == nil {
			_, err = c.nc.Write(out)
		}
		if err != nil {
			c.Fail(err)
			return
		}
		if spare = out; cap(spare) > 4<<20 {
			spare = nil
		}
	}
}

func (c *Conn) read() {
	fr := NewFrameReader(c.nc, c.max)
	for {
		msg, err := fr.Next()
		if err != nil {
			c.Fail(err)
			return
		}
		r, name, seq, err := DecodeReply(msg)
		if err != nil {
			c.Fail(err)
			return
		}
		c.mu.Lock()
		if c.err != nil {
			c.mu.Unlock()
			return
		}
		w, ok := c.pending[seq]
		if !ok || w.name != name {
			c.mu.Unlock()
			c.Fail(protocolErrorf("reply to %s, number %d, is not waited for", methodOf(name), seq))
			return
		}
		delete(c.pending, seq)
		c.mu.Unlock()
		w.done(r, nil)
	}
}
