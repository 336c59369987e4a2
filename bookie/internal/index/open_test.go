package index

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// writes fails the n-th call that changes the disk, and with lasting each after
// it; 0 fails none.
type writes struct {
	n       int
	lasting bool

	mu     sync.Mutex // guards what follows
	calls  int
	failed map[string]int // by what was called
}

var opNames = map[errorfs.OpKind]string{
	errorfs.OpCreate: "create", errorfs.OpFileWrite: "write", errorfs.OpFileSync: "sync",
	errorfs.OpRemove: "remove", errorfs.OpRename: "rename", errorfs.OpMkdirAll: "mkdir",
}

func (w *writes) String() string { return "writes" }

func (w *writes) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if w.n == 0 || w.calls < w.n || w.calls > w.n && !w.lasting {
		return nil
	}
	name := op.Path[strings.LastIndexByte(op.Path, '/')+1:]
	w.failed[fmt.Sprintf("%s %s", opNames[op.Kind], strings.TrimRight(name, "0123456789"))]++
	return syscall.EIO
}

// TestOpenEndsWhateverFails fails each call that changes the disk while an
// index is opened, a new one and one that has entries: Open ends, with that
// error or, if it may, without, and the next one finds everything.
func TestOpenEndsWhateverFails(t *testing.T) {
	for _, filled := range []bool{false, true} {
		for _, lasting := range []bool{false, true} {
			t.Run(fmt.Sprintf("filled %v lasting %v", filled, lasting), func(t *testing.T) {
				w := &writes{lasting: lasting, failed: map[string]int{}}
				testOpenFailing(t, filled, w)
				calls := w.calls
				require.Greater(t, calls, 10)
				for w.n = 1; w.n <= calls; w.n++ {
					w.calls = 0
					testOpenFailing(t, filled, w)
				}
				t.Logf("%d calls: %v", calls, w.failed)
				for _, what := range []string{"create MANIFEST-", "write MANIFEST-", "sync MANIFEST-", "create marker.manifest."} {
					found := false
					for k := range w.failed {
						found = found || strings.HasPrefix(k, what)
					}
					require.True(t, found, "%s is among what failed", what)
				}
			})
		}
	}
}

func testOpenFailing(t *testing.T, filled bool, w *writes) {
	mem := vfs.NewCrashableMem()
	want := Place{Log: 1, Offset: 32, Size: 24}
	if filled {
		x := openIndex(t, mem)
		b := x.NewBatch()
		require.NoError(t, b.Add(1, 2, want))
		require.NoError(t, b.Commit())
		require.NoError(t, x.Close())
	}
	require.NoError(t, mem.MkdirAll("/i", 0o755))
	c := NewCache(1 << 20)
	defer c.Release()
	done := make(chan error, 1)
	go func() {
		x, err := Open(Options{FS: errorfs.Wrap(mem, w), Dir: "/i", Cache: c, Logger: zap.NewNop()})
		if err == nil {
			err = x.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if w.n == 0 {
			require.NoError(t, err)
		} else if err != nil {
			require.ErrorIs(t, err, syscall.EIO, "call %d", w.n)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("call %d: Open hangs", w.n)
	}
	for _, fs := range []vfs.FS{mem.CrashClone(vfs.CrashCloneCfg{}), mem} {
		x := openIndex(t, fs)
		if filled {
			got, ok, err := x.Find(1, 2, false)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, want, got)
		}
		require.NoError(t, x.Close())
	}
}
