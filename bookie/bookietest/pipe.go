package bookietest

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBytes is the room of one direction of a connection, as of a socket
// buffer.
const pipeBytes = 256 << 10

// half is one direction of a connection.
type half struct {
	mu       sync.Mutex // guards all below
	cond     sync.Cond
	buf      []byte
	held     bool  // nothing is delivered
	closed   bool  // by the writer: the reader gets what is left, then io.EOF
	broken   error // both sides fail with it at once
	readOut  deadline
	writeOut deadline
	filter   func(frame []byte) Verdict // nil: bytes pass as they come
	partial  []byte                     // of a frame that the filter has not seen whole
}

func newHalf(filter func([]byte) Verdict) *half {
	h := &half{filter: filter}
	h.cond.L = &h.mu
	return h
}

// deadline is one side's time limit. The timer wakes those who wait.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(h *half, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.at = t; !t.IsZero() {
		d.timer = time.AfterFunc(max(0, time.Until(t)), h.wake)
	}
	h.cond.Broadcast()
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (h *half) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cond.Broadcast()
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.broken != nil:
			return 0, h.broken
		case h.readOut.passed():
			return 0, os.ErrDeadlineExceeded
		case len(h.buf) > 0 && !h.held:
			n := copy(p, h.buf)
			h.buf = h.buf[:copy(h.buf, h.buf[n:])]
			h.cond.Broadcast()
			return n, nil
		case h.closed && !h.held:
			return 0, io.EOF
		}
		h.cond.Wait()
	}
}

func (h *half) write(p []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(p) > 0 {
		switch room := pipeBytes - len(h.buf); {
		case h.broken != nil:
			return n, h.broken
		case h.closed:
			return n, net.ErrClosed
		case h.writeOut.passed():
			return n, os.ErrDeadlineExceeded
		case room <= 0:
			h.cond.Wait()
			continue
		default:
			k := min(room, len(p))
			if err := h.accept(p[:k]); err != nil {
				return n, err
			}
			p, n = p[k:], n+k
		}
	}
	return n, nil
}

// accept takes bytes from the writer, through the filter if there is one. mu
// is held.
func (h *half) accept(p []byte) error {
	if h.filter == nil {
		h.buf = append(h.buf, p...)
		h.cond.Broadcast()
		return nil
	}
	h.partial = append(h.partial, p...)
	for len(h.partial) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(h.partial))
		if len(h.partial) < n {
			break
		}
		frame := append([]byte(nil), h.partial[:n]...)
		h.partial = h.partial[n:]
		switch v := h.filter(frame); {
		case v.Break:
			h.fail(net.ErrClosed)
			return net.ErrClosed
		case v.Drop:
		case v.Delay > 0:
			time.AfterFunc(v.Delay, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.deliver(frame)
			})
		default:
			h.deliver(frame)
		}
	}
	return nil
}

func (h *half) deliver(frame []byte) {
	if h.broken == nil && !h.closed {
		h.buf = append(h.buf, frame...)
		h.cond.Broadcast()
	}
}

// fail breaks both sides. mu is held.
func (h *half) fail(err error) {
	if h.broken == nil {
		h.broken, h.buf = err, nil
	}
	h.cond.Broadcast()
}

func (h *half) breakNow(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail(err)
}

// finish is the writer's close.
func (h *half) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.cond.Broadcast()
}

func (h *half) hold(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = on
	h.cond.Broadcast()
}

// pipeConn is one end of a connection in memory.
type pipeConn struct {
	in, out       *half
	local, remote addr
}

type addr string

func (addr) Network() string  { return "mem" }
func (a addr) String() string { return string(a) }

func (c *pipeConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *pipeConn) LocalAddr() net.Addr         { return c.local }
func (c *pipeConn) RemoteAddr() net.Addr        { return c.remote }

// Close ends both directions: the peer reads what was written, then io.EOF,
// and its writes fail.
func (c *pipeConn) Close() error {
	c.out.finish()
	c.in.breakNow(net.ErrClosed)
	return nil
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.readOut.set(c.in, t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.writeOut.set(c.out, t)
	return nil
}

func (c *pipeConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}
