package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Handler takes the calls of connections.
type Handler interface {
	// Call is given one call, from the connection's reader: it must not block
	// for long, and the call must be replied to exactly once, now or later,
	// from any goroutine.
	Call(c *Call)
	// Hangup says that no more calls come from this peer. Calls that were
	// given before may be unanswered.
	Hangup(p *Peer)
}

// ConnOptions bounds one connection of a server. The zero value is good.
type ConnOptions struct {
	FrameBytesMax int           // most bytes of a message. Default 16 MiB
	CallsMax      int           // most calls without a reply; then reading stops. Default 128
	IdleTimeout   time.Duration // a connection without calls is closed after this. Default 15 min
	FrameTimeout  time.Duration // a frame that has begun must end within this. Default 30 s
	WriteTimeout  time.Duration // a peer that does not read replies is closed after this. Default 30 s
}

func (o ConnOptions) withDefaults() ConnOptions {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if o.FrameBytesMax <= 0 {
		o.FrameBytesMax = FrameBytesMax
	}
	if o.CallsMax <= 0 {
		o.CallsMax = 128
	}
	def(&o.IdleTimeout, 15*time.Minute)
	def(&o.FrameTimeout, 30*time.Second)
	def(&o.WriteTimeout, 30*time.Second)
	return o
}

// Peer is one connection of a server.
type Peer struct {
	nc net.Conn
	h  Handler
	o  ConnOptions

	gone atomic.Bool // no more calls come

	// Session is the handler's own, for use within Call.
	Session any

	mu      sync.Mutex // guards the fields below
	cond    sync.Cond  // something below changed
	pending int        // calls whose replies are not written out
	ready   []*Call    // of them, those that are replied to
	ending  bool       // no more calls: the writer ends when pending is 0
	broken  bool       // the connection is of no use: the writer ends now
	free    [][]byte   // frames to use again
}

// Frames that a connection keeps to use again.
const (
	freeFrames     = 4
	freeFrameBytes = 1 << 20 // larger ones are not kept
)

func (p *Peer) recycle(frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < freeFrames && cap(frame) <= freeFrameBytes {
		p.free = append(p.free, frame)
	}
}

func (p *Peer) spare() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		return nil
	}
	b := p.free[n-1]
	p.free = p.free[:n-1]
	return b
}

// Addr is the peer's address.
func (p *Peer) Addr() string { return p.nc.RemoteAddr().String() }

// Gone reports whether Hangup was or is about to be called.
func (p *Peer) Gone() bool { return p.gone.Load() }

// Close ends the connection at once.
func (p *Peer) Close() { p.fail() }

// ServeConn serves one connection until it ends, breaks the protocol, or ctx
// ends; then it waits for outstanding replies (at most WriteTimeout) and sends
// them. It owns nc. It runs the reader itself and one goroutine for the
// replies, and returns when both have ended.
func ServeConn(ctx context.Context, nc net.Conn, h Handler, o ConnOptions) error {
	p := &Peer{nc: nc, h: h, o: o.withDefaults()}
	p.cond.L = &p.mu
	stop := context.AfterFunc(ctx, func() {
		// A read in progress ends with a timeout; ctx tells why.
		_ = nc.SetReadDeadline(time.Unix(1, 0))
		p.mu.Lock()
		p.ending = true
		p.cond.Broadcast()
		p.mu.Unlock()
	})
	defer stop()
	var wg sync.WaitGroup
	wg.Go(p.write)
	err := p.read(ctx)
	p.gone.Store(true)
	h.Hangup(p)
	if cause := ctx.Err(); cause != nil && (errors.Is(err, cause) || timedOut(err)) {
		err = cause
		timer := time.AfterFunc(p.o.WriteTimeout, p.fail)
		defer timer.Stop()
		p.finish()
	} else {
		p.fail()
	}
	wg.Wait()
	return errors.Join(err, ignoreClosed(nc.Close()))
}

// read hands calls to the handler until the connection or ctx ends.
func (p *Peer) read(ctx context.Context) error {
	fr := NewFrameReader(p.nc, p.o.FrameBytesMax)
	for {
		if err := p.deadline(ctx, p.o.IdleTimeout); err != nil {
			return err
		}
		if err := fr.Wait(); err != nil {
			return fmt.Errorf("waiting for a call: %w", err)
		}
		if err := p.deadline(ctx, p.o.FrameTimeout); err != nil {
			return err
		}
		msg, err := fr.next(p.spare())
		if err != nil {
			return err
		}
		c, err := DecodeCall(msg)
		if err != nil {
			return err
		}
		c.frame = msg
		if !p.accept(c) {
			return errors.Join(ctx.Err(), ErrConnClosed)
		}
		if c.Method == Unknown {
			c.Reply(&Reply{Err: &ApplicationError{Type: TypeUnknownMethod, Message: "Invalid method name: '" + c.Name + "'"}})
			continue
		}
		p.h.Call(c)
	}
}

// deadline sets the read deadline, unless ctx has ended: its own, past deadline
// must not be overwritten.
func (p *Peer) deadline(ctx context.Context, d time.Duration) error {
	if err := p.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	return ctx.Err() // the deadline set by the end of ctx may have come just before ours
}

// accept queues a call, once there is room.
func (p *Peer) accept(c *Call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.pending >= p.o.CallsMax && !p.broken && !p.ending {
		p.cond.Wait()
	}
	if p.broken || p.ending {
		return false
	}
	c.peer = p
	p.pending++
	return true
}

// Peer is the connection that the call came by.
func (c *Call) Peer() *Peer { return c.peer }

// Reply answers the call. Only the first reply counts.
func (c *Call) Reply(r *Reply) {
	p := c.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.reply != nil {
		return
	}
	c.reply = r
	if p.ready = append(p.ready, c); len(p.ready) == 1 {
		p.cond.Broadcast()
	}
}

// fail ends both sides now.
func (p *Peer) fail() {
	p.mu.Lock()
	p.broken = true
	p.cond.Broadcast()
	p.mu.Unlock()
	_ = p.nc.Close() // the reader and the writer see it; ServeConn reports its own close
}

// finish lets the writer end once everything is answered.
func (p *Peer) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	p.cond.Broadcast()
}

// write sends replies as they come, all that are ready in one write: a slow call
// holds up nobody else's.
func (p *Peer) write() {
	var buf []byte
	for {
		ready := p.next()
		if ready == nil {
			return
		}
		buf = buf[:0]
		for _, c := range ready {
			var err error
			if buf, err = AppendReply(buf, c, c.reply); err != nil {
				buf = appendInternal(buf, c, err)
			}
		}
		if err := p.nc.SetWriteDeadline(time.Now().Add(p.o.WriteTimeout)); err != nil {
			p.fail()
			return
		}
		if _, err := p.nc.Write(buf); err != nil {
			p.fail()
			return
		}
		if cap(buf) > 1<<20 {
			buf = nil
		}
	}
}

// appendInternal answers a call whose reply could not be encoded.
func appendInternal(buf []byte, c *Call, cause error) []byte {
	out, err := AppendReply(buf, c, &Reply{Err: &ApplicationError{Type: TypeInternalError, Message: cause.Error()}})
	if err != nil {
		return buf // an exception has nothing that can fail
	}
	return out
}

// next waits for replied calls and takes them, nil at the end.
func (p *Peer) next() []*Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.broken || p.ending && p.pending == 0 {
			return nil
		}
		if ready := p.ready; len(ready) > 0 {
			p.ready = nil
			p.pending -= len(ready)
			p.cond.Broadcast()
			return ready
		}
		p.cond.Wait()
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func timedOut(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
