package wire

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFormatPageExample decodes the hex example of the format page.
func TestFormatPageExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/format/proxy.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "```hex\n")
	require.True(t, ok)
	text, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	var digits strings.Builder
	hexes := regexp.MustCompile(`^ *((?:[0-9a-f]{2})+ ?)+(?:  |$)`)
	for line := range strings.Lines(text) {
		m := hexes.FindString(strings.TrimRight(line, "\n"))
		require.NotEmpty(t, m, "%q", line)
		digits.WriteString(strings.ReplaceAll(m, " ", ""))
	}
	frame := unhex(t, digits.String())
	msg, err := NewFrameReader(bytes.NewReader(frame), 0).Next()
	require.NoError(t, err)
	c, err := DecodeCall(msg)
	require.NoError(t, err)
	require.Equal(t, WriteWithContext, c.Method)
	require.EqualValues(t, 6, c.Seq)
	require.Equal(t, "stream-1", c.Stream)
	require.Equal(t, "hello", string(c.Data[0]))
	require.Equal(t, []string{"/10.0.0.1:8000"}, c.Context.TriedHosts)
	require.NoError(t, ChecksumError(c))
	again, err := AppendCall(nil, c)
	require.NoError(t, err)
	require.Equal(t, frame, again)
}
