package readers

import (
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
)

// The example of docs/format/checkpoint.md, both ways.
func TestDocumentedCheckpoint(t *testing.T) {
	page, err := os.ReadFile("../docs/format/checkpoint.md")
	require.NoError(t, err)
	m := regexp.MustCompile("(?s)```hex checkpoint\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, m)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(m[1])), ""))
	require.NoError(t, err)
	d, state, err := parseCheckpoint("x", b)
	require.NoError(t, err)
	require.Equal(t, stream.DLSN{Segment: 3, Entry: 2, Slot: 1}, d)
	require.Equal(t, "ok", string(state))
	require.Equal(t, b, appendCheckpoint(nil, d, state, 1))
}

func TestDamagedCheckpointIsRefused(t *testing.T) {
	good := appendCheckpoint(nil, stream.DLSN{Segment: 1}, []byte("state"), 7)
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x40
		_, _, err := parseCheckpoint("x", bad)
		require.Error(t, err, "byte %d", i)
		_, _, err = parseCheckpoint("x", good[:i])
		require.Error(t, err, "%d bytes", i)
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add(appendCheckpoint(nil, stream.DLSN{Segment: 1}, []byte("state"), 7))
	f.Add([]byte("LLCP\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, state, err := parseCheckpoint("x", b)
		if err != nil {
			return
		}
		again, state2, err := parseCheckpoint("x", appendCheckpoint(nil, d, state, 0))
		require.NoError(t, err)
		require.Equal(t, d, again)
		require.Equal(t, state, state2)
	})
}
