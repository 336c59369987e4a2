package bookie

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// TestFlushPace measures, in virtual time, what one flush of 4 MiB takes: steps
// with pauses while nobody waits, none for a caller that waits or a cache that
// fills.
func TestFlushPace(t *testing.T) {
	const entries, size = 64, 64 << 10
	fill := func(t *testing.T, b *Bookie, l bk.LedgerID) {
		t.Helper()
		for e := range bk.EntryID(entries) {
			require.Equal(t, bk.StatusOK, add(b, 0, body(l, e, strings.Repeat("x", size)))[0])
		}
	}
	for name, during := range map[string]func(*testing.T, *Bookie){
		"nobody waits":        nil,
		"a caller waits":      func(_ *testing.T, b *Bookie) { b.shards[0].hurry.Add(1) }, // as Flush does
		"the cache is loaded": func(t *testing.T, b *Bookie) { fill(t, b, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := smallOptions(vfs.NewMem())
				o.WriteCacheBytes, o.JournalFileBytes = 8<<20, 16<<20
				o.FlushInterval = time.Hour
				took := make(chan time.Duration, 10)
				o.Events.Flushed = func(i FlushInfo) { took <- i.Duration }
				b := open(t, o)
				fill(t, b, 1)
				b.shards[0].kick <- struct{}{}
				if during != nil {
					synctest.Wait() // the flush is in its first pause
					during(t, b)
				}
				const steps = entries * size / paceBytes
				if d := <-took; during == nil {
					require.Equal(t, steps*pacePause, d)
				} else {
					require.LessOrEqual(t, d, 2*pacePause)
				}
				require.NoError(t, b.Close())
			})
		})
	}
}
