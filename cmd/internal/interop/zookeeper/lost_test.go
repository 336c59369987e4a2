//go:build interop

package zookeeper

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

// Case R21 on real connections: the connection breaks instead of bringing the
// n-th answer, for each n until all of a create, an update and a delete are
// behind. Each is done once and its outcome known in the end.
func TestR21LostAnswersOnTheWire(t *testing.T) {
	srv := newServer(t)
	other := srv.direct(t)
	defer closed(t, other)
	ctx := t.Context()
	lost := 0
	for n := 1; ; n++ {
		st := srv.open(t)
		srv.link.LoseAnswer(n)
		key := fmt.Sprintf("/p%d/q/n", n)
		made, err := metadata.CreateOnce(ctx, st, metadata.Create(key, []byte("token")).WithParents(), nil)
		require.NoError(t, err, "create, n=%d", n)
		v, err := metadata.CompareAndSet(ctx, st, key, []byte("next"), made.Version)
		require.NoError(t, err, "set, n=%d", n)
		got, err := other.Get(ctx, key)
		require.NoError(t, err)
		require.Equal(t, v, got.Version)
		require.EqualValues(t, 2, got.Writes, "written twice, n=%d", n)
		require.NoError(t, metadata.Remove(ctx, st, key, v), "delete, n=%d", n)
		require.False(t, has(t, other, key))
		require.NoError(t, metadata.Remove(ctx, st, key, v))
		left := srv.link.LoseAnswer(0)
		closed(t, st)
		if left > 0 {
			break
		}
		lost++
	}
	require.Greater(t, lost, 5)
}

// The same for a transaction of a session with everything in it: it fails with
// an unknown outcome or not at all, and what is there is all of it or nothing.
func TestR21LostAnswersOfATransaction(t *testing.T) {
	srv := newServer(t)
	other := srv.direct(t)
	defer closed(t, other)
	ctx := t.Context()
	unknown := 0
	for n := 1; ; n++ {
		p := fmt.Sprintf("/p%d", n)
		require.NoError(t, txn(other, metadata.Create(p, nil), metadata.Create(p+"/set", nil), metadata.Create(p+"/del", nil))(ctx))
		st := srv.open(t)
		ses, err := st.Session(ctx, metadata.SessionOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		srv.link.LoseAnswer(n)
		err = txn(st, metadata.Check(p, metadata.AnyVersion), metadata.Create(p+"/a/b/new", nil).WithParents(),
			metadata.Create(p+"/e", nil).WithSession(ses.ID()), metadata.Set(p+"/set", []byte("x"), 1),
			metadata.Put(p+"/put", nil), metadata.Delete(p+"/del", 1), metadata.Create(p+"/s-", nil).AsSequential())(ctx)
		left := srv.link.LoseAnswer(0)
		if err != nil {
			require.ErrorIs(t, err, metadata.ErrUnknownOutcome, "n=%d", n)
			unknown++
		}
		// What was sent has arrived: only answers are lost.
		done := has(t, st, p+"/put")
		require.True(t, done || err != nil, "n=%d", n)
		for key, want := range map[string]bool{"/a/b/new": done, "/a": done, "/e": done, "/del": !done} {
			require.Equal(t, want, has(t, other, p+key), "%s, n=%d", key, n)
		}
		set, err := other.Get(ctx, p+"/set")
		require.NoError(t, err)
		require.Equal(t, done, set.Writes == 2, "n=%d", n)
		require.NoError(t, ses.Close(ctx))
		require.False(t, has(t, other, p+"/e"))
		closed(t, st)
		if left > 0 {
			break
		}
	}
	require.Positive(t, unknown)
}

// Another client really wins while the answer is lost.
func TestR21AnotherWins(t *testing.T) {
	srv := newServer(t)
	st, other := srv.open(t), srv.direct(t)
	defer closed(t, st)
	defer closed(t, other)
	for n := range 10 {
		key := fmt.Sprintf("/w%d", n)
		require.NoError(t, txn(other, metadata.Create(key, []byte("theirs")))(t.Context()))
		srv.link.LoseAnswer(1)
		_, err := metadata.CreateOnce(t.Context(), st, metadata.Create(key, []byte("mine")), nil)
		require.ErrorIs(t, err, metadata.ErrExists)
	}
}

// Parents that others make and delete all the time are no reason to fail.
func TestParentsVanishAllTheTime(t *testing.T) {
	srv := newServer(t)
	st, other := srv.open(t), srv.direct(t)
	defer closed(t, st)
	defer closed(t, other)
	ctx := t.Context()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			for _, key := range []string{"/00/0000", "/00"} {
				_, err := other.Txn(ctx, metadata.Delete(key, metadata.AnyVersion))
				if err != nil && !errors.Is(err, metadata.ErrNotFound) && !errors.Is(err, metadata.ErrNotEmpty) {
					done <- err
					return
				}
			}
		}
	}()
	for i := range 100 {
		key := fmt.Sprintf("/00/0000/L%04d", i)
		require.NoError(t, txn(st, metadata.Create(key, nil).WithParents())(ctx))
		require.NoError(t, txn(st, metadata.Delete(key, metadata.AnyVersion))(ctx))
	}
	close(stop)
	require.NoError(t, <-done)
}

// What a transaction needs of a session that is not this store's, or of two, is
// refused before anything is sent.
func TestSessionsOfATransaction(t *testing.T) {
	srv := newServer(t)
	st, other := srv.open(t), srv.direct(t)
	defer closed(t, st)
	defer closed(t, other)
	a, err := st.Session(t.Context(), metadata.SessionOptions{})
	require.NoError(t, err)
	b, err := st.Session(t.Context(), metadata.SessionOptions{})
	require.NoError(t, err)
	err = txn(st, metadata.Create("/a", nil).WithSession(a.ID()), metadata.Create("/b", nil).WithSession(b.ID()))(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, txn(other, metadata.Create("/a", nil).WithSession(a.ID()))(t.Context()), metadata.ErrSessionLost)
	require.False(t, has(t, st, "/a"))
	require.NoError(t, txn(st, metadata.Create("/a", nil).WithSession(a.ID()))(t.Context()))
	err = txn(st, metadata.Create("/a/child", nil))(t.Context())
	require.ErrorContains(t, err, "ephemeral")
	require.NotErrorIs(t, err, metadata.ErrUnknownOutcome)
	_, err = st.Session(t.Context(), metadata.SessionOptions{Resume: a.ID(), Secret: []byte("guessed")})
	require.ErrorIs(t, err, metadata.ErrSessionLost)
	require.True(t, has(t, other, "/a"))
}
