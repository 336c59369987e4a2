package entrylog

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

func testBody(l bk.LedgerID, e bk.EntryID, payload string) []byte {
	d, err := bk.NewDigester(bk.DigestCRC32C, nil)
	if err != nil {
		panic(err)
	}
	return d.AppendEntry(nil, l, e, e-1, int64(len(payload)), []byte(payload))
}

func openStore(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	require.NoError(t, fs.MkdirAll("/l", 0o755))
	s, err := Open(fs, "/l", 64<<10)
	require.NoError(t, err)
	return s
}

type place struct {
	log  LogID
	off  int64
	body []byte
}

func fill(t testing.TB, s *Store, n int) []place {
	t.Helper()
	var out []place
	for e := range bk.EntryID(n) {
		b := testBody(bk.LedgerID(e%3), e, strings.Repeat("x", int(e)*7))
		log, off, err := s.Append(b)
		require.NoError(t, err)
		out = append(out, place{log, off, b})
		if e%50 == 49 {
			require.NoError(t, s.Sync())
		}
	}
	require.NoError(t, s.Sync())
	return out
}

func TestReadAndScan(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, fs)
	places := fill(t, s, 300)
	check := func() {
		t.Helper()
		for _, p := range places {
			got, err := s.Read(p.log, p.off, bk.BodyLedger(p.body), bk.BodyEntry(p.body), len(p.body), []byte("kept"))
			require.NoError(t, err)
			require.Equal(t, append([]byte("kept"), p.body...), got)
		}
	}
	check()
	require.NoError(t, s.Close())
	s = openStore(t, fs)
	check()
	logs, err := s.Logs()
	require.NoError(t, err)
	require.Greater(t, len(logs), 2)
	i := 0
	for _, log := range logs {
		bytes := map[bk.LedgerID]int64{}
		require.NoError(t, s.Scan(log, func(off int64, body []byte) error {
			require.Equal(t, places[i], place{log, off, append([]byte{}, body...)})
			bytes[bk.BodyLedger(body)] += int64(len(body)) + RecordOverhead
			i++
			return nil
		}))
		rows, ok, err := s.Ledgers(log)
		require.NoError(t, err)
		require.True(t, ok || log == logs[len(logs)-1], "all but the last are closed")
		for _, r := range rows {
			require.Equal(t, bytes[r.Ledger], r.Bytes)
		}
	}
	require.Equal(t, len(places), i)
	log, _, err := s.Append(testBody(1, 1, "new log after a restart"))
	require.NoError(t, err)
	require.Equal(t, logs[len(logs)-1]+1, log)
	require.NoError(t, s.Close())
}

// TestEveryFlippedByteIsCorruption flips each byte of a record, and asks for
// the record at other places and under other names.
func TestEveryFlippedByteIsCorruption(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, fs)
	p := fill(t, s, 20)[10]
	data, err := fs.UnsafeGetFileDataBuffer("/l/" + fileName(p.log))
	require.NoError(t, err)
	l, e := bk.BodyLedger(p.body), bk.BodyEntry(p.body)
	for i := range int64(len(p.body) + RecordOverhead) {
		data[p.off+i] ^= 1
		_, err := s.Read(p.log, p.off, l, e, len(p.body), nil)
		require.ErrorIs(t, err, bk.ErrCorrupt, "byte %d", i)
		data[p.off+i] ^= 1
	}
	for _, err := range []error{
		func() error { _, err := s.Read(p.log, p.off, l+1, e, len(p.body), nil); return err }(),
		func() error { _, err := s.Read(p.log, p.off, l, e+1, len(p.body), nil); return err }(),
		func() error { _, err := s.Read(p.log, p.off+1, l, e, len(p.body), nil); return err }(),
		func() error { _, err := s.Read(p.log, p.off, l, e, len(p.body)-1, nil); return err }(),
	} {
		require.ErrorIs(t, err, bk.ErrCorrupt)
	}
	require.NoError(t, s.Close())
}

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

func TestDocumentedLog(t *testing.T) {
	b := appendHeader(nil, 1)
	body := testBody(7, 0, "hi")
	var scratch [12]byte
	b = appendRecord(b, &scratch, 1, int64(len(b)), body)
	b = appendFooter(b, int64(len(b)), []LedgerBytes{{7, int64(len(body)) + RecordOverhead}})
	doc := docHex(t, "entrylog.md", "log")
	require.Equal(t, hex.EncodeToString(doc), hex.EncodeToString(b))
	require.NoError(t, checkHeader(doc, 1))
	got, err := parseRecord(doc[headerSize:], 1, headerSize)
	require.NoError(t, err)
	require.Equal(t, body, got)
	off, n, ok := parseTrailer(doc[len(doc)-trailerSize:], int64(len(doc)))
	require.True(t, ok)
	rows, ok := parseFooter(doc[off:], n)
	require.True(t, ok)
	require.Equal(t, []LedgerBytes{{7, int64(len(body)) + RecordOverhead}}, rows)
}

// FuzzScan takes any bytes as an entry log: an answer, never a panic.
func FuzzScan(f *testing.F) {
	fs := vfs.NewMem()
	s := openStore(f, fs)
	fill(f, s, 200)
	require.NoError(f, s.Close())
	for _, log := range []LogID{1, 2} {
		data, err := fs.UnsafeGetFileDataBuffer("/l/" + fileName(log))
		require.NoError(f, err)
		f.Add(append([]byte{}, data[:min(len(data), 8192)]...), uint32(40), uint32(0))
		f.Add(append([]byte{}, data[max(0, len(data)-8192):]...), uint32(8000), uint32(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, at, xor uint32) {
		data = append([]byte{}, data...) // the engine's own may not change
		if n := uint32(len(data)); n > 0 {
			data[at%n] ^= byte(xor)
		}
		fs := vfs.NewMem()
		require.NoError(t, fs.MkdirAll("/l", 0o755))
		h, err := fs.Create("/l/"+fileName(1), writeClass)
		require.NoError(t, err)
		_, err = h.Write(data)
		require.NoError(t, err)
		require.NoError(t, h.Close())
		s := openStore(t, fs)
		seen := 0
		err = s.Scan(1, func(int64, []byte) error { seen++; return nil })
		_, _, err2 := s.Ledgers(1)
		_ = fmt.Sprint(err, err2) // an error must be printable
		require.NoError(t, s.Close())
	})
}
