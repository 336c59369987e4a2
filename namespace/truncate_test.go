package namespace

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/readers"
	"github.com/loglode/loglode/stream"
)

// A truncation inside an entry hides the slots before it from every reader that
// begins below it, and Count agrees with what they give.
func TestTruncationInsideAnEntry(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	w := s.writer(st)
	ds, err := w.AppendBatch(bg(t), []stream.Record{rec(1, "1"), rec(2, "2"), rec(3, "3"), rec(4, "4")})
	require.NoError(t, err)
	require.Equal(t, ds[0].Entry, ds[3].Entry, "one entry")
	appendN(t, w, 5, 2)
	require.NoError(t, w.Close())
	require.NoError(t, st.Truncate(bg(t), stream.At(ds[2])))
	for _, from := range []stream.Position{stream.First(), stream.FromTxID(1), stream.FromTxID(3)} {
		require.Equal(t, numbers(3, 4), payloads(t, st, from, stream.Last()), "%v", from)
		n, err := st.Count(bg(t), from, stream.Last())
		require.NoError(t, err)
		require.Equal(t, int64(4), n)
	}
	require.Equal(t, numbers(4, 3), payloads(t, st, stream.After(ds[2]), stream.Last()))
	jump, err := st.Reader(bg(t), stream.At(ds[0]), readers.SkipTruncated())
	require.NoError(t, err)
	defer jump.Close()
	r, err := jump.Next(bg(t))
	require.NoError(t, err)
	require.Equal(t, ds[2], r.DLSN)
}
