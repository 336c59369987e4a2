package record_test

import (
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

var fence = regexp.MustCompile("(?s)```hex (\\S+)\n(.*?)```")

// docExamples gives the hex examples of a page on a format, by name.
func docExamples(t *testing.T, page string) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile("../../docs/format/" + page)
	require.NoError(t, err)
	out := map[string][]byte{}
	for _, m := range fence.FindAllStringSubmatch(string(b), -1) {
		var digits strings.Builder
		for line := range strings.Lines(m[2]) {
			line, _, _ = strings.Cut(line, "#")
			digits.WriteString(strings.Join(strings.Fields(line), ""))
		}
		out[m[1]], err = hex.DecodeString(digits.String())
		require.NoError(t, err, m[1])
	}
	return out
}

// TestDocumentedExamples decodes what docs/format shows.
func TestDocumentedExamples(t *testing.T) {
	ex := docExamples(t, "record.md")
	require.Len(t, ex, 3)
	at := stream.DLSN{Segment: 1, Entry: 2}
	views, err := decode(ex["record"], false, false, at)
	require.NoError(t, err)
	require.Equal(t, []record.View{{
		Record: stream.Record{DLSN: at, TxID: 1001, Payload: []byte("hello")}, Position: 1, LastPosition: 1,
	}}, views)
	views, err = decode(ex["end-of-stream"], false, false, at)
	require.NoError(t, err)
	require.Equal(t, []record.View{{
		Record: stream.Record{DLSN: at, TxID: stream.EndOfStreamTxID, Payload: []byte("endOfStream")},
		Flags:  record.FlagEndOfStream, Position: 10, LastPosition: 10,
	}}, views)
	views, err = decode(ex["record-set"], false, false, at)
	require.NoError(t, err)
	require.Len(t, views, 3)
	require.Equal(t, "three", string(views[2].Payload))
	require.Equal(t, int64(7), views[2].Position)
	require.Equal(t, int64(2), views[2].DLSN.Slot)

	ex = docExamples(t, "entry.md")
	require.Len(t, ex, 3)
	views, err = decode(ex["entry"], true, false, at)
	require.NoError(t, err)
	require.Len(t, views, 1)
	require.Equal(t, "hello", string(views[0].Payload))
	views, err = decode(ex["entry-lz4"], true, false, at)
	require.NoError(t, err)
	require.Len(t, views, 2)
	require.Equal(t, strings.Repeat("a", 40), string(views[0].Payload))
	require.Equal(t, strings.Repeat("b", 44), string(views[1].Payload))
	var d stream.DLSN
	require.NoError(t, d.UnmarshalBinary(ex["dlsn"]))
	require.Equal(t, stream.DLSN{Segment: 1, Entry: 2, Slot: 3}, d)
}
