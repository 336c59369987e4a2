package segment

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// next reads one entry and gives its first record's payload.
func next(t *testing.T, r *Reader) string {
	t.Helper()
	e, err := r.Next(t.Context())
	require.NoError(t, err)
	var it record.Iterator
	r.Decode(&it, e)
	require.True(t, it.Next(), it.Err())
	return fmt.Sprintf("%v %s", it.View().DLSN, it.View().Payload)
}

func openLast(t *testing.T, s *Stream) *Reader {
	t.Helper()
	infos, err := s.List(t.Context())
	require.NoError(t, err)
	r, err := s.OpenReader(t.Context(), infos[len(infos)-1])
	require.NoError(t, err)
	return r
}

// TestReaderFollowsTheSegmentInProgress reads what is there, waits for more,
// goes on after its context ended, and ends with the segment.
func TestReaderFollowsTheSegmentInProgress(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	c := claim(t, s)
	sw := start(t, c, 1)
	for n := range 5 {
		mustPut(t, sw, rec{txid: 1, payload: fmt.Sprint(n)})
	}
	r := openLast(t, s)
	require.False(t, r.Closed())
	require.True(t, r.Info().InProgress)
	require.Equal(t, int64(4), r.LAC())
	for n := range 3 {
		require.True(t, r.Ready())
		require.Equal(t, fmt.Sprintf("1:%d:0 %d", n, n), next(t, r))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Next(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "1:3:0 3", next(t, r))
	require.Equal(t, "1:4:0 4", next(t, r))
	require.False(t, r.Ready())
	_, err = r.Next(ended)
	require.ErrorIs(t, err, context.Canceled)

	got := make(chan string)
	go func() {
		e, err := r.Next(context.Background())
		got <- fmt.Sprint(e.ID, err)
	}()
	mustPut(t, sw, rec{txid: 1, payload: "5"})
	require.Equal(t, "5 <nil>", <-got)
	mustPut(t, sw, rec{txid: 1, payload: "6"})
	_, err = c.Complete(t.Context(), sw)
	require.NoError(t, err)
	require.Equal(t, "1:6:0 6", next(t, r))
	for range 2 {
		_, err = r.Next(t.Context())
		require.Equal(t, io.EOF, err)
	}
	require.True(t, r.Closed())
	r.SeekTo(2)
	require.Equal(t, "1:2:0 2", next(t, r))
	r.SeekTo(6)
	require.Equal(t, "1:6:0 6", next(t, r))
	require.NoError(t, r.Close())
}

// TestReaderCallersContexts: each call may have a context of its own; one that
// ended after its call does not disturb the next.
func TestReaderCallersContexts(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	sw := start(t, claim(t, s), 1)
	for n := range 50 {
		mustPut(t, sw, rec{txid: 1, payload: fmt.Sprint(n)})
	}
	r := openLast(t, s)
	for n := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		e, err := r.Next(ctx)
		require.NoError(t, err)
		require.Equal(t, int64(n), e.ID)
		cancel()
	}
	require.NoError(t, r.Close())
}

// TestReaderCloseInTheMiddle: a reader that is closed between two entries
// leaves no goroutine; TestMain looks.
func TestReaderCloseInTheMiddle(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	sw := start(t, claim(t, s), 1)
	for range 10 {
		mustPut(t, sw, rec{txid: 1, payload: "a"})
	}
	r := openLast(t, s)
	next(t, r)
	require.NoError(t, r.Close())
	_, err := r.Next(t.Context())
	require.ErrorIs(t, err, stream.ErrClosed)
	r.SeekTo(0)
}

func TestReaderCloseEndsAWait(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	sw := start(t, claim(t, s), 1)
	mustPut(t, sw, rec{txid: 1, payload: "a"})
	r := openLast(t, s)
	require.Equal(t, "1:0:0 a", next(t, r))
	got := make(chan error)
	go func() {
		_, err := r.Next(context.Background())
		got <- err
	}()
	require.NoError(t, r.Close())
	require.ErrorIs(t, <-got, stream.ErrClosed)
	require.NoError(t, r.Close())
	_, err := r.Next(t.Context())
	require.ErrorIs(t, err, stream.ErrClosed)
}

func TestLastRecordScansBackwards(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	sw := start(t, claim(t, s), 1)
	r := openLast(t, s)
	_, ok, err := r.LastRecord(t.Context(), true)
	require.NoError(t, err)
	require.False(t, ok)
	_, err = s.Last(t.Context())
	require.ErrorIs(t, err, stream.ErrEmpty)
	_, err = s.FindTxID(t.Context(), 1)
	require.ErrorIs(t, err, stream.ErrEmpty)
	mustPut(t, sw, rec{txid: 1, payload: "first"}, rec{txid: 2, payload: "user"}, rec{txid: 2, control: true})
	for range 40 {
		mustPut(t, sw, rec{txid: 2, control: true})
	}
	v, ok, err := r.LastRecord(t.Context(), false)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, stream.DLSN{Segment: 1, Slot: 1}, v.DLSN)
	require.Equal(t, "user", string(v.Payload))
	v, _, err = r.LastRecord(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, stream.DLSN{Segment: 1, Entry: 40}, v.DLSN)
	require.Equal(t, record.FlagControl, v.Flags)
}

// TestCount counts from every place of a stream with a completed segment and
// one in progress.
func TestCount(t *testing.T) {
	s := twoSegments(t, newWorld(t))
	for from, want := range map[stream.DLSN]int64{
		{}: 8, {Segment: 1}: 8, {Segment: 1, Slot: 1}: 7, {Segment: 1, Entry: 1}: 7, {Segment: 1, Entry: 10}: 3, {Segment: 1, Entry: 11}: 2,
		{Segment: 2}: 2, {Segment: 2, Entry: 2}: 1, {Segment: 2, Entry: 3}: 1, {Segment: 2, Entry: 3, Slot: 1}: 0, {Segment: 2, Entry: 99}: 0, {Segment: 3}: 0,
	} {
		n, err := s.Count(t.Context(), from)
		require.NoError(t, err)
		require.Equal(t, want, n, "from %v", from)
	}
}
