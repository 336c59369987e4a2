package segment

import (
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
)

// TestDocumentedExamples parses what docs/format shows.
func TestDocumentedExamples(t *testing.T) {
	page := func(name string) map[string]string {
		b, err := os.ReadFile("../docs/format/" + name)
		require.NoError(t, err)
		out := map[string]string{}
		for _, m := range regexp.MustCompile("(?s)```(?:hex|text) (\\S+)\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
			out[m[1]] = strings.TrimSpace(m[2])
		}
		return out
	}
	ex := page("segment.md")
	require.Len(t, ex, 2)
	open, err := parseInfo("x", []byte(ex["in-progress"]))
	require.NoError(t, err)
	require.Equal(t, Info{Version: 5, Segment: 1, InProgress: true, FirstTxID: 1001, LastTxID: stream.InvalidTxID,
		LastEntry: -1, LastSlot: -1, StartSequence: -1}, open)
	done, err := parseInfo("x", []byte(ex["partially-truncated"]))
	require.NoError(t, err)
	require.False(t, done.InProgress)
	require.Equal(t, PartiallyTruncated, done.Status)
	require.Equal(t, int64(11), done.Records)
	require.Equal(t, stream.DLSN{Segment: 1, Entry: 6}, done.First())
	require.Equal(t, stream.DLSN{Segment: 1, Entry: 20}, done.Last())
	require.Equal(t, stream.TxID(1011), done.LastTxID)

	ex = page("stream-tree.md")
	require.Equal(t, hex.EncodeToString(layoutVersion), ex["version"])
}
