package segment

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

func (w *world) names(prefix string) []string {
	w.t.Helper()
	var out []string
	for i, err := range w.tree.List(w.t.Context(), prefix) {
		require.NoError(w.t, err)
		out = append(out, string(i.Name))
	}
	return out
}

func TestCreateListDelete(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	config := func(name string) metadata.Op {
		return metadata.Create(namespacePath+"/"+name+"/<config>", []byte(name))
	}
	for _, name := range []string{"b", "a", "a/x", "a/x/y", "deep/er/down", "ab"} {
		require.NoError(t, w.stream(name).Create(ctx, config(name)), name)
	}
	require.ErrorIs(t, w.stream("a").Create(ctx, config("a")), stream.ErrExists)
	_, err := w.store.Txn(ctx, metadata.Create(namespacePath+"/.reserved/x/<default>/ledgers", nil).WithParents())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a/x", "a/x/y", "ab", "b", "deep/er/down"}, w.names(""))
	require.Equal(t, []string{"a", "a/x", "a/x/y", "ab"}, w.names("a"))
	require.Equal(t, []string{"a/x", "a/x/y"}, w.names("a/"))
	require.Equal(t, []string{"deep/er/down"}, w.names("deep/e"))
	require.Empty(t, w.names("none"))
	for _, err := range w.tree.List(ctx, "../x") {
		require.ErrorIs(t, err, stream.ErrInvalidName)
	}
	for range w.tree.List(ctx, "") {
		break // stops without a complaint
	}

	require.NoError(t, w.stream("a").Delete(ctx))
	require.Equal(t, []string{"a/x", "a/x/y", "ab", "b", "deep/er/down"}, w.names(""))
	require.ErrorIs(t, w.stream("a").Delete(ctx), stream.ErrNotFound)
	_, err = w.store.Get(ctx, namespacePath+"/a/<config>")
	require.ErrorIs(t, err, metadata.ErrNotFound)
	require.NoError(t, w.stream("a").Create(ctx, config("a")), "and again")
	for _, name := range []string{"a/x/y", "a/x", "a", "ab", "b", "deep/er/down"} {
		require.NoError(t, w.stream(name).Delete(ctx))
		ok, err := w.stream(name).Exists(ctx)
		require.NoError(t, err)
		require.False(t, ok)
	}
	require.Empty(t, w.names(""))
}

// TestDeleteFencesTheWriter: nothing is acknowledged in a stream that is gone,
// and its ledgers go with it, the allocated one too.
func TestDeleteFencesTheWriter(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	c := claim(t, s)
	sw := start(t, c, 1)
	mustPut(t, sw, rec{txid: 1, payload: "a"})
	a, err := c.Allocate(t.Context(), one)
	require.NoError(t, err)
	require.NoError(t, w.stream("s").Delete(t.Context()))
	_, err = put(t, sw, rec{txid: 2, payload: "b"})
	require.ErrorIs(t, err, stream.ErrFenced)
	_, err = c.Start(t.Context(), a, 2)
	require.ErrorIs(t, err, stream.ErrFenced)
	require.Empty(t, w.ledgers.ids())
	require.Empty(t, w.dump(namespacePath))
	require.NoError(t, w.stream("s").Create(t.Context()))
	_, err = c.Start(t.Context(), a, 2)
	require.ErrorIs(t, err, stream.ErrFenced, "also in a new stream of the same name")
	_, err = c.Complete(t.Context(), sw)
	require.ErrorIs(t, err, stream.ErrFenced)
}

func TestRename(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	s := w.create("old")
	w.create("taken")
	c := claim(t, s)
	sw := start(t, c, 1)
	mustPut(t, sw, rec{txid: 1, payload: "a"})
	require.ErrorIs(t, s.Rename(ctx, "taken"), stream.ErrExists)
	require.ErrorIs(t, s.Rename(ctx, "../x"), stream.ErrInvalidName)
	sess, err := w.store.Session(ctx, metadata.SessionOptions{})
	require.NoError(t, err)
	lock, err := s.Lock(ctx, sess, "me", 0)
	require.NoError(t, err)
	require.ErrorIs(t, s.Rename(ctx, "new/name"), stream.ErrNotOwner)
	require.NoError(t, lock.Release(ctx))
	require.NoError(t, s.Rename(ctx, "new/name"))
	require.Equal(t, []string{"new/name", "taken"}, w.names(""))
	require.ErrorIs(t, s.Rename(ctx, "other"), stream.ErrNotFound)
	_, err = c.Complete(ctx, sw)
	require.ErrorIs(t, err, stream.ErrFenced)
	moved := w.stream("new/name")
	require.Equal(t, stream.TxID(1), claim(t, moved).LastTxID())
	require.Equal(t, []string{"1:0:0 1 a"}, records(t, moved))
}

func TestListRefusesGaps(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	_, err := w.stream("none").List(t.Context())
	require.ErrorIs(t, err, stream.ErrNotFound)
	add := func(i Info) {
		_, err := w.store.Txn(t.Context(), metadata.Create(metadata.Child(s.keys.ledgers, i.name()), i.text()))
		require.NoError(t, err)
	}
	done := func(n int64) Info {
		return Info{Version: 5, Segment: n, Ledger: bk.LedgerID(n), Completed: time.UnixMilli(1), Records: 1, StartSequence: n - 1}
	}
	add(done(1))
	add(done(2))
	add(Info{Version: 5, Segment: 2, Ledger: 2, InProgress: true}) // seen while it was completed
	infos, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 2)
	require.False(t, infos[1].InProgress)
	add(done(4))
	_, err = s.List(t.Context())
	require.ErrorIs(t, err, stream.ErrCorrupt)
	require.ErrorContains(t, err, "want segment 3 after segment 2, got 4")
}

func TestTruncateInsideTheOpenSegment(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	s := w.create("s")
	c := claim(t, s)
	sw := start(t, c, 1)
	for txid := stream.TxID(1); txid <= 4; txid++ {
		mustPut(t, sw, rec{txid: txid, payload: "x"})
	}
	watch, err := s.Watch(ctx)
	require.NoError(t, err)
	<-watch.C()
	require.NoError(t, s.Truncate(ctx, stream.DLSN{Segment: 1, Entry: 2}))
	<-watch.C() // those who follow the list hear of it
	require.Equal(t, []string{"1:2:0 3 x", "1:3:0 4 x"}, records(t, s))
	require.NoError(t, s.Truncate(ctx, stream.DLSN{Segment: 1, Entry: 1}))
	require.Equal(t, []string{"1:2:0 3 x", "1:3:0 4 x"}, records(t, s), "a truncation point never moves back")
	first, err := s.First(ctx)
	require.NoError(t, err)
	require.Equal(t, stream.DLSN{Segment: 1, Entry: 2}, first.DLSN)

	mustPut(t, sw, rec{txid: 5, payload: "y"})
	require.NoError(t, s.Truncate(ctx, stream.DLSN{Segment: 9, Entry: 9}))
	require.Empty(t, records(t, s))
	mustPut(t, sw, rec{txid: 6, payload: "z"})
	require.Equal(t, []string{"1:5:0 6 z"}, records(t, s), "what comes later is not cut off")
	info, err := c.Complete(ctx, sw)
	require.NoError(t, err)
	require.Equal(t, PartiallyTruncated, info.Status, "the completion keeps the mark")
	require.Equal(t, []string{"1:5:0 6 z"}, records(t, s))
	n, err := s.Count(ctx, stream.DLSN{Segment: 1, Entry: 4})
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	require.ErrorIs(t, s.Truncate(ctx, stream.DLSN{}), stream.ErrInvalidPosition)
	require.NoError(t, s.Truncate(ctx, stream.DLSN{Segment: 1, Entry: 6}))
	_, err = s.First(ctx)
	require.ErrorIs(t, err, stream.ErrEmpty)
}

// threeSegments completes three segments of one record each, now.
func threeSegments(t *testing.T, w *world, s *Stream) *Claim {
	c := claim(t, s)
	for n := stream.TxID(1); n <= 3; n++ {
		sw := start(t, c, n)
		mustPut(t, sw, rec{txid: n, payload: "x"})
		_, err := c.Complete(t.Context(), sw)
		require.NoError(t, err)
	}
	return c
}

// TestR42PurgeCutShort: the purge stops between the deletion of a ledger and of
// its node; the next one finishes, and no listed ledger was deleted.
func TestR42PurgeCutShort(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	s := w.create("s")
	threeSegments(t, w, s)
	n, err := s.Purge(ctx, 0)
	require.NoError(t, err)
	require.Zero(t, n, "nothing is truncated")
	require.NoError(t, s.Truncate(ctx, stream.DLSN{Segment: 3}))
	require.Len(t, w.ledgers.ids(), 3, "truncation deletes no ledger")
	w.store.fate = func(int, []metadata.Op) fate { return requestLost }
	_, err = s.Purge(ctx, 0)
	require.ErrorIs(t, err, stream.ErrUnavailable)
	require.Len(t, w.ledgers.ids(), 2)
	w.store.fate = nil
	_, err = s.First(ctx)
	require.NoError(t, err, "a truncated segment without ledger is in nobody's way")
	d, err := s.FindTxID(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, stream.DLSN{Segment: 2}, d, "the first that is readable")
	n, err = s.Purge(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Len(t, w.ledgers.ids(), 1)
	require.NoError(t, s.Truncate(ctx, stream.DLSN{Segment: 4}))
	n, err = s.Purge(ctx, 0)
	require.NoError(t, err)
	require.Zero(t, n, "the newest completed segment stays: it carries the numbers on")
	sw := start(t, claim(t, s), 3)
	require.Equal(t, int64(4), sw.Segment())
}

// TestR36RetentionByAge: age counts from the completion, not from txids; the
// open segment never goes, and a clock that went back pauses retention.
func TestR36RetentionByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := context.Background()
		s := w.create("s")
		c := threeSegments(t, w, s) // their txids say 1970
		start(t, c, 4e12)           // and this one 2096
		purged := func(age time.Duration) int {
			n, err := s.Purge(ctx, age)
			require.NoError(t, err)
			return n
		}
		<-time.After(time.Hour - time.Second)
		require.Zero(t, purged(time.Hour))
		<-time.After(time.Second)
		require.Zero(t, purged(0), "no retention by age")
		nodes, err := s.listNodes(ctx)
		require.NoError(t, err)
		future := nodes[2]
		future.info.Completed = time.Now().Add(2 * time.Hour)
		require.NoError(t, s.rewrite(ctx, []segmentNode{future}))
		require.Zero(t, purged(time.Hour), "paused")
		<-time.After(time.Hour)
		require.Equal(t, 2, purged(time.Hour))
		infos, err := s.List(ctx)
		require.NoError(t, err)
		require.Equal(t, int64(3), infos[0].Segment)
		require.Len(t, infos, 2)
	})
}

func TestLocks(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	s := w.create("s")
	session := func() metadata.Session {
		sess, err := w.store.Session(ctx, metadata.SessionOptions{})
		require.NoError(t, err)
		return sess
	}
	sa, sb := session(), session()
	a, err := s.Lock(ctx, sa, "client/b 1*~", 0)
	require.NoError(t, err)
	require.Regexp(t, `/s/<default>/lock/member_client%2Fb\+1\*%7E_s *\d+_0000000000$`, a.Key())
	var owner *stream.OwnerError
	_, err = s.Lock(ctx, sb, "b", 0)
	require.ErrorAs(t, err, &owner)
	require.Equal(t, stream.OwnerError{Stream: "s", Owner: "client/b 1*~"}, *owner)
	_, err = s.Lock(ctx, sb, "b", time.Millisecond)
	require.ErrorAs(t, err, &owner)
	require.Len(t, w.dump(s.keys.lock), 1, "who gives up leaves no member")

	again, err := s.Lock(ctx, sa, "client/b 1*~", 0)
	require.NoError(t, err, "one client in one session may hold it twice")
	require.NoError(t, again.Release(ctx))

	got := make(chan *Lock)
	go func() {
		b, err := s.Lock(ctx, sb, "b", time.Minute)
		if err == nil {
			got <- b
		}
		close(got)
	}()
	require.NoError(t, a.Release(ctx))
	b := <-got
	require.NotNil(t, b)
	require.NoError(t, a.Release(ctx), "releasing twice")
	require.NoError(t, sb.Close(ctx)) // and the lock goes with its session
	c, err := s.Lock(ctx, sa, "c", 0)
	require.NoError(t, err)
	require.NoError(t, c.Release(ctx))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.Lock(cancelled, sa, "c", 0)
	require.ErrorIs(t, err, context.Canceled)
}

// TestLockAnswerLost: a member whose creation was not answered is found again,
// not doubled.
func TestLockAnswerLost(t *testing.T) {
	for _, f := range []fate{answerLost, requestLost} {
		w := newWorld(t)
		s := w.create("s")
		sess, err := w.store.Session(t.Context(), metadata.SessionOptions{})
		require.NoError(t, err)
		lost := false
		w.store.fate = func(int, []metadata.Op) fate {
			if lost {
				return delivered
			}
			lost = true
			return f
		}
		l, err := s.Lock(t.Context(), sess, "me", 0)
		require.NoError(t, err)
		require.Len(t, w.dump(s.keys.lock), 1)
		require.NoError(t, l.Release(t.Context()))
		require.Empty(t, w.dump(s.keys.lock))
	}
}

func TestOptionsValidate(t *testing.T) {
	_, err := New(Options{Path: "relative", FirstSegment: -1, Region: 16, ClockSkewMax: -1})
	for _, field := range []string{"Store is nil", "Ledgers is nil", "Path", "FirstSegment -1", "Region 16", "ClockSkewMax"} {
		require.ErrorContains(t, err, field)
	}
	w := newWorld(t)
	tree, err := New(Options{Store: w.store, Path: namespacePath, Ledgers: new(ledger.Client)})
	require.NoError(t, err)
	require.Equal(t, int64(1), tree.opts.FirstSegment)
	_, err = tree.Stream("a//b")
	require.ErrorIs(t, err, stream.ErrInvalidName)
}

func TestMapError(t *testing.T) {
	require.NoError(t, MapError(nil))
	for _, c := range conditions {
		err := MapError(c.from)
		require.ErrorIs(t, err, c.from)
		require.ErrorIs(t, err, c.to)
		require.Equal(t, err, MapError(err), "once is enough")
	}
	require.Equal(t, context.Canceled, MapError(context.Canceled))
	q := &bk.QuorumError{Ledger: 1, Errs: []error{&bk.BookieError{Bookie: "b", Err: bk.ErrFenced}}}
	require.ErrorIs(t, MapError(q), stream.ErrFenced)
}
