package record

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
)

// An entry that is rebased is the entry that would have been built for the
// other segment.
func TestRebaseIsBuildingForAnotherSegment(t *testing.T) {
	fill := func(b *Builder, position int64) {
		b.Reset(stream.CompressionNone, position)
		var set SetBuilder
		set.Reset(stream.CompressionNone)
		for _, p := range []string{"x", "", "yy"} {
			require.NoError(t, set.Append([]byte(p)))
		}
		packed, err := set.Finish()
		require.NoError(t, err)
		require.NoError(t, b.Append(7, []byte("one")))
		require.NoError(t, b.Append(8, nil))
		require.NoError(t, b.AppendControl(8, ControlPayload))
		require.NoError(t, b.AppendSet(9, packed))
		require.NoError(t, b.Append(10, make([]byte, 300)))
	}
	for _, c := range [][2]int64{{0, 0}, {5, 0}, {0, 5}, {1 << 20, 3}} {
		var got, want Builder
		fill(&got, c[0])
		got.Rebase(c[1])
		fill(&want, c[1])
		g, err := got.Finish()
		require.NoError(t, err)
		w, err := want.Finish()
		require.NoError(t, err)
		require.Equal(t, w, g)
		require.Equal(t, want.Summary(), got.Summary())
	}
}
