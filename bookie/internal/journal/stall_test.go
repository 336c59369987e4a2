package journal

import (
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestNoNextFileStallsTheJournal takes the room for journal files away, then
// for writes, and gives it back: no record is left out, and none is answered as
// durable before it is.
func TestNoNextFileStallsTheJournal(t *testing.T) {
	for _, op := range []string{"open for writing", "write at"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testStall(t, op) })
		})
	}
}

func testStall(t *testing.T, op string) {
	var full atomic.Bool
	mem := vfs.NewMem()
	fs := &faultFS{FS: mem, fault: func(o, _ string) error {
		if full.Load() && o == op {
			return syscall.ENOSPC
		}
		return nil
	}}
	j := openJournal(t, fs)
	noFile, stalled := make(chan error, 10), make(chan error, 10)
	j.o.Failed = func(err error) { t.Errorf("failed: %v", err) }
	j.o.Stalled = func(err error) { stalled <- err }
	j.pool.noFile = func(err error) { noFile <- err }
	require.NoError(t, j.Start())
	synctest.Wait() // the second file is ready
	var want []record
	add := func(n int) error {
		w := make(waiter, 1)
		r := Record{TypeAdd, append(make([]byte, 8), make([]byte, 3000+n)...)}
		require.NoError(t, j.Append(w, []Record{r}))
		want = append(want, record{r.Type, string(r.Body)})
		return <-w
	}
	require.NoError(t, add(0))
	full.Store(true)
	n := 1
	for err := error(nil); err == nil; n++ {
		if err = add(n); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
		}
	}
	require.True(t, j.Stalled())
	require.ErrorIs(t, <-stalled, syscall.ENOSPC)
	if op == "open for writing" {
		require.ErrorIs(t, <-noFile, syscall.ENOSPC)
		require.Greater(t, n, 20, "the file that was ready is used up first")
	}
	require.ErrorIs(t, add(n), syscall.ENOSPC, "an append that was under way")
	require.True(t, j.WaitRoom(1<<30, 0), "nobody waits for room that may never come")
	full.Store(false)
	require.NoError(t, <-stalled)
	require.NoError(t, add(n+1))
	require.False(t, j.Stalled())
	if op == "open for writing" {
		require.NoError(t, <-noFile)
	}
	require.NoError(t, j.Close())
	got, err := replayAll(mem, 0, j.Synced())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestCloseOfAStalledJournal ends while there is no room.
func TestCloseOfAStalledJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		fs := &faultFS{FS: vfs.NewMem(), fault: func(o, _ string) error {
			if full.Load() {
				return syscall.ENOSPC
			}
			return nil
		}}
		j := openJournal(t, fs)
		require.NoError(t, j.Start())
		full.Store(true)
		w := make(waiter, 2)
		require.NoError(t, j.Append(w, []Record{testRecord(0)}))
		require.ErrorIs(t, <-w, syscall.ENOSPC)
		require.NoError(t, j.Append(w, []Record{testRecord(0)}))
		require.NoError(t, j.Close())
		require.Error(t, <-w)
		require.ErrorIs(t, j.Append(w, nil), ErrClosed)
	})
}

// TestStartOnAlmostFullDisk has room for a small file alone.
func TestStartOnAlmostFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &tightFS{FS: vfs.NewMem(), bytesMax: 16 * blockSize}
		require.NoError(t, fs.MkdirAll("/j", 0o755))
		j, err := Open(Options{FS: fs, Dir: "/j", FileBytes: 4 << 20, QueueBytes: 1 << 20})
		require.NoError(t, err)
		require.NoError(t, j.Start())
		appendWait(t, j, testRecord(2))
		require.NoError(t, j.Close())
		names, err := fs.List("/j")
		require.NoError(t, err)
		require.Len(t, names, 1, "half-made files do not stay")
	})
}

// tightFS refuses to write beyond bytesMax of a file.
type tightFS struct {
	vfs.FS
	bytesMax int64
}

func (f *tightFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	h, err := f.FS.OpenReadWrite(name, c, o...)
	return &tightFile{h, f.bytesMax}, err
}

type tightFile struct {
	vfs.File
	bytesMax int64
}

func (f *tightFile) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.bytesMax {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}
