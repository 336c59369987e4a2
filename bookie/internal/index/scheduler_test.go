package index

import (
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// TestCompactionsGoOnAfterARest flushes while compactions rest, and after: they
// go on with the next flush, and after the next open.
func TestCompactionsGoOnAfterARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		x := openIndex(t, mem)
		n := 0
		flush := func() {
			n++
			b := x.NewBatch()
			require.NoError(t, b.Add(bk.LedgerID(n%3), bk.EntryID(n), Place{Log: 1, Offset: int64(n) * 100, Size: 24}))
			require.NoError(t, b.SetMark([]Mark{{uint64(n), 0}}))
			require.NoError(t, b.Commit())
			synctest.Wait()
		}
		tables := func() int64 { return int64(x.db.Metrics().Levels[0].TablesCount) }
		rest := func() {
			x.fs.opened.Store(false) // it rests as if it were opened
			for range 12 {
				flush()
			}
			x.fs.opened.Store(true)
			require.Greater(t, tables(), int64(8), "compactions rest")
		}
		rest()
		flush()
		synctest.Wait()
		require.Less(t, tables(), int64(8), "the next flush has them go on")
		rest()
		require.NoError(t, x.Close())
		x = openIndex(t, mem)
		synctest.Wait()
		require.Less(t, tables(), int64(8), "opened")
		require.NoError(t, x.Close())
	})
}
