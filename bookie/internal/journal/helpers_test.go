package journal

import (
	"io"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// faultFS asks fault before each call on a file that is written.
type faultFS struct {
	vfs.FS
	fault func(op, name string) error
}

func (f *faultFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	if err := f.fault("open for writing", name); err != nil {
		return nil, err
	}
	h, err := f.FS.OpenReadWrite(name, c, o...)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: h, fs: f, name: name}, nil
}

type faultFile struct {
	vfs.File
	fs   *faultFS
	name string
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.fault("write at", f.name); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *faultFile) SyncData() error {
	if err := f.fs.fault("sync data", f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}

// journalFiles lists the files that were started.
func journalFiles(t testing.TB, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List("/j")
	require.NoError(t, err)
	var out []string
	for _, n := range names {
		info, err := openInfo(fs, "/j", n)
		require.NoError(t, err)
		if seq, ok := parseFileName(n); ok && info.header.seq == seq {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func readFile(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open("/j/" + name)
	require.NoError(t, err)
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return b
}

// copyJournal copies a journal, one file of it with other content.
func copyJournal(t testing.TB, from, to vfs.FS, name string, content []byte) {
	t.Helper()
	require.NoError(t, to.MkdirAll("/j", 0o755))
	for _, n := range journalFiles(t, from) {
		b := readFile(t, from, n)
		if n == name {
			b = content
		}
		f, err := to.Create("/j/"+n, writeClass)
		require.NoError(t, err)
		_, err = f.Write(b)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
}

// recordOffsets gives where the records of a file begin, and where the last
// one ends.
func recordOffsets(t testing.TB, data []byte, info fileInfo) (starts []int64, end int64) {
	t.Helper()
	for off := int64(blockSize); off < int64(len(data)); {
		h, ok := parseGroupHeader(data[off:])
		if !ok || h.lsn != info.lsn(off) {
			break
		}
		pos := off + groupHeaderSize
		for range h.count {
			starts = append(starts, pos)
			pos = recordEnd(data, pos)
		}
		end = pos
		off += int64(alignUp(LSN(h.size)))
	}
	return starts, end
}

func recordEnd(data []byte, off int64) int64 {
	return off + recordHeaderSize + int64(data[off+4])<<24 + int64(data[off+5])<<16 + int64(data[off+6])<<8 + int64(data[off+7])
}

// staleFile is the content of a recycled file: good groups of an earlier life,
// one a block.
func staleFile(info fileInfo) []byte {
	b := make([]byte, blockSize, info.size)
	for int64(len(b)) < info.size {
		lsn := info.lsn(int64(len(b))) - LSN(info.size)
		g := make([]byte, groupHeaderSize, blockSize)
		g = appendRecord(g, lsn+groupHeaderSize, TypeAdd, make([]byte, 300))
		groupHeader{lsn: lsn, size: uint32(len(g)), count: 1}.put(g)
		b = append(b, g[:blockSize]...)
	}
	return b
}

// padding reports whether off lies in the zeros behind a group.
func padding(data []byte, off int64) bool {
	group := off &^ (blockSize - 1)
	h, ok := parseGroupHeader(data[group:])
	return ok && off >= group+int64(h.size)
}
