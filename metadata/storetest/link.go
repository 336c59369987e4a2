package storetest

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Link is a TCP forwarder between clients and a server, that can be cut,
// stalled, or made to lose one answer.
type Link struct {
	l      net.Listener
	server string
	wg     sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns map[net.Conn]struct{}
	cut   bool
	lose  int           // break the connection instead of passing the n-th next bytes to a client; 0 = do not
	stall chan struct{} // not nil: bytes wait until it is closed
	ended bool
}

// NewLink starts a forwarder to server (host:port), which ends with the test.
func NewLink(t *testing.T, server string) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &Link{l: l, server: server, conns: map[net.Conn]struct{}{}}
	k.wg.Go(k.accept)
	t.Cleanup(func() {
		k.Resume()
		k.mu.Lock()
		k.ended = true
		k.mu.Unlock()
		k.breakAll()
		l.Close()
		k.wg.Wait()
	})
	return k
}

// Addr is what clients connect to.
func (k *Link) Addr() string { return k.l.Addr().String() }

func (k *Link) accept() {
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

func (k *Link) pass(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		k.mu.Lock()
		lost := false
		if answers && n > 0 && k.lose > 0 {
			k.lose--
			lost = k.lose == 0
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

func (k *Link) breakAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.conns {
		c.Close()
	}
	clear(k.conns)
}

// SetCut breaks all connections and refuses new ones, or ends that.
func (k *Link) SetCut(cut bool) {
	k.mu.Lock()
	k.cut = cut
	k.mu.Unlock()
	if cut {
		k.breakAll()
	}
}

// LoseAnswer breaks the connection that the n-th next bytes from the server
// come on, 1 for the next. It gives how many were still to come of an earlier
// call, 0 if that has happened.
func (k *Link) LoseAnswer(n int) (left int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	left, k.lose = k.lose, n
	return left
}

// Hold keeps all bytes in both directions until Resume.
func (k *Link) Hold() {
	k.mu.Lock()
	k.stall = make(chan struct{})
	k.mu.Unlock()
}

// Resume ends Hold.
func (k *Link) Resume() {
	k.mu.Lock()
	if k.stall != nil {
		close(k.stall)
		k.stall = nil
	}
	k.mu.Unlock()
}
