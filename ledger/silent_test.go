package ledger_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

// R27: one of three bookies takes nothing any more. What waits for it is bounded
// by QueueBytes; entries complete by the other two; its adds that were sent and
// have no answer yet fail with those that could not be sent.
func TestR27MemoryBehindASilentBookieIsBounded(t *testing.T) {
	const queue = 1 << 20
	inWorld(t, 3, ledger.Options{QueueBytes: queue, BytesInFlight: queue / 2, LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		gate := make(chan struct{})
		victim := w.ensemble(wr.ID())[1]
		victim.SetHook(func(fakebookie.Request) fakebookie.Verdict {
			<-gate // it reads no further, so that writes to it stall
			return fakebookie.Pass()
		})
		done := make(chan error, 4096)
		push := func(n int) {
			for range n {
				wr.Go(w.ctx, make([]byte, 10<<10), func(_ bk.EntryID, err error) { done <- err })
			}
			for range n {
				require.NoError(t, <-done)
			}
		}
		push(60)
		require.NoError(t, wr.Err())
		for range 20 {
			push(60) // 12 MiB in all
		}
		close(gate)
		victim.SetHook(nil)
		<-time.After(10 * time.Second)
		push(10)
		synctest.Wait()
		require.NotNil(t, victim.Entry(wr.ID(), wr.LAC()), "it gets entries again")
		require.NoError(t, wr.Close(w.ctx))
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
		require.Equal(t, wr.LAC(), r.LAC())
	})
}

// An add that cannot be sent while others wait for their answers fails those
// too, once each: the ensemble change moves all of them.
func TestSendFailureWithAnswersOutstanding(t *testing.T) {
	inWorld(t, 4, ledger.Options{QueueBytes: 256 << 10, BytesInFlight: 64 << 10, FailWhenShort: true}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		gate := make(chan struct{})
		victim := w.ensemble(wr.ID())[0]
		read := 0
		var mu sync.Mutex
		victim.SetHook(func(fakebookie.Request) fakebookie.Verdict {
			mu.Lock()
			defer mu.Unlock()
			if read++; read > 5 {
				<-gate
			}
			return fakebookie.Hold(gate) // the first ones are taken, and not answered
		})
		next, start := wr.LAC()+1, time.Now()
		done := make(chan error, 256)
		for range 100 {
			wr.Go(w.ctx, make([]byte, 10<<10), func(e bk.EntryID, err error) {
				if err == nil && e != next {
					t.Errorf("entry %d completed, want %d", e, next)
				}
				next++
				done <- err
			})
			synctest.Wait()
		}
		for range 100 {
			require.NoError(t, <-done)
		}
		require.Less(t, time.Since(start), 5*time.Second, "no timeout was needed")
		close(gate)
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.NotContains(t, m.LastSegment().Ensemble, victim.ID)
		require.Len(t, m.Segments, 2, "one change")
		require.NoError(t, wr.Close(w.ctx))
	})
}
