package journal

import (
	"bytes"
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

// bytesFile is a file that only has content.
type bytesFile struct {
	vfs.File
	r *bytes.Reader
}

func (f *bytesFile) ReadAt(p []byte, off int64) (int, error) { return f.r.ReadAt(p, off) }
func (f *bytesFile) Close() error                            { return nil }

// bytesFS has one file.
type bytesFS struct {
	vfs.FS
	data []byte
}

func (f *bytesFS) Open(string, ...vfs.OpenOption) (vfs.File, error) {
	return &bytesFile{r: bytes.NewReader(f.data)}, nil
}

func (f *bytesFS) PathJoin(elem ...string) string { return strings.Join(elem, "/") }

// FuzzReplay takes any bytes as a journal file: an answer, never a panic. The
// crcs of the headers are set right with fix, so that what comes behind them is
// reached too.
func FuzzReplay(f *testing.F) {
	fs := vfs.NewMem()
	j := start(f, fs)
	for n := range 3 {
		appendWait(f, j, testRecord(n), testRecord(n+1))
	}
	require.NoError(f, j.Close())
	name := journalFiles(f, fs)[0]
	data := readFile(f, fs, name)
	block := func(n int) []byte { return bytes.TrimRight(data[n*blockSize:(n+1)*blockSize], "\x00") }
	f.Add(block(0), block(1), block(2), false)
	f.Add(block(0), block(1)[:100], block(2), true)
	f.Add(block(0), block(1)[:20], block(3), false)
	f.Fuzz(func(t *testing.T, head, first, second []byte, fix bool) {
		var data []byte
		for i, b := range [][]byte{head, first, second} {
			b = append(b[:min(len(b), blockSize):min(len(b), blockSize)], make([]byte, blockSize-min(len(b), blockSize))...)
			if fix && i == 0 {
				seal(b[:fileHeaderSize])
			} else if fix {
				seal(b[:groupHeaderSize])
			}
			data = append(data, b...)
		}
		h, ok, err := parseFileHeader(data)
		if !ok || err != nil {
			return
		}
		j := &Journal{o: Options{FS: &bytesFS{data: data}, Dir: "/j"},
			files: []fileInfo{{name: name, header: h, size: int64(len(data))}}}
		records := 0
		err = j.Replay(h.prevEnd, 0, func(LSN, Type, []byte) error { records++; return nil })
		if err == nil && records > 0 && j.end < h.start {
			t.Fatalf("%d records, but the end is LSN %d and the file begins at %d", records, j.end, h.start)
		}
	})
}
