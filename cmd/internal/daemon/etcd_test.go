package daemon

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/etcdstore"
)

// The embedded server serves soon after a first and a later start, and keeps
// its data.
func TestEtcdStartsFastAndKeepsData(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := filepath.Join(t.TempDir(), "etcd")
	for round := range 2 {
		begin := time.Now()
		core, logs := observer.New(zap.DebugLevel)
		e, err := StartEtcd(t.Context(), EtcdOptions{Dir: dir, ListenClient: "127.0.0.1:0", Logger: zap.New(core)})
		require.NoError(t, err)
		took := time.Since(begin)
		t.Logf("round %d: ready after %v", round, took)
		require.Less(t, took, 10*time.Second)
		s, err := etcdstore.Open(t.Context(), etcdstore.Options{Endpoints: []string{e.Endpoint()}})
		require.NoError(t, err)
		if round == 0 {
			_, err = s.Txn(t.Context(), metadata.Create("/a", []byte("kept")))
			require.NoError(t, err)
		}
		n, err := s.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, "kept", string(n.Value))
		ses, err := s.Session(t.Context(), metadata.SessionOptions{TTL: time.Second})
		require.NoError(t, err)
		require.NoError(t, ses.Close(t.Context()))
		require.NoError(t, s.Close())
		require.NoError(t, e.Close(t.Context()))
		for _, l := range logs.All() {
			// A busy machine may make etcd warn of slowness.
			require.True(t, l.Level == zap.WarnLevel && !etcdNoise[l.Message], "noise: %v", l)
		}
	}
}

// A data directory that another server has is refused at once, and free again
// once that one is closed.
func TestEtcdRefusesADirectoryInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	opts := EtcdOptions{Dir: dir, ListenClient: "127.0.0.1:0"}
	first, err := StartEtcd(t.Context(), opts)
	require.NoError(t, err)
	_, err = StartEtcd(t.Context(), opts)
	require.ErrorIs(t, err, ErrDirInUse)
	require.ErrorContains(t, err, dir)
	require.NoError(t, first.Close(t.Context()))
	second, err := StartEtcd(t.Context(), opts)
	require.NoError(t, err)
	require.NoError(t, second.Close(t.Context()))
	_, err = StartEtcd(t.Context(), EtcdOptions{Dir: filepath.Join(dir, "LOCK", "below")})
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrDirInUse)
}

// What is not known noise reaches the logger.
func TestEtcdLoggerPassesWarnings(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	var closing atomic.Bool
	log := etcdLogger(zap.New(core), &closing).With(zap.Int("k", 1))
	log.Info("quiet")
	log.Error("failed to update storage version")
	log.Warn("failed to publish local member to cluster through raft")
	log.Warn("disk is full")
	log.Error(etcdClosingNoise)
	closing.Store(true)
	log.Error(etcdClosingNoise)
	require.Equal(t, 2, logs.Len())
	require.Equal(t, "disk is full", logs.All()[0].Message)
	require.Equal(t, "etcd", logs.All()[0].LoggerName)
}

// A client that watches does not hold up Close.
func TestEtcdClosesUnderWatches(t *testing.T) {
	e, err := StartEtcd(t.Context(), EtcdOptions{Dir: t.TempDir(), ListenClient: "127.0.0.1:0"})
	require.NoError(t, err)
	s, err := etcdstore.Open(t.Context(), etcdstore.Options{Endpoints: []string{e.Endpoint()}})
	require.NoError(t, err)
	defer s.Close()
	w, err := s.Watch(t.Context(), "/a", metadata.WatchNode)
	require.NoError(t, err)
	<-w.C()
	begin := time.Now()
	require.NoError(t, e.Close(t.Context()))
	require.Less(t, time.Since(begin), 4*time.Second)
}

func TestEtcdOptionErrors(t *testing.T) {
	e, err := StartEtcd(t.Context(), EtcdOptions{Dir: t.TempDir(), ListenClient: "127.0.0.1:0"})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	for name, opts := range map[string]EtcdOptions{
		"Dir is empty":           {},
		"ListenClient":           {Dir: t.TempDir(), ListenClient: "nowhere"},
		"want an IP address":     {Dir: t.TempDir(), ListenClient: "example.org:1"},
		"address already in use": {Dir: t.TempDir(), ListenClient: e.Endpoint()},
	} {
		_, err := StartEtcd(context.Background(), opts)
		require.ErrorContains(t, err, name)
	}
}
