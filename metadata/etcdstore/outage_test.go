package etcdstore

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/loglode/loglode/metadata"
)

// deadline is what outage tests give one call; slack is how much later it may
// end on a busy machine.
const (
	deadline = 300 * time.Millisecond
	slack    = 5 * time.Second
)

// ends runs a call with a short deadline and checks that it ends by it.
func ends(t *testing.T, call func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	begin := time.Now()
	err := call(ctx)
	require.Less(t, time.Since(begin), deadline+slack)
	return err
}

func txn(st metadata.Store, op metadata.Op) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := st.Txn(ctx, op)
		return err
	}
}

func get(st metadata.Store, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := st.Get(ctx, key)
		return err
	}
}

// Case R21 on real connections: the connection breaks after the n-th request
// left and before its answer came.
func TestR21LostAnswersOnTheWire(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer func() { require.NoError(t, st.Close()) }()
	other := srv.direct(t)
	defer func() { require.NoError(t, other.Close()) }()
	ctx := t.Context()
	for n := range 50 {
		key := fmt.Sprintf("/n%d", n)
		step := 0
		lose := func() {
			if step == n%3 {
				srv.link.LoseAnswer(1)
			}
			step++
		}
		lose()
		made, err := metadata.CreateOnce(ctx, st, metadata.Create(key, []byte("token")), nil)
		require.NoError(t, err, "create, n=%d", n)
		lose()
		v, err := metadata.CompareAndSet(ctx, st, key, []byte("next"), made.Version)
		require.NoError(t, err, "set, n=%d", n)
		got, err := other.Get(ctx, key)
		require.NoError(t, err)
		require.Equal(t, v, got.Version)
		require.EqualValues(t, 2, got.Writes, "written twice, n=%d", n)
		lose()
		require.NoError(t, metadata.Remove(ctx, st, key, v), "delete, n=%d", n)
		_, err = other.Get(ctx, key)
		require.ErrorIs(t, err, metadata.ErrNotFound)
	}
	// Another client really wins.
	for n := range 10 {
		key := fmt.Sprintf("/w%d", n)
		_, err := other.Txn(ctx, metadata.Create(key, []byte("theirs")))
		require.NoError(t, err)
		srv.link.LoseAnswer(1)
		_, err = metadata.CreateOnce(ctx, st, metadata.Create(key, []byte("mine")), nil)
		require.ErrorIs(t, err, metadata.ErrExists)
	}
}

// A server that does not answer: reads are unavailable, a write that left this
// process is unknown, and all end by their deadline.
func TestStalledServer(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer func() { require.NoError(t, st.Close()) }()
	srv.link.Hold()
	err := ends(t, get(st, "/a"))
	require.ErrorIs(t, err, metadata.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	err = ends(t, txn(st, metadata.Create("/a", nil)))
	require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, ends(t, func(ctx context.Context) error {
		_, err := st.List(ctx, "/a", metadata.ListOptions{})
		return err
	}), metadata.ErrUnavailable)
	require.ErrorIs(t, ends(t, func(ctx context.Context) error {
		_, err := st.Session(ctx, metadata.SessionOptions{})
		return err
	}), metadata.ErrUnavailable)
	srv.link.Resume()
	_, err = st.List(t.Context(), "/", metadata.ListOptions{})
	require.NoError(t, err)
}

// No server at all: a write that never left is unavailable, not unknown.
func TestUnreachableServer(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer func() { require.NoError(t, st.Close()) }()
	srv.link.SetCut(true)
	// The first call may still meet the dying connection.
	require.Error(t, ends(t, get(st, "/a")))
	for range 3 {
		err := ends(t, txn(st, metadata.Create("/a", nil)))
		require.ErrorIs(t, err, metadata.ErrUnavailable)
		require.NotErrorIs(t, err, metadata.ErrUnknownOutcome)
	}
	srv.link.SetCut(false)
	require.NoError(t, txn(st, metadata.Create("/a", nil))(t.Context()))
}

// A call without a deadline of its own ends by RequestTimeout.
func TestRequestTimeout(t *testing.T) {
	srv := newServer(t)
	st, err := Open(t.Context(), Options{Endpoints: []string{srv.link.Addr()}, RequestTimeout: deadline})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	srv.link.Hold()
	begin := time.Now()
	require.ErrorIs(t, get(st, "/a")(t.Context()), metadata.ErrUnavailable)
	require.ErrorIs(t, txn(st, metadata.Create("/a", nil))(t.Context()), metadata.ErrUnknownOutcome)
	require.Less(t, time.Since(begin), 2*deadline+slack)
	srv.link.Resume()
}

func TestOpenErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	begin := time.Now()
	_, err = Open(t.Context(), Options{Endpoints: []string{addr}, DialTimeout: deadline})
	require.ErrorIs(t, err, metadata.ErrUnavailable)
	require.ErrorContains(t, err, addr)
	require.Less(t, time.Since(begin), deadline+slack)
	_, err = Open(t.Context(), Options{})
	require.ErrorContains(t, err, "Endpoints")
	_, err = Open(t.Context(), Options{Endpoints: []string{addr}, RequestTimeout: -1})
	require.ErrorContains(t, err, "RequestTimeout")
}

// A holder that is cut off gives its session up by its own clock, and its nodes
// go; after that it can open a new one.
func TestSessionOfACutOffHolder(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer func() { require.NoError(t, st.Close()) }()
	other := srv.direct(t)
	defer func() { require.NoError(t, other.Close()) }()
	ses, err := st.Session(t.Context(), metadata.SessionOptions{TTL: time.Second})
	require.NoError(t, err)
	require.NoError(t, txn(st, metadata.Create("/e", nil).WithSession(ses.ID()))(t.Context()))
	w, err := other.Watch(t.Context(), "/e", metadata.WatchNode)
	require.NoError(t, err)
	srv.link.SetCut(true)
	begin := time.Now()
	select {
	case <-ses.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the holder never learns")
	}
	require.Less(t, time.Since(begin), time.Second+slack)
	for other.has(t, "/e") {
		<-w.C()
	}
	srv.link.SetCut(false)
	ses, err = st.Session(t.Context(), metadata.SessionOptions{TTL: time.Second})
	require.NoError(t, err)
	require.NoError(t, txn(st, metadata.Create("/e", nil).WithSession(ses.ID()))(t.Context()))
}

func (s *Store) has(t *testing.T, key string) bool {
	n, err := s.Get(t.Context(), key)
	if err != nil {
		require.ErrorIs(t, err, metadata.ErrNotFound)
	}
	return n.Version != 0
}

// Short cuts of the connection do not end a session.
func TestSessionOutlivesShortCuts(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer func() { require.NoError(t, st.Close()) }()
	other := srv.direct(t)
	defer func() { require.NoError(t, other.Close()) }()
	ses, err := st.Session(t.Context(), metadata.SessionOptions{TTL: 3 * time.Second})
	require.NoError(t, err)
	// Another session of the same TTL, abandoned, measures the time.
	clock, err := other.Session(t.Context(), metadata.SessionOptions{TTL: 3 * time.Second})
	require.NoError(t, err)
	require.NoError(t, txn(other, metadata.Create("/clock", nil).WithSession(clock.ID()))(t.Context()))
	clock.Abandon()
	for other.has(t, "/clock") {
		srv.link.SetCut(true)
		srv.link.SetCut(false)
		require.Eventually(t, func() bool { // the first try may meet the dying connection
			return txn(st, metadata.Put("/x", nil).WithSession(ses.ID()))(t.Context()) == nil
		}, 30*time.Second, time.Millisecond)
	}
	select {
	case <-ses.Done():
		t.Fatal("session lost")
	default:
	}
}

// A server that restarts keeps nodes, sessions and watches.
func TestServerRestart(t *testing.T) {
	dir := t.TempDir()
	e, stop := startServer(t, dir, "127.0.0.1:0")
	addr := e.Clients[0].Addr().String()
	st := openAt(t, addr)
	defer func() { require.NoError(t, st.Close()) }()
	ses, err := st.Session(t.Context(), metadata.SessionOptions{TTL: 10 * time.Second})
	require.NoError(t, err)
	require.NoError(t, txn(st, metadata.Create("/e", []byte("1")).WithSession(ses.ID()))(t.Context()))
	w, err := st.Watch(t.Context(), "/e", metadata.WatchNode)
	require.NoError(t, err)
	<-w.C()
	stop()
	_, stop = startServer(t, dir, addr)
	defer stop()
	require.Eventually(t, func() bool {
		return txn(st, metadata.Set("/e", []byte("2"), metadata.AnyVersion))(t.Context()) == nil
	}, 30*time.Second, 10*time.Millisecond)
	<-w.C()
	n, err := st.Get(t.Context(), "/e")
	require.NoError(t, err)
	require.Equal(t, "2", string(n.Value))
	require.Equal(t, ses.ID(), n.Session)
	require.NoError(t, ses.Close(t.Context()))
	_, err = st.Get(t.Context(), "/e")
	require.ErrorIs(t, err, metadata.ErrNotFound)
}

// A transaction that etcd refuses for its size is a plain error: nothing of it
// happened, and trying again is of no use.
func TestTooManyOperations(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer func() { require.NoError(t, st.Close()) }()
	var ops []metadata.Op
	for i := range 200 {
		ops = append(ops, metadata.Create(fmt.Sprintf("/k%d", i), nil))
	}
	_, err := st.Txn(t.Context(), ops...)
	require.ErrorContains(t, err, "too many operations")
	require.NotErrorIs(t, err, metadata.ErrUnknownOutcome)
	require.NotErrorIs(t, err, metadata.ErrUnavailable)
	require.False(t, st.has(t, "/k0"))
}

// Keys are etcd's own, and the numbers of sequential children go with their
// parent.
func TestKeysOnEtcd(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer func() { require.NoError(t, st.Close()) }()
	keys := func() (keys []string) {
		resp, err := srv.raw.Get(t.Context(), "\x00", clientv3.WithFromKey())
		require.NoError(t, err)
		for _, kv := range resp.Kvs {
			keys = append(keys, string(kv.Key)+"="+string(kv.Value))
		}
		return keys
	}
	ctx := t.Context()
	_, err := st.Txn(ctx, metadata.Create("/p", []byte("v")))
	require.NoError(t, err)
	_, err = st.Txn(ctx, metadata.Create("/p/s-", []byte("w")).AsSequential())
	require.NoError(t, err)
	require.Equal(t, []string{"/.loglode/sequence/p=1", "/p=v", "/p/s-0000000000=w"}, keys())
	_, err = st.Txn(ctx, metadata.Delete("/p/s-0000000000", metadata.AnyVersion), metadata.Delete("/p", metadata.AnyVersion))
	require.NoError(t, err)
	require.Empty(t, keys())
}
