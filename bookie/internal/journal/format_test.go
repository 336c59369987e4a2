package journal

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// docHex gives the bytes of the example called name in a format page, a fenced
// block; what follows a # is a comment.
func docHex(t testing.TB, page, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "format", page))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "```hex "+name+"\n")
	require.True(t, ok, "no example %q in %s", name, page)
	block, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	block = regexp.MustCompile(`(?m)#.*$`).ReplaceAllString(block, "")
	b, err := hex.DecodeString(strings.Join(strings.Fields(block), ""))
	require.NoError(t, err)
	return b
}

func TestDocumentedFileHeader(t *testing.T) {
	want := fileHeader{seq: 3, start: 0x4010000, prevSeq: 2, prevEnd: 0x4001078}
	b := docHex(t, "journal.md", "file-header")
	got, ok, err := parseFileHeader(b)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, got)
	require.Equal(t, b, want.append(nil))
}

func TestDocumentedGroup(t *testing.T) {
	const lsn = 0x4011000
	g := make([]byte, groupHeaderSize)
	key := append([]byte{0, 0, 0, 0, 0, 0, 0, 7}, "key"...)
	g = appendRecord(g, lsn+LSN(len(g)), TypeKey, key)
	g = appendRecord(g, lsn+LSN(len(g)), TypeFence, key[:8])
	groupHeader{lsn: lsn, size: uint32(len(g)), count: 2}.put(g)
	b := docHex(t, "journal.md", "group")
	require.Equal(t, hex.EncodeToString(b), hex.EncodeToString(g))
	h, ok := parseGroupHeader(b)
	require.True(t, ok)
	require.Equal(t, groupHeader{lsn: lsn, size: uint32(len(b)), count: 2}, h)
	typ, body, size, ok := parseRecord(b[groupHeaderSize:], lsn+groupHeaderSize)
	require.True(t, ok)
	require.Equal(t, TypeKey, typ)
	require.Equal(t, key, body)
	typ, body, _, ok = parseRecord(b[groupHeaderSize+size:], lsn+groupHeaderSize+LSN(size))
	require.True(t, ok)
	require.Equal(t, TypeFence, typ)
	require.Equal(t, key[:8], body)
}

// FuzzReplay takes any bytes as a journal file: an answer, never a panic.
func FuzzReplay(f *testing.F) {
	fs := vfs.NewMem()
	j := start(f, fs)
	for n := range 3 {
		appendWait(f, j, testRecord(n), testRecord(n+1))
	}
	require.NoError(f, j.Close())
	name := journalFiles(f, fs)[0]
	data := readFile(f, fs, name)[:4*blockSize]
	f.Add(data, uint32(4096), uint32(0))
	f.Add(data, uint32(5000), uint32(77))
	f.Fuzz(func(t *testing.T, data []byte, at, xor uint32) {
		if len(data) > 1<<20 {
			return
		}
		data = append([]byte{}, data...) // the engine's own may not change
		if n := uint32(len(data)); n > 0 {
			data[at%n] ^= byte(xor)
		}
		fs := vfs.NewMem()
		require.NoError(t, fs.MkdirAll("/j", 0o755))
		h, err := fs.Create("/j/"+name, writeClass)
		require.NoError(t, err)
		_, err = h.Write(data)
		require.NoError(t, err)
		require.NoError(t, h.Close())
		_, err = replayAll(fs, 0, 0)
		_ = err // any answer will do
	})
}
