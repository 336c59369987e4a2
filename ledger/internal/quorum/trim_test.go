package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

func TestTrimKeepsAWriterGoing(t *testing.T) {
	w, err := NewWriter(WriterConfig{
		Quorum:   bk.Quorum{Ensemble: 1, Write: 1, Ack: 1},
		Metadata: Metadata{Segments: []Segment{{Ensemble: []bk.BookieID{"a:1"}}}},
	})
	require.NoError(t, err)
	e := bk.EntryID(0)
	for _, burst := range []bk.EntryID{100, 1, 1000, 3} {
		for range burst {
			_, err := w.Push(1)
			require.NoError(t, err)
		}
		size := len(w.ring)
		w.Trim()
		require.Len(t, w.ring, size, "not while adds are pending")
		for end := e + burst; e < end; e++ {
			w.Ack(e, w.Slot(0))
		}
		require.Equal(t, e-1, w.LAC())
		w.Trim()
		require.LessOrEqual(t, len(w.ring), 16)
	}
}
