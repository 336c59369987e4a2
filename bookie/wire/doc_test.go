package wire

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

var hexBlock = regexp.MustCompile("(?s)```hex ([a-z0-9 ]+)\n(.*?)```")

// Every hex example of docs/format/wire.md decodes, and encodes to the same
// bytes.
func TestWirePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/format/wire.md")
	require.NoError(t, err)
	seen := map[string]int{}
	for _, m := range hexBlock.FindAllStringSubmatch(string(page), -1) {
		kind, frame := m[1], unhex(t, strings.Join(strings.Fields(m[2]), ""))
		seen[kind]++
		if kind == "availability" {
			a, err := DecodeAvailability(frame)
			require.NoError(t, err)
			require.Equal(t, []bk.EntryID{0, 1, 3, 4, 6, 7}, slices.Collect(a.All()))
			continue
		}
		fr := NewFrameReader(bytes.NewReader(frame))
		require.NoError(t, fr.Fill())
		payload, err := fr.Next()
		require.NoError(t, err)
		require.Len(t, payload, len(frame)-LengthSize, "length prefix of %q", m[2])
		checkExample(t, kind, payload, m[2])
	}
	require.Equal(t, map[string]int{"v2 request": 3, "v2 response": 3, "v3 request": 2, "v3 response": 2, "availability": 1}, seen)
}

func checkExample(t *testing.T, kind string, payload []byte, text string) {
	switch kind {
	case "v2 request":
		var r Request
		require.NoError(t, DecodeRequest(&r, payload), text)
		require.Equal(t, bk.LedgerID(7), r.Ledger, text)
	case "v2 response":
		var r Response
		require.NoError(t, DecodeResponse(&r, payload), text)
		require.Equal(t, bk.LedgerID(7), r.Ledger, text)
	case "v3 request":
		m, err := DecodeRequestV3(payload)
		require.NoError(t, err, text)
		again, err := AppendV3(nil, m)
		require.NoError(t, err)
		require.Equal(t, payload, again[LengthSize:], text)
	case "v3 response":
		m, err := DecodeResponseV3(payload)
		require.NoError(t, err, text)
		again, err := AppendV3(nil, m)
		require.NoError(t, err)
		require.Equal(t, payload, again[LengthSize:], text)
	}
}
