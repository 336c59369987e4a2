package journal

import (
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestNextFileIsFilledWithUse: what is ready of the next file follows what is
// written of the one in use, and is never short of it.
func TestNextFileIsFilledWithUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bytes = 8 << 20
		fs := vfs.NewMem()
		require.NoError(t, fs.MkdirAll("/j", 0o755))
		p := newPool(Options{FS: fs, Dir: "/j", FileBytes: bytes})
		f, size, err := p.start(1)
		require.NoError(t, err)
		require.EqualValues(t, bytes, size)
		filled := func() int64 {
			synctest.Wait()
			st, err := fs.Stat("/j/" + fileName(2))
			require.NoError(t, err)
			return st.Size()
		}
		require.EqualValues(t, zeroingSize, filled(), "nothing is written yet")
		for used := int64(0); used < bytes; used += 100 << 10 {
			p.progress(used, size)
			got := filled()
			require.GreaterOrEqual(t, got, min(used*5/4/zeroingSize*zeroingSize, bytes))
			require.LessOrEqual(t, got, min(used*5/4+2*zeroingSize, bytes))
		}
		next, size, err := p.take(2)
		require.NoError(t, err)
		require.EqualValues(t, bytes, size)

		// The third is not begun to speak of; who needs it now gets it whole.
		third, size, err := p.take(3)
		require.NoError(t, err)
		require.EqualValues(t, bytes, size)
		for _, f := range []vfs.File{f, next, third} {
			require.NoError(t, f.Close())
		}
		require.NoError(t, p.close())
		require.LessOrEqual(t, func() int64 { st, err := fs.Stat("/j/" + fileName(4)); require.NoError(t, err); return st.Size() }(),
			int64(2*zeroingSize), "a pool that ends fills no further")
	})
}
