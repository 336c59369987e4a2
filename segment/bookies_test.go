package segment

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

var three = stream.Quorum{Ensemble: 3, Write: 3, Ack: 2}

// realTree is a namespace whose ledgers are on real bookies.
func realTree(t *testing.T, c *bookietest.Cluster) *Tree {
	t.Helper()
	client, err := ledger.New(c.Cluster, ledger.Options{Dial: c.Dial, AddTimeout: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	tree, err := New(Options{Store: c.Store, Path: namespacePath, Ledgers: client})
	require.NoError(t, err)
	return tree
}

func realStream(t *testing.T, tree *Tree, name stream.Name) *Stream {
	t.Helper()
	s, err := tree.Stream(name)
	require.NoError(t, err)
	return s
}

func startOn(t *testing.T, c *Claim, first stream.TxID) *Writer {
	t.Helper()
	a, err := c.Allocate(t.Context(), three)
	require.NoError(t, err)
	w, err := c.Start(t.Context(), a, first)
	require.NoError(t, err)
	return w
}

// pump appends n records, one an entry, without waiting in between. It gives
// what was acknowledged and the first failure.
func pump(t *testing.T, w *Writer, first, n int) (acked []string, failed error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := first; i < first+n; i++ {
		var b record.Builder
		b.Reset(stream.CompressionLZ4, w.Position())
		payload := fmt.Sprintf("record-%d", i)
		require.NoError(t, b.Append(stream.TxID(i), []byte(payload)))
		p, err := b.Finish()
		require.NoError(t, err)
		wg.Add(1)
		w.Go(t.Context(), p, b.Summary(), func(_ int64, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && failed == nil:
				acked = append(acked, payload)
			case failed == nil:
				failed = err
			case err == nil:
				failed = fmt.Errorf("an acknowledgement after a failure: %w", failed)
			}
			wg.Done()
		})
	}
	wg.Wait()
	return acked, failed
}

func payloads(t *testing.T, s *Stream) []string {
	var out []string
	for _, r := range records(t, s) {
		out = append(out, r[strings.LastIndexByte(r, ' ')+1:])
	}
	return out
}

// TestStreamOnBookies: append, roll, complete, tail, truncate, purge and delete
// on three bookies, one of which crashes in between.
func TestStreamOnBookies(t *testing.T) {
	cluster := bookietest.Start(t, 3, bookietest.Options{Bookie: bookietest.Small()})
	ctx := t.Context()
	tree := realTree(t, cluster)
	s := realStream(t, tree, "s")
	require.NoError(t, s.Create(ctx))
	c := claim(t, s)
	w1 := startOn(t, c, 1)
	tailed := make(chan []string, 1)
	go func() { tailed <- tail(s, 1) }()
	acked, err := pump(t, w1, 1, 300)
	require.NoError(t, err)
	w2 := startOn(t, c, 300)
	info, err := c.Complete(ctx, w1)
	require.NoError(t, err)
	require.Equal(t, int64(300), info.Records)
	require.Equal(t, acked, <-tailed)
	cluster.Crash(1)
	more, err := pump(t, w2, 301, 100)
	require.NoError(t, err)
	cluster.Restart(1)
	_, err = c.Complete(ctx, w2)
	require.NoError(t, err)
	require.Equal(t, append(acked, more...), payloads(t, s))
	for _, txid := range []stream.TxID{1, 150, 300, 301, 399} {
		d, err := s.FindTxID(ctx, txid)
		require.NoError(t, err)
		require.Equal(t, stream.DLSN{Segment: 1 + int64(txid-1)/300, Entry: int64(txid-1) % 300}, d)
	}
	require.NoError(t, c.Seal(ctx, nil, three))
	require.NoError(t, s.Truncate(ctx, stream.DLSN{Segment: 2, Entry: 90}))
	n, err := s.Purge(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, more[90:], payloads(t, s))
	require.NoError(t, s.Delete(ctx))
	for id, err := range tree.opts.Ledgers.List(ctx) {
		require.NoError(t, err)
		require.Fail(t, "a ledger is left", "%d", id)
	}
}

// tail follows one segment from its start in a client's way until it ends.
func tail(s *Stream, segment int64) []string {
	ctx := context.Background()
	infos, err := s.List(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	r, err := s.OpenReader(ctx, infos[segment-1])
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = r.Close() }()
	var out []string
	var it record.Iterator
	var gaps record.GapCheck
	for {
		e, err := r.Next(ctx)
		if err == io.EOF {
			return out
		}
		if err != nil {
			return append(out, err.Error())
		}
		for r.Decode(&it, e); it.Next(); {
			if err := gaps.Check(it.View()); err != nil {
				return append(out, err.Error())
			}
			out = append(out, string(it.View().Payload))
		}
	}
}

// TestR20TwoWritersOnBookies: the second writer takes over while the first has
// hundreds of appends in flight. What the first got acknowledged is there, once
// and in order; it can never roll.
func TestR20TwoWritersOnBookies(t *testing.T) {
	cluster := bookietest.Start(t, 3, bookietest.Options{Bookie: bookietest.Small()})
	ctx := t.Context()
	s1 := realStream(t, realTree(t, cluster), "s")
	s2 := realStream(t, realTree(t, cluster), "s")
	require.NoError(t, s1.Create(ctx))
	var want []string
	next := 1
	for round := range 5 {
		c1 := claim(t, s1)
		w1 := startOn(t, c1, stream.TxID(next))
		acked, err := pump(t, w1, next, 20)
		require.NoError(t, err)
		want = append(want, acked...)
		taken := make(chan *Claim, 1)
		go func() {
			c2, err := s2.Claim(ctx)
			if err != nil {
				t.Error(err)
			}
			taken <- c2
		}()
		acked, err = pump(t, w1, next+20, 500)
		c2 := <-taken
		require.NotNil(t, c2)
		if err == nil { // all of it came before the fence
			_, err = pump(t, w1, next+520, 1)
		}
		require.ErrorIs(t, err, stream.ErrFenced, "round %d", round)
		_, err = c1.Complete(ctx, w1)
		require.ErrorIs(t, err, stream.ErrFenced)
		_, err = c1.Allocate(ctx, three)
		require.ErrorIs(t, err, stream.ErrFenced)
		require.GreaterOrEqual(t, int64(c2.LastTxID()), int64(next+19+len(acked)))
		// The recovery may have kept appends that were not acknowledged.
		for n := next + 20; n <= int(c2.LastTxID()); n++ {
			want = append(want, fmt.Sprintf("record-%d", n))
		}
		next = int(c2.LastTxID()) + 1
		require.Equal(t, want, payloads(t, s2))
	}
	infos, err := s1.List(ctx)
	require.NoError(t, err)
	for _, i := range infos {
		require.False(t, i.InProgress)
	}
}

// TestR32EmptyRecordsOnBookies: one-entry ledgers of length 0 or little more
// are recovered and read.
func TestR32EmptyRecordsOnBookies(t *testing.T) {
	cluster := bookietest.Start(t, 3, bookietest.Options{Bookie: bookietest.Small()})
	s := realStream(t, realTree(t, cluster), "s")
	require.NoError(t, s.Create(t.Context()))
	for n := range 3 {
		w := startOn(t, claim(t, s), 1)
		for range n + 1 {
			mustPut(t, w, rec{txid: 1})
		}
	}
	claim(t, s)
	require.Equal(t, []string{"1:0:0 1 ", "2:0:0 1 ", "2:1:0 1 ", "3:0:0 1 ", "3:1:0 1 ", "3:2:0 1 "}, records(t, s))
}

// TestNotEnoughBookies: the condition reaches the user of streams, and nothing
// half made stays.
func TestNotEnoughBookies(t *testing.T) {
	cluster := bookietest.Start(t, 2, bookietest.Options{Bookie: bookietest.Small()})
	tree := realTree(t, cluster)
	s := realStream(t, tree, "s")
	require.NoError(t, s.Create(t.Context()))
	c := claim(t, s)
	_, err := c.Allocate(t.Context(), three)
	require.ErrorIs(t, err, stream.ErrNotEnoughBookies)
	require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
	n, err := cluster.Store.Get(t.Context(), s.keys.allocation)
	require.NoError(t, err)
	require.Empty(t, n.Value)
	short, err := c.AllocateAtLeast(t.Context(), three) // 3/3/2
	require.NoError(t, err)
	require.True(t, short.Short())
	c.Discard(short)
	_, err = c.AllocateAtLeast(t.Context(), stream.Quorum{Ensemble: 3, Write: 3, Ack: 3})
	require.ErrorIs(t, err, stream.ErrNotEnoughBookies, "never below the ack quorum")
	cluster.Add()
	w := startOn(t, c, 1)
	mustPut(t, w, rec{txid: 1, payload: "a"})
	_, err = s.OpenReader(t.Context(), Info{Ledger: 1 << 40})
	require.ErrorIs(t, err, stream.ErrNotFound)
	_, err = cluster.Store.Txn(t.Context(), metadata.Check(s.keys.ledgers, metadata.AnyVersion))
	require.NoError(t, err)
}

// TestSegmentAfterLosingItsBookies: appends fail while two of three bookies are
// away. The segment is completed with what was acknowledged; what failed is not
// in the stream, and can be appended again.
func TestSegmentAfterLosingItsBookies(t *testing.T) {
	cluster := bookietest.Start(t, 3, bookietest.Options{Bookie: bookietest.Small()})
	ctx := t.Context()
	s := realStream(t, realTree(t, cluster), "s")
	require.NoError(t, s.Create(ctx))
	c := claim(t, s)
	w1 := startOn(t, c, 1)
	acked, err := pump(t, w1, 1, 5)
	require.NoError(t, err)
	cluster.Crash(0)
	cluster.Crash(1)
	none, err := pump(t, w1, 6, 5)
	require.ErrorIs(t, err, stream.ErrNotEnoughBookies)
	require.Empty(t, none)
	require.NoError(t, c.Err(), "it still owns the stream")
	info, err := c.Complete(ctx, w1)
	require.NoError(t, err)
	require.Equal(t, int64(5), info.Records)
	cluster.Restart(0)
	cluster.Restart(1)
	// The client may take a moment to connect to the bookies again; a segment
	// that fails meanwhile is completed, and the rest goes into the next one.
	var w2 *Writer
	for next := 6; next <= 10; {
		w2 = startOn(t, c, stream.TxID(next))
		more, err := pump(t, w2, next, 11-next)
		if err != nil {
			require.ErrorIs(t, err, stream.ErrNotEnoughBookies)
			<-time.After(10 * time.Millisecond)
		}
		acked, next = append(acked, more...), next+len(more)
		_, err = c.Complete(ctx, w2)
		require.NoError(t, err)
	}
	require.Equal(t, acked, payloads(t, s))
	_, err = put(t, w2, rec{txid: 11, payload: "late"})
	require.ErrorIs(t, err, stream.ErrClosed)
}
