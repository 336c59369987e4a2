package etcdstore

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// startServer runs a real etcd server on dir. stop does not wait for watches, as
// embed's own Close does.
func startServer(t *testing.T, dir, listen string) (e *embed.Etcd, stop func()) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = dir
	client, err := url.Parse("http://" + listen)
	require.NoError(t, err)
	peer, err := url.Parse("http://127.0.0.1:0")
	require.NoError(t, err)
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 20, 100
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	served := make(chan *grpc.Server, 1)
	cfg.ServiceRegister = func(s *grpc.Server) { served <- s }
	e, err = embed.StartEtcd(cfg)
	require.NoError(t, err)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		t.Fatal("etcd does not start")
	}
	return e, func() {
		go (<-served).Stop()
		e.Close()
	}
}

// server is a running etcd server, a link to it and a client of its own.
type server struct {
	e    *embed.Etcd
	link *storetest.Link
	raw  *clientv3.Client
}

func newServer(t *testing.T) *server {
	t.Helper()
	e, stop := startServer(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(stop)
	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Clients[0].Addr().String()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, raw.Close()) })
	return &server{e: e, raw: raw, link: storetest.NewLink(t, e.Clients[0].Addr().String())}
}

// open connects through the link; direct does not.
func (s *server) open(t *testing.T) *Store { return openAt(t, s.link.Addr()) }

func (s *server) direct(t *testing.T) *Store { return openAt(t, s.e.Clients[0].Addr().String()) }

func openAt(t *testing.T, addr string) *Store {
	t.Helper()
	st, err := Open(t.Context(), Options{Endpoints: []string{addr}})
	require.NoError(t, err)
	return st
}

// compact drops all history.
func (s *server) compact(t *testing.T) {
	t.Helper()
	resp, err := s.raw.Get(t.Context(), "/")
	require.NoError(t, err)
	_, err = s.raw.Compact(t.Context(), resp.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
}

// crash ends a store as kill -9 would.
func (s *Store) crash(t *testing.T) {
	s.mu.Lock()
	var open []*session
	for h := range s.sessions {
		open = append(open, h)
	}
	s.mu.Unlock()
	for _, h := range open {
		h.Abandon()
	}
	require.NoError(t, s.Close())
}

func TestStore(t *testing.T) {
	srv := newServer(t)
	storetest.Run(t, func(t *testing.T) *storetest.Env {
		_, err := srv.raw.Delete(t.Context(), "\x00", clientv3.WithFromKey())
		require.NoError(t, err)
		return &storetest.Env{
			Open:   func(t *testing.T) metadata.Store { return srv.open(t) },
			Direct: func(t *testing.T) metadata.Store { return srv.direct(t) },
			Crash:  func(t *testing.T, s metadata.Store) { s.(*Store).crash(t) },
			Expire: func(t *testing.T, id metadata.SessionID) {
				_, err := srv.raw.Revoke(t.Context(), clientv3.LeaseID(id))
				require.NoError(t, err)
			},
			Compact: srv.compact,
			Cut: func(_ *testing.T, during func()) {
				srv.link.SetCut(true)
				during()
				srv.link.SetCut(false)
			},
		}
	})
}
