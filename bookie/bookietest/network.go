package bookietest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Frame is one frame on its way, length prefix included.
type Frame struct {
	Addr      string // of the bookie
	ToBookie  bool   // a request; false: an answer
	Bytes     []byte // not to be changed or kept
	Conn, Seq int    // number of the connection to Addr, and of the frame in its direction, from 0
}

// Verdict says what happens to a frame. The zero value lets it pass.
type Verdict struct {
	Drop  bool
	Break bool          // the connection breaks in front of the frame
	Delay time.Duration // the frame comes later; others overtake it
}

// Network is a set of addresses in memory.
type Network struct {
	mu      sync.Mutex // guards all below
	nodes   map[string]*node
	onFrame func(Frame) Verdict
	clients int
}

// node is what the network knows of one address.
type node struct {
	addr    string
	l       *listener // nil: nobody listens
	halves  map[*half]struct{}
	held    bool          // nothing is delivered
	blocked chan struct{} // dials wait for it; nil: they need not
	conns   int
}

// NewNetwork makes an empty network.
func NewNetwork() *Network { return &Network{nodes: make(map[string]*node)} }

// OnFrame has each frame judged, of connections dialled from now on. fn is
// called by whoever writes, with locks of the connection held: it must not
// block or use the network. nil ends it.
func (n *Network) OnFrame(fn func(Frame) Verdict) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onFrame = fn
}

// node is called with mu held.
func (n *Network) node(a string) *node {
	nd := n.nodes[a]
	if nd == nil {
		nd = &node{addr: a, halves: make(map[*half]struct{})}
		n.nodes[a] = nd
	}
	return nd
}

// Listen takes an address that is free.
func (n *Network) Listen(a string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	nd := n.node(a)
	if nd.l != nil {
		return nil, fmt.Errorf("listen on %s: address in use", a)
	}
	nd.l = &listener{n: n, addr: addr(a), backlog: make(chan net.Conn, 128), done: make(chan struct{})}
	return nd.l, nil
}

// Dial connects to an address. It waits while the address is partitioned.
func (n *Network) Dial(ctx context.Context, a string) (net.Conn, error) {
	for {
		c, l, wait := n.connect(a)
		switch {
		case wait != nil:
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("dial %s: %w", a, ctx.Err())
			}
		case l == nil:
			return nil, fmt.Errorf("dial %s: connection refused", a)
		}
		server := &pipeConn{in: c.out, out: c.in, local: c.remote, remote: c.local}
		select {
		case l.backlog <- server:
			return c, nil
		case <-l.done:
			return nil, fmt.Errorf("dial %s: connection refused", a)
		case <-ctx.Done():
			return nil, fmt.Errorf("dial %s: %w", a, ctx.Err())
		}
	}
}

// connect makes both directions of a connection, or tells to wait.
func (n *Network) connect(a string) (c *pipeConn, l *listener, wait chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	nd := n.node(a)
	if nd.blocked != nil {
		return nil, nil, nd.blocked
	}
	if nd.l == nil {
		return nil, nil, nil
	}
	number := nd.conns
	nd.conns++
	n.clients++
	c = &pipeConn{
		in: newHalf(n.filter(a, false, number)), out: newHalf(n.filter(a, true, number)),
		local: addr(fmt.Sprintf("client-%d", n.clients)), remote: addr(a),
	}
	for _, h := range []*half{c.in, c.out} {
		h.held = nd.held
		nd.halves[h] = struct{}{}
	}
	return c, nd.l, nil
}

func (n *Network) filter(a string, toBookie bool, conn int) func([]byte) Verdict {
	judge := n.onFrame
	if judge == nil {
		return nil
	}
	seq := 0
	return func(frame []byte) Verdict {
		v := judge(Frame{Addr: a, ToBookie: toBookie, Bytes: frame, Conn: conn, Seq: seq})
		seq++
		return v
	}
}

// Stall makes an address accept connections and bytes, and move nothing, as a
// process that got SIGSTOP; false lets it go on.
func (n *Network) Stall(a string, on bool) { n.hold(a, on) }

// Partition holds all bytes to and from an address, and makes dials wait;
// false heals it: what was held is delivered.
func (n *Network) Partition(a string, on bool) {
	n.hold(a, on)
	n.mu.Lock()
	defer n.mu.Unlock()
	nd := n.node(a)
	if on && nd.blocked == nil {
		nd.blocked = make(chan struct{})
	} else if !on && nd.blocked != nil {
		close(nd.blocked)
		nd.blocked = nil
	}
}

func (n *Network) hold(a string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	nd := n.node(a)
	nd.held = on
	for h := range nd.halves {
		h.hold(on)
	}
}

// Cut breaks all open connections of an address.
func (n *Network) Cut(a string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	nd := n.node(a)
	for h := range nd.halves {
		h.breakNow(fmt.Errorf("connection to %s reset", a))
	}
	clear(nd.halves)
}

// listener is an address that is listened on.
type listener struct {
	n       *Network
	addr    addr
	backlog chan net.Conn
	once    sync.Once
	done    chan struct{}
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close frees the address and refuses what was not accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		l.n.node(string(l.addr)).l = nil
		l.n.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.backlog:
				c.Close()
			default:
				return
			}
		}
	})
	return nil
}
