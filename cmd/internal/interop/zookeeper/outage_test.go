//go:build interop

package zookeeper

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/javapeer"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/storetest"
	"github.com/loglode/loglode/metadata/zkstore"
)

// deadline is what outage tests give one call; slack is how much later it may
// end on a busy machine. limit bounds waits that only a failure reaches.
const (
	deadline = 300 * time.Millisecond
	slack    = 5 * time.Second
	limit    = 30 * time.Second
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

func txn(st metadata.Store, ops ...metadata.Op) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := st.Txn(ctx, ops...)
		return err
	}
}

func get(st metadata.Store, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := st.Get(ctx, key)
		return err
	}
}

// has says whether a node exists.
func has(t *testing.T, st metadata.Store, key string) bool {
	t.Helper()
	n, err := st.Get(t.Context(), key)
	if err != nil {
		require.ErrorIs(t, err, metadata.ErrNotFound)
	}
	return n.Version != 0
}

// await waits for a signal, or for c to be closed.
func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(limit):
		t.Fatal("nothing came")
	}
}

func closed(t *testing.T, st metadata.Store) { require.NoError(t, st.Close()) }

// A server that does not answer: reads are unavailable, a write that left this
// process is unknown, and all end by their deadline.
func TestStalledServer(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer closed(t, st)
	srv.link.Hold()
	err := ends(t, get(st, "/a"))
	require.ErrorIs(t, err, metadata.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	err = ends(t, txn(st, metadata.Create("/a", nil)))
	require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	err = ends(t, txn(st, metadata.Put("/b", nil))) // it reads first
	require.ErrorIs(t, err, metadata.ErrUnavailable)
	require.NotErrorIs(t, err, metadata.ErrUnknownOutcome)
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
	require.True(t, has(t, st, "/a"), "a read is answered after the write before it")
}

// No server at all: a write that never left is unavailable, not unknown.
func TestUnreachableServer(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer closed(t, st)
	srv.link.SetCut(true)
	require.ErrorIs(t, ends(t, get(st, "/a")), metadata.ErrUnavailable)
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
	st, err := zkstore.Open(t.Context(), zkstore.Options{Servers: []string{srv.link.Addr()}, RequestTimeout: deadline})
	require.NoError(t, err)
	defer closed(t, st)
	srv.link.Hold()
	begin := time.Now()
	require.ErrorIs(t, get(st, "/a")(t.Context()), metadata.ErrUnavailable)
	require.ErrorIs(t, txn(st, metadata.Create("/a", nil))(t.Context()), metadata.ErrUnknownOutcome)
	require.Less(t, time.Since(begin), 2*deadline+slack)
	srv.link.Resume()
}

// A server that goes silent is noticed, and the next connection serves.
func TestSilentServerIsLeft(t *testing.T) {
	srv := newServer(t)
	second := storetest.NewLink(t, zk.Addr)
	st, err := zkstore.Open(t.Context(), zkstore.Options{
		Servers: []string{srv.link.Addr(), second.Addr()}, SessionTimeout: time.Second,
	})
	require.NoError(t, err)
	defer closed(t, st)
	require.NoError(t, txn(st, metadata.Create("/a", nil))(t.Context()))
	for _, link := range []*storetest.Link{srv.link, second} { // it is on one of them
		link.Hold()
		require.NoError(t, get(st, "/a")(t.Context()))
		link.Resume()
	}
}

// A transaction that is too large is a plain error: nothing of it happened, and
// trying again is of no use. The largest that is allowed is taken.
func TestTooLarge(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer closed(t, st)
	err := txn(st, metadata.Create("/a", nil), metadata.Create("/b", make([]byte, 1<<20)))(t.Context())
	require.ErrorIs(t, err, zkstore.ErrTooLarge)
	require.NotErrorIs(t, err, metadata.ErrUnknownOutcome)
	require.NotErrorIs(t, err, metadata.ErrUnavailable)
	require.False(t, has(t, st, "/a"))
	var ops []metadata.Op
	name := strings.Repeat("n", 4000)
	for i := range 245 {
		ops = append(ops, metadata.Create(fmt.Sprintf("/%s%d", name, i), nil))
	}
	require.NoError(t, txn(st, ops...)(t.Context()))
	require.NoError(t, txn(st, metadata.Create("/large", make([]byte, 1<<20-1<<13)))(t.Context()))
	n, err := st.Get(t.Context(), "/large")
	require.NoError(t, err)
	require.Len(t, n.Value, 1<<20-1<<13)
}

// A holder that is cut off gives its session up by its own clock, and its nodes
// go; after that it can open a new one.
func TestSessionOfACutOffHolder(t *testing.T) {
	srv := newServer(t)
	st, other := srv.open(t), srv.direct(t)
	defer closed(t, st)
	defer closed(t, other)
	ses, err := st.Session(t.Context(), metadata.SessionOptions{TTL: time.Second})
	require.NoError(t, err)
	require.NoError(t, txn(st, metadata.Create("/e", nil).WithSession(ses.ID()))(t.Context()))
	w, err := other.Watch(t.Context(), "/e", metadata.WatchNode)
	require.NoError(t, err)
	srv.link.SetCut(true)
	begin := time.Now()
	await(t, ses.Done())
	require.Less(t, time.Since(begin), time.Second+slack)
	require.ErrorIs(t, txn(st, metadata.Create("/f", nil).WithSession(ses.ID()))(t.Context()), metadata.ErrSessionLost)
	for has(t, other, "/e") {
		await(t, w.C())
	}
	srv.link.SetCut(false)
	ses, err = st.Session(t.Context(), metadata.SessionOptions{TTL: time.Second})
	require.NoError(t, err)
	require.NoError(t, txn(st, metadata.Create("/e", nil).WithSession(ses.ID()))(t.Context()))
}

// A holder whose server goes silent learns no later than by its own clock.
func TestSessionOfASilentServer(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer closed(t, st)
	ses, err := st.Session(t.Context(), metadata.SessionOptions{TTL: time.Second})
	require.NoError(t, err)
	srv.link.Hold()
	begin := time.Now()
	await(t, ses.Done())
	require.Less(t, time.Since(begin), time.Second+slack)
	srv.link.Resume()
}

// Short cuts of the connection do not end a session.
func TestSessionOutlivesShortCuts(t *testing.T) {
	srv := newServer(t)
	st, other := srv.open(t), srv.direct(t)
	defer closed(t, st)
	defer closed(t, other)
	ses, err := st.Session(t.Context(), metadata.SessionOptions{TTL: 3 * time.Second})
	require.NoError(t, err)
	// Another session of the same TTL, abandoned, measures the time.
	clock, err := other.Session(t.Context(), metadata.SessionOptions{TTL: 3 * time.Second})
	require.NoError(t, err)
	require.NoError(t, txn(other, metadata.Create("/clock", nil).WithSession(clock.ID()))(t.Context()))
	clock.Abandon()
	for has(t, other, "/clock") {
		srv.link.SetCut(true)
		srv.link.SetCut(false)
		require.Eventually(t, func() bool { // the first try may meet the dying connection
			return txn(st, metadata.Put("/x", nil).WithSession(ses.ID()))(t.Context()) == nil
		}, limit, time.Millisecond)
	}
	select {
	case <-ses.Done():
		t.Fatal("session lost")
	default:
	}
	require.True(t, has(t, other, "/x"))
	require.NoError(t, ses.Close(t.Context()))
	require.False(t, has(t, other, "/x"))
}

// Closing works over a connection that breaks meanwhile, and after Abandon.
func TestSessionClosedInTrouble(t *testing.T) {
	srv := newServer(t)
	st := srv.open(t)
	defer closed(t, st)
	for n := range 3 {
		ses, err := st.Session(t.Context(), metadata.SessionOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		require.NoError(t, txn(st, metadata.Create("/e", nil).WithSession(ses.ID()))(t.Context()))
		switch n {
		case 0:
			srv.link.LoseAnswer(1)
		case 1:
			srv.link.SetCut(true)
			srv.link.SetCut(false)
		case 2:
			ses.Abandon()
			await(t, ses.Done())
			require.True(t, has(t, st, "/e"))
		}
		require.NoError(t, ses.Close(t.Context()))
		await(t, ses.Done())
		require.False(t, has(t, st, "/e"), "case %d", n)
		require.NoError(t, ses.Close(t.Context()))
	}
	// Where nobody answers, it says so by the deadline.
	ses, err := st.Session(t.Context(), metadata.SessionOptions{TTL: 10 * time.Second})
	require.NoError(t, err)
	srv.link.SetCut(true)
	require.Error(t, ends(t, ses.Close))
	srv.link.SetCut(false)
}

// The Store's own session may expire: calls go on and no watch is lost.
func TestOwnSessionExpires(t *testing.T) {
	srv := newServer(t)
	other := srv.direct(t)
	defer closed(t, other)
	st, err := zkstore.Open(t.Context(), zkstore.Options{Servers: []string{srv.link.Addr()}, SessionTimeout: time.Second})
	require.NoError(t, err)
	defer closed(t, st)
	clock, err := other.Session(t.Context(), metadata.SessionOptions{TTL: 3 * time.Second})
	require.NoError(t, err)
	require.NoError(t, txn(other, metadata.Create("/p", nil), metadata.Create("/p/a", nil),
		metadata.Create("/clock", nil).WithSession(clock.ID()))(t.Context()))
	node, err := st.Watch(t.Context(), "/p/a", metadata.WatchNode)
	require.NoError(t, err)
	children, err := st.Watch(t.Context(), "/p", metadata.WatchChildren)
	require.NoError(t, err)
	await(t, node.C())
	await(t, children.C())
	srv.link.SetCut(true)
	clock.Abandon()
	w, err := other.Watch(t.Context(), "/clock", metadata.WatchNode)
	require.NoError(t, err)
	for has(t, other, "/clock") {
		await(t, w.C())
	}
	require.NoError(t, txn(other, metadata.Set("/p/a", []byte("1"), metadata.AnyVersion))(t.Context()))
	srv.link.SetCut(false)
	await(t, node.C())
	await(t, children.C())
	require.NoError(t, get(st, "/p/a")(t.Context()))
	require.NoError(t, txn(other, metadata.Set("/p/a", []byte("2"), metadata.AnyVersion))(t.Context()))
	await(t, node.C())
	await(t, children.C())
	n, err := st.Get(t.Context(), "/p/a")
	require.NoError(t, err)
	require.Equal(t, "2", string(n.Value))
}

// A server that restarts keeps nodes, sessions and watches.
func TestServerRestart(t *testing.T) {
	java, err := javapeer.Setup(t.Context())
	require.NoError(t, err)
	own, err := java.StartZooKeeper(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer own.Kill()
	st := openAt(t, own.Addr)
	defer closed(t, st)
	ses, err := st.Session(t.Context(), metadata.SessionOptions{TTL: 10 * time.Second})
	require.NoError(t, err)
	require.NoError(t, txn(st, metadata.Create("/e", []byte("1")).WithSession(ses.ID()))(t.Context()))
	w, err := st.Watch(t.Context(), "/e", metadata.WatchNode)
	require.NoError(t, err)
	await(t, w.C())
	own.Kill()
	require.ErrorIs(t, ends(t, get(st, "/e")), metadata.ErrUnavailable)
	require.NoError(t, own.Start(t.Context()))
	require.Eventually(t, func() bool {
		return txn(st, metadata.Set("/e", []byte("2"), metadata.AnyVersion))(t.Context()) == nil
	}, limit, 10*time.Millisecond)
	await(t, w.C())
	n, err := st.Get(t.Context(), "/e")
	require.NoError(t, err)
	require.Equal(t, "2", string(n.Value))
	require.Equal(t, ses.ID(), n.Session)
	require.NoError(t, ses.Close(t.Context()))
	require.False(t, has(t, st, "/e"))
}
