package namespace

import (
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
)

// example gives the fenced block of a page that has this label.
func example(t testing.TB, page, label string) string {
	t.Helper()
	b, err := os.ReadFile("../docs/format/" + page)
	require.NoError(t, err)
	m := regexp.MustCompile("(?s)```" + label + "\n(.*?)```").FindSubmatch(b)
	require.NotNil(t, m, "%s has no block %q", page, label)
	return strings.TrimSuffix(string(m[1]), "\n")
}

func TestDocumentedBinding(t *testing.T) {
	text := example(t, "namespace-binding.md", "text binding")
	b, err := ParseBinding([]byte(text), "unused")
	require.NoError(t, err)
	require.Equal(t, "/loglode/bookies", b.ClusterScope)
	require.Equal(t, text, string(b.Marshal()))
}

func TestDocumentedConfig(t *testing.T) {
	c, err := unmarshalConfig("k", []byte(example(t, "stream-config.md", "json config")))
	require.NoError(t, err)
	want := stream.Config{Compression: stream.CompressionLZ4, Labels: map[string]string{"team": "storage"}}.WithDefaults()
	require.Equal(t, want, c)
	value, err := marshalConfig(want)
	require.NoError(t, err)
	again, err := unmarshalConfig("k", value)
	require.NoError(t, err)
	require.Equal(t, want, again)
}

func FuzzParseBinding(f *testing.F) {
	raw, err := os.ReadFile("testdata/bindings.json")
	require.NoError(f, err)
	for _, m := range regexp.MustCompile(`"znode_hex"\s*:\s*"([0-9a-f]+)"`).FindAllSubmatch(raw, -1) {
		b, err := hex.DecodeString(string(m[1]))
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ParseBinding(b, "servers:1")
		if err != nil {
			require.ErrorIs(t, err, ErrBadBinding)
			return
		}
		again, err := ParseBinding(v.Marshal(), "other:1")
		require.NoError(t, err)
		require.Equal(t, v, again)
	})
}

func FuzzUnmarshalConfig(f *testing.F) {
	value, err := marshalConfig(stream.Config{})
	require.NoError(f, err)
	f.Add(value)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := unmarshalConfig("k", b)
		if err == nil {
			require.NoError(t, c.Validate())
		}
	})
}
