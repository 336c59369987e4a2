package namespace

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/readers"
	"github.com/loglode/loglode/stream"
)

func TestAppendReplayCloseReopen(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	require.Empty(t, payloads(t, st, stream.First(), stream.Now()))
	w := s.writer(st)
	ds := appendN(t, w, 1, 10)
	for i, d := range ds {
		require.Equal(t, stream.DLSN{Segment: 1, Entry: int64(i)}, d)
	}
	require.NoError(t, w.Close())
	require.Equal(t, numbers(1, 10), payloads(t, st, stream.First(), stream.Last()))
	w = s.writer(st)
	require.Equal(t, stream.TxID(10), w.LastTxID())
	ds = append(ds, appendN(t, w, 11, 5)...)
	require.Equal(t, int64(2), ds[10].Segment)
	require.NoError(t, w.Close())
	require.Equal(t, numbers(1, 15), payloads(t, st, stream.First(), stream.Now()))
	n, err := st.Count(bg(t), stream.First(), stream.Last())
	require.NoError(t, err)
	require.Equal(t, int64(15), n)
}

// Every form of a position, as a start and as an end, against 15 records in two
// segments.
func TestPositionsOfReplayAndCount(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	w := s.writer(st)
	ds := appendN(t, w, 1, 10)
	require.NoError(t, w.Close())
	w = s.writer(st)
	ds = append(ds, appendN(t, w, 11, 5)...)
	require.NoError(t, w.Close())
	at := func(i int) stream.Position { return stream.At(ds[i-1]) }
	after := func(i int) stream.Position { return stream.After(ds[i-1]) }
	tx := func(i int) stream.Position { return stream.FromTxID(stream.TxID(i)) }
	token, err := ds[3].MarshalBinary()
	require.NoError(t, err)
	tok, err := stream.Token(token)
	require.NoError(t, err)
	for _, c := range []struct {
		from, to stream.Position
		first, n int
	}{
		{stream.First(), stream.Last(), 1, 15}, {stream.First(), stream.Now(), 1, 15},
		{stream.Last(), stream.Last(), 15, 1}, {stream.Last(), stream.Now(), 15, 1}, {stream.Now(), stream.Now(), 0, 0},
		{stream.Now(), stream.Last(), 0, 0}, {stream.First(), stream.First(), 0, 0},
		{at(4), at(13), 4, 9}, {at(4), after(13), 4, 10}, {after(4), at(13), 5, 8}, {after(10), stream.Last(), 11, 5},
		{at(4), at(4), 0, 0}, {at(4), after(4), 4, 1}, {tok, stream.Last(), 4, 12},
		{tx(4), tx(13), 4, 9}, {tx(11), tx(12), 11, 1}, {tx(0), tx(99), 1, 15}, {tx(99), stream.Now(), 0, 0}, {tx(16), tx(99), 0, 0},
		{stream.FromTime(time.UnixMilli(7)), stream.FromTime(time.UnixMilli(9)), 7, 2},
		{stream.At(stream.BeforeFirstDLSN), stream.Last(), 1, 15}, {stream.At(stream.InitialDLSN), stream.Last(), 1, 15},
		{at(3), stream.At(stream.DLSN{Segment: 9}), 3, 13}, {stream.At(stream.DLSN{Segment: 1, Entry: 99}), stream.Last(), 11, 5},
		{stream.At(stream.DLSN{Segment: 7}), stream.Last(), 0, 0},
	} {
		t.Run(fmt.Sprintf("%v to %v", c.from, c.to), func(t *testing.T) {
			require.Equal(t, numbers(c.first, c.n), payloads(t, st, c.from, c.to))
			n, err := st.Count(bg(t), c.from, c.to)
			require.NoError(t, err)
			require.Equal(t, int64(c.n), n)
		})
	}
	for _, c := range [][2]stream.Position{{at(5), at(4)}, {after(5), at(5)}, {tx(9), tx(8)}, {at(12), tx(3)},
		{stream.FromTime(time.UnixMilli(9)), stream.FromTime(time.UnixMilli(1))}} {
		for _, err := range st.Replay(bg(t), c[0], c[1]) {
			require.ErrorIs(t, err, stream.ErrInvalidPosition)
		}
		_, err := st.Count(bg(t), c[0], c[1])
		require.ErrorIs(t, err, stream.ErrInvalidPosition)
	}
}

func TestResolve(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	for p, want := range map[stream.Position]stream.DLSN{
		stream.First(): stream.InitialDLSN, stream.Now(): stream.InitialDLSN, stream.FromTxID(5): stream.InitialDLSN,
	} {
		d, err := st.Resolve(bg(t), p)
		require.NoError(t, err)
		require.Equal(t, want, d, "%v", p)
	}
	_, err := st.Resolve(bg(t), stream.Last())
	require.ErrorIs(t, err, stream.ErrEmpty)
	w := s.writer(st)
	ds := appendN(t, w, 10, 3)
	require.NoError(t, w.Close())
	for p, want := range map[stream.Position]stream.DLSN{
		stream.First(): ds[0], stream.Last(): ds[2], stream.Now(): ds[2].Next(), stream.FromTxID(5): ds[0],
		stream.FromTxID(11): ds[1], stream.FromTxID(13): ds[2].Next(), stream.After(ds[0]): ds[0].Next(),
	} {
		d, err := st.Resolve(bg(t), p)
		require.NoError(t, err)
		require.Equal(t, want, d, "%v", p)
	}
}

// A tail follows appends and rolls, and ends when the stream is sealed.
func TestTailFollowsRollsUntilSealed(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{Roll: stream.Roll{SizeBytes: 2048, Every: -1}})
	const n = 120
	got := make(chan stream.Record, n)
	ended := make(chan error, 1)
	go func() {
		var last error
		for r, err := range s.stream(s.open(), "a").Tail(bg(t), stream.First()) {
			if last = err; err == nil {
				got <- r.Clone()
			}
		}
		ended <- last
	}()
	w := s.writer(st)
	pad := strings.Repeat("x", 300)
	var ds []stream.DLSN
	for i := range n {
		d, err := w.Append(bg(t), rec(0, fmt.Sprint(i, pad)))
		require.NoError(t, err)
		ds = append(ds, d)
		if i%7 == 0 { // as soon as it is visible, not only in the end
			for k := 0; k < 7 && len(ds) > 0; k++ {
				r := <-got
				require.Equal(t, ds[0], r.DLSN)
				ds = ds[1:]
			}
		}
	}
	require.NoError(t, w.Seal(bg(t)))
	for _, d := range ds {
		require.Equal(t, d, (<-got).DLSN)
	}
	require.NoError(t, <-ended)
	segments := 0
	for i, err := range st.Segments(bg(t)) {
		require.NoError(t, err)
		require.False(t, i.InProgress)
		segments++
	}
	require.Greater(t, segments, 3)
	_, err := st.Writer(bg(t))
	require.ErrorIs(t, err, stream.ErrSealed)
	require.NoError(t, st.Seal(bg(t)))
	r, err := st.Reader(bg(t), stream.Now())
	require.NoError(t, err)
	_, err = r.Next(bg(t))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, r.Close())
}

// R08: the last record of an idle stream is visible within a second, to a tail
// that was there before and to one that comes after.
func TestR08LastRecordOfAnIdleStreamIsVisible(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	w := s.writer(st)
	before, err := st.Reader(bg(t), stream.First())
	require.NoError(t, err)
	defer before.Close()
	for i := range 5 {
		appendN(t, w, i+1, 1)
		within, cancel := context.WithTimeout(context.Background(), time.Second)
		r, err := before.Next(within)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i+1), string(r.Payload))
		cancel()
	}
	after, err := s.stream(s.open(), "a").Reader(bg(t), stream.First())
	require.NoError(t, err)
	defer after.Close()
	for i := range 5 {
		within, cancel := context.WithTimeout(context.Background(), time.Second)
		r, err := after.Next(within)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i+1), string(r.Payload))
		cancel()
	}
	quiet, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = after.Next(quiet)
	require.ErrorIs(t, err, stream.ErrTimeout, "no control record shows as data")
	require.Equal(t, numbers(1, 5), payloads(t, st, stream.First(), stream.Last()))
}

// R32: empty records and segments of one entry are records like others.
func TestR32EmptyRecords(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	w := s.writer(st)
	d, err := w.Append(bg(t), stream.Record{})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	want := []stream.DLSN{d}
	w = s.writer(st)
	for range 4 {
		d, err := w.Append(bg(t), stream.Record{})
		require.NoError(t, err)
		want = append(want, d)
	}
	require.NoError(t, w.Abort())
	w = s.writer(st) // recovers
	ds, err := w.AppendBatch(bg(t), []stream.Record{{}, {Payload: []byte("1")}, {}})
	require.NoError(t, err)
	want = append(want, ds...)
	require.NoError(t, w.Close())
	var got []stream.DLSN
	sizes := []int{}
	for r, err := range st.Replay(bg(t), stream.First(), stream.Last()) {
		require.NoError(t, err)
		got = append(got, r.DLSN)
		sizes = append(sizes, len(r.Payload))
	}
	require.Equal(t, want, got)
	require.Equal(t, []int{0, 0, 0, 0, 0, 0, 1, 0}, sizes)
	var records []int64
	for i, err := range st.Segments(bg(t)) {
		require.NoError(t, err)
		records = append(records, i.Records)
	}
	require.Equal(t, []int64{1, 4, 3}, records)
}

// R33: a reader inside, or before, what was truncated gets the new first DLSN,
// or jumps when it may; one behind the cut is not touched.
func TestR33ReaderInsideTruncatedData(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	var ds []stream.DLSN
	for seg := range 10 {
		w := s.writer(st)
		ds = append(ds, appendN(t, w, seg*5+1, 5)...)
		require.NoError(t, w.Close())
	}
	inside, err := st.Reader(bg(t), stream.First(), readers.Prefetch(1))
	require.NoError(t, err)
	defer inside.Close()
	behind, err := st.Reader(bg(t), stream.At(ds[40]), readers.Prefetch(1))
	require.NoError(t, err)
	defer behind.Close()
	for i := range 7 {
		r, err := inside.Next(bg(t))
		require.NoError(t, err)
		require.Equal(t, ds[i], r.DLSN)
	}
	cut := ds[27] // third record of segment 6
	require.NoError(t, st.Truncate(bg(t), stream.At(cut)))
	n, err := st.Purge(bg(t))
	require.NoError(t, err)
	require.Equal(t, 5, n)
	var te *stream.TruncatedError
	read := 7
	for ; err == nil; read++ {
		_, err = inside.Next(bg(t))
	}
	require.ErrorAs(t, err, &te)
	require.ErrorIs(t, err, stream.ErrTruncated)
	require.Equal(t, cut, te.First)
	require.Less(t, read, 25, "it noticed before the end of what it had fetched")
	for i := 40; i < 50; i++ {
		r, err := behind.Next(bg(t))
		require.NoError(t, err)
		require.Equal(t, ds[i], r.DLSN)
	}
	fresh, err := st.Reader(bg(t), stream.At(ds[2]))
	require.NoError(t, err)
	defer fresh.Close()
	_, err = fresh.Next(bg(t))
	require.ErrorAs(t, err, &te)
	require.Equal(t, stream.TruncatedError{At: ds[2], First: cut}, *te)
	require.NoError(t, fresh.Seek(bg(t), stream.At(te.First)))
	r, err := fresh.Next(bg(t))
	require.NoError(t, err)
	require.Equal(t, cut, r.DLSN)
	_, err = st.Count(bg(t), stream.At(ds[2]), stream.Last())
	require.ErrorIs(t, err, stream.ErrTruncated)
	for _, from := range []stream.Position{stream.First(), stream.FromTxID(3)} {
		require.Equal(t, numbers(28, 23), payloads(t, st, from, stream.Last()), "%v is what is left", from)
		n, err := st.Count(bg(t), from, stream.Last())
		require.NoError(t, err)
		require.Equal(t, int64(23), n)
	}
	jump, err := st.Reader(bg(t), stream.At(ds[2]), readers.SkipTruncated())
	require.NoError(t, err)
	defer jump.Close()
	r, err = jump.Next(bg(t))
	require.NoError(t, err)
	require.Equal(t, cut, r.DLSN)
}

func TestTruncateEverythingAndInsideTheOpenSegment(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	require.NoError(t, st.Truncate(bg(t), stream.Now()), "nothing there, nothing to do")
	w := s.writer(st)
	ds := appendN(t, w, 1, 10)
	require.ErrorIs(t, st.Truncate(bg(t), stream.At(stream.DLSN{Segment: 5})), stream.ErrInvalidPosition)
	require.NoError(t, w.Flush(bg(t)))
	require.Eventually(t, func() bool { return len(payloads(t, st, stream.First(), stream.Last())) == 10 }, 5*time.Second, 10*time.Millisecond)
	require.NoError(t, st.Truncate(bg(t), stream.At(ds[6])))
	require.Equal(t, numbers(7, 4), payloads(t, st, stream.First(), stream.Last()))
	appendN(t, w, 11, 1)
	require.NoError(t, w.Close())
	require.Equal(t, numbers(7, 5), payloads(t, st, stream.First(), stream.Last()))
	require.NoError(t, st.Truncate(bg(t), stream.Now()))
	require.Empty(t, payloads(t, st, stream.First(), stream.Last()))
	w = s.writer(st)
	appendN(t, w, 12, 2)
	require.NoError(t, w.Close())
	require.Equal(t, numbers(12, 2), payloads(t, st, stream.First(), stream.Last()))
}

func TestReaderOptions(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{Compression: stream.CompressionLZ4})
	w := s.writer(st)
	for i := range 10 {
		_, err := w.Append(bg(t), rec(stream.TxID(1000+20*i), fmt.Sprint(i)))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	odd := readers.Filter(func(r stream.Record) bool { return r.TxID%40 != 0 })
	var got []string
	for r, err := range st.Replay(bg(t), stream.First(), stream.Last(), odd) {
		require.NoError(t, err)
		got = append(got, string(r.Payload))
	}
	require.Equal(t, []string{"1", "3", "5", "7", "9"}, got)
	none := readers.Filter(func(stream.Record) bool { return false })
	for range st.Replay(bg(t), stream.First(), stream.Last(), none) {
		t.Fatal("a record that was filtered out")
	}
	began := time.Now()
	n := 0
	for _, err := range st.Replay(bg(t), stream.First(), stream.Last(), readers.Pace(2)) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 10, n)
	require.GreaterOrEqual(t, time.Since(began), 85*time.Millisecond, "180 ms at twice the speed")
	idle := make(chan readers.Idle, 1)
	r, err := st.Reader(bg(t), stream.Last(), readers.IdleAfter(20*time.Millisecond, func(i readers.Idle) { idle <- i }))
	require.NoError(t, err)
	defer r.Close()
	last, err := r.Next(bg(t))
	require.NoError(t, err)
	lag, err := r.Lag(bg(t))
	require.NoError(t, err)
	require.Equal(t, readers.Lag{Last: last.DLSN}, lag)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = r.Next(ctx)
	require.ErrorIs(t, err, stream.ErrTimeout)
	require.Equal(t, last.DLSN, (<-idle).After)
	require.NoError(t, r.Seek(bg(t), stream.First()))
	lag, err = r.Lag(bg(t))
	require.NoError(t, err)
	require.Equal(t, int64(10), lag.Records)
	batch := make([]stream.Record, 4)
	k, err := r.NextBatch(bg(t), batch)
	require.NoError(t, err)
	require.Equal(t, "0", string(batch[0].Payload))
	lag, err = r.Lag(bg(t))
	require.NoError(t, err)
	require.Equal(t, readers.Lag{Records: int64(10 - k), Last: last.DLSN, Age: 20 * time.Duration(10-k) * time.Millisecond}, lag)
	require.NoError(t, r.Close())
	_, err = st.Reader(bg(t), stream.First(), readers.Prefetch(-1))
	require.ErrorContains(t, err, "PrefetchBytes -1")
}

// A reader that waits at the end of a stream is told when the stream is
// deleted, whether its last segment is in progress or completed, or there never
// was one.
func TestTailOfADeletedStreamEnds(t *testing.T) {
	s := startSystem(t, 3)
	for _, how := range []string{"in progress", "completed", "empty"} {
		t.Run(how, func(t *testing.T) {
			name := stream.Name(strings.ReplaceAll(how, " ", "-"))
			st := s.create(name, stream.Config{})
			if how != "empty" {
				w := s.writer(st)
				_, err := w.Append(bg(t), rec(1, "x"))
				require.NoError(t, err)
				if how == "completed" {
					require.NoError(t, w.Close())
				} else {
					defer func() { _ = w.Abort() }() // its stream is gone by then
				}
			}
			r, err := st.Reader(bg(t), stream.First())
			require.NoError(t, err)
			defer r.Close()
			if how != "empty" {
				_, err = r.Next(bg(t))
				require.NoError(t, err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := r.Next(bg(t))
				ended <- err
			}()
			require.NoError(t, s.ns.Delete(bg(t), name))
			require.ErrorIs(t, <-ended, stream.ErrNotFound)
		})
	}
}
