//go:build interop

package zookeeper

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/cmd/internal/javapeer"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/storetest"
	"github.com/loglode/loglode/metadata/zkstore"
)

// zk is the server that all tests share: each begins on an empty tree.
var zk *javapeer.ZooKeeper

// dir has its data and logs, and what tests share.
var dir string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	dir, err = os.MkdirTemp("", "loglode-zookeeper-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	java, err := javapeer.Setup(context.Background())
	if err == nil {
		zk, err = java.StartZooKeeper(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	zk.Kill()
	if err := goleak.Find(goleak.IgnoreTopFunction("os/exec.(*Cmd).watchCtx.func1")); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "logs are in", dir)
		return code
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// server is the shared server with an empty tree, and a link to it.
type server struct {
	link *storetest.Link

	mu       sync.Mutex // guards what follows
	sessions map[metadata.SessionID]metadata.Session
}

func newServer(t *testing.T) *server {
	t.Helper()
	st := openAt(t, zk.Addr)
	clear(t, st, "/")
	require.NoError(t, st.Close())
	return &server{link: storetest.NewLink(t, zk.Addr), sessions: map[metadata.SessionID]metadata.Session{}}
}

// clear deletes all below a key.
func clear(t *testing.T, st metadata.Store, key string) {
	t.Helper()
	for n, err := range metadata.Children(t.Context(), st, key, metadata.ListOptions{KeysOnly: true}) {
		require.NoError(t, err)
		clear(t, st, n.Key)
		require.NoError(t, metadata.Remove(t.Context(), st, n.Key, metadata.AnyVersion))
	}
}

func openAt(t *testing.T, addr string) *zkstore.Store {
	t.Helper()
	st, err := zkstore.Open(t.Context(), zkstore.Options{Servers: []string{addr}})
	require.NoError(t, err)
	return st
}

// client is a Store that can crash, as it knows its sessions.
type client struct {
	*zkstore.Store
	srv *server

	mu       sync.Mutex // guards what follows
	sessions []metadata.Session
}

// open connects through the link; direct does not.
func (s *server) open(t *testing.T) *client   { return &client{Store: openAt(t, s.link.Addr()), srv: s} }
func (s *server) direct(t *testing.T) *client { return &client{Store: openAt(t, zk.Addr), srv: s} }

func (c *client) Session(ctx context.Context, opts metadata.SessionOptions) (metadata.Session, error) {
	ses, err := c.Store.Session(ctx, opts)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.sessions = append(c.sessions, ses)
	c.mu.Unlock()
	c.srv.mu.Lock()
	c.srv.sessions[ses.ID()] = ses
	c.srv.mu.Unlock()
	return ses, nil
}

// crash ends a store as kill -9 would.
func (c *client) crash(t *testing.T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ses := range c.sessions {
		ses.Abandon()
	}
	require.NoError(t, c.Close())
}

// expire ends a session from another connection: the server then does what it
// does when a session's time is over.
func (s *server) expire(t *testing.T, id metadata.SessionID) {
	s.mu.Lock()
	ses := s.sessions[id]
	s.mu.Unlock()
	st := openAt(t, zk.Addr)
	other, err := st.Session(t.Context(), metadata.SessionOptions{TTL: time.Second, Resume: id, Secret: ses.Secret()})
	require.NoError(t, err)
	require.NoError(t, other.Close(t.Context()))
	require.NoError(t, st.Close())
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Env {
		srv := newServer(t)
		return &storetest.Env{
			Open:   func(t *testing.T) metadata.Store { return srv.open(t) },
			Direct: func(t *testing.T) metadata.Store { return srv.direct(t) },
			Crash:  func(t *testing.T, s metadata.Store) { s.(*client).crash(t) },
			Expire: srv.expire,
			Cut: func(_ *testing.T, during func()) {
				srv.link.SetCut(true)
				during()
				srv.link.SetCut(false)
			},
			Refuses:        func(key string) bool { return key == "/\x01" },
			VersionsRepeat: true,
		}
	})
}
