package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// liars are proxies that name each other as the owner of every stream. They are
// the only members.
type liars struct {
	asked atomic.Int32
	wg    sync.WaitGroup
}

type liar struct {
	ring *liars
	next string
}

func (l liar) Hangup(*wire.Peer) {}

func (l liar) Call(c *wire.Call) {
	if c.Method == wire.HandshakeWithClientInfo {
		st := wire.WriteAndAccept
		c.Reply(&wire.Reply{Info: &wire.ServerInfo{ServerStatus: &st}})
		return
	}
	l.ring.asked.Add(1)
	h := wire.HeaderOf(&wire.StatusError{Code: wire.Found, Location: l.next})
	c.Reply(&wire.Reply{Write: &wire.WriteResponse{Header: h}})
}

// startLiars replaces the members of the cluster by n liars.
func startLiars(t *testing.T, c *cluster, n int) *liars {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	st := c.tree.Open()
	for node, err := range metadata.Children(ctx, st, wire.MembersKey("/ns"), metadata.ListOptions{}) {
		require.NoError(t, err)
		_, err = st.Txn(ctx, metadata.Delete(node.Key, metadata.AnyVersion))
		require.NoError(t, err)
	}
	r := &liars{}
	var lns []net.Listener
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		lns = append(lns, ln)
	}
	for i, ln := range lns {
		m, err := wire.NewMember(ln.Addr().String(), 100+i)
		require.NoError(t, err)
		val, err := m.Marshal()
		require.NoError(t, err)
		_, err = st.Txn(ctx, metadata.Create(wire.MemberKey("/ns"), val).AsSequential().WithParents())
		require.NoError(t, err)
		l := liar{r, fmt.Sprintf("1;%d;%s", 100+(i+1)%n, lns[(i+1)%n].Addr())}
		r.wg.Go(func() {
			for {
				nc, err := ln.Accept()
				if err != nil {
					return
				}
				r.wg.Go(func() { _ = wire.ServeConn(ctx, nc, l, wire.ConnOptions{}) }) // ends with ctx
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		for _, ln := range lns {
			require.NoError(t, ln.Close())
		}
		r.wg.Wait()
		require.NoError(t, st.Close())
	})
	return r
}

// queued is how many calls wait in a stream's queue.
func (nd *node) queued(name stream.Name) int {
	nd.mu.Lock()
	s := nd.streams[name]
	nd.mu.Unlock()
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}
