package etcdstore

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// link is a TCP forwarder between clients and a server, that can be cut,
// stalled, or made to lose one answer.
type link struct {
	l      net.Listener
	server string
	wg     sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns map[net.Conn]struct{}
	cut   bool
	lose  bool          // break the connection instead of passing the next bytes to a client
	stall chan struct{} // not nil: bytes wait until it is closed
	ended bool
}

func newLink(t *testing.T, server string) *link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &link{l: l, server: server, conns: map[net.Conn]struct{}{}}
	k.wg.Go(k.accept)
	t.Cleanup(func() {
		k.resume()
		k.mu.Lock()
		k.ended = true
		k.mu.Unlock()
		k.breakAll()
		l.Close()
		k.wg.Wait()
	})
	return k
}

func (k *link) addr() string { return k.l.Addr().String() }

func (k *link) accept() {
	for {
		c, err := k.l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", k.server)
		k.mu.Lock()
		if err != nil || k.cut || k.ended {
			k.mu.Unlock()
			c.Close()
			if s != nil {
				s.Close()
			}
			continue
		}
		k.conns[c], k.conns[s] = struct{}{}, struct{}{}
		k.mu.Unlock()
		k.wg.Go(func() { k.pass(s, c, false) })
		k.wg.Go(func() { k.pass(c, s, true) })
	}
}

func (k *link) pass(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		k.mu.Lock()
		lost := k.lose && answers && n > 0
		if lost {
			k.lose = false
		}
		stall := k.stall
		k.mu.Unlock()
		if stall != nil {
			<-stall
		}
		if lost {
			return
		}
		if _, werr := to.Write(buf[:n]); werr != nil || err != nil {
			return
		}
	}
}

func (k *link) breakAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.conns {
		c.Close()
	}
	clear(k.conns)
}

// setCut breaks all connections and refuses new ones, or ends that.
func (k *link) setCut(cut bool) {
	k.mu.Lock()
	k.cut = cut
	k.mu.Unlock()
	if cut {
		k.breakAll()
	}
}

// loseAnswer breaks the connection that the next bytes from the server come on.
func (k *link) loseAnswer() {
	k.mu.Lock()
	k.lose = true
	k.mu.Unlock()
}

// hold keeps all bytes in both directions until resume.
func (k *link) hold() {
	k.mu.Lock()
	k.stall = make(chan struct{})
	k.mu.Unlock()
}

func (k *link) resume() {
	k.mu.Lock()
	if k.stall != nil {
		close(k.stall)
		k.stall = nil
	}
	k.mu.Unlock()
}
