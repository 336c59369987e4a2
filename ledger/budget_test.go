package ledger_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

// R27: one of three bookies stops reading. Every entry has its two
// acknowledgements, and all that the third has not taken counts in
// BytesInFlight: the writer waits until the bookie's time is over, once, and
// then goes on with another bookie, or without one. No add fails.
func TestR27_BytesForTheSlowestBookieCount(t *testing.T) {
	const (
		size   = 10 << 10
		budget = 1 << 20
		adds   = 3000 // 2 MB/s for 15 s
	)
	for spare := range 2 {
		for _, opts := range []ledger.Options{{}, {DelayEnsembleChange: true}} {
			t.Run(fmt.Sprintf("%d spare, delayed %v", spare, opts.DelayEnsembleChange), func(t *testing.T) {
				opts.BytesInFlight, opts.QueueBytes, opts.LACDelay = budget, 64<<20, -1
				inWorld(t, 3+spare, opts, func(w *world) {
					wr := w.create(3, 3, 2)
					w.append(wr, 3)
					gate := make(chan struct{})
					defer close(gate)
					victim := w.ensemble(wr.ID())[1]
					victim.SetHook(func(fakebookie.Request) fakebookie.Verdict {
						<-gate
						return fakebookie.Silent()
					})
					var held int64
					var stalls []time.Duration
					var wg sync.WaitGroup
					p := make([]byte, size)
					start := time.Now()
					for range adds {
						<-time.After(5 * time.Millisecond)
						before := time.Now()
						wg.Add(1)
						wr.Go(w.ctx, p, func(_ bk.EntryID, err error) {
							if err != nil {
								t.Error(err)
							}
							wg.Done()
						})
						held = max(held, wr.HeldBytes())
						if d := time.Since(before); d > 100*time.Millisecond {
							stalls = append(stalls, d)
						}
					}
					wg.Wait()
					took := time.Since(start)
					t.Logf("held at most %d bytes of %d; %d stalls: %v; %v for %v of adds", held, int64(budget), len(stalls), stalls, took, adds*5*time.Millisecond)
					require.LessOrEqual(t, held, budget+ledger.HeldSlack)
					require.Greater(t, held, int64(budget/2), "the test stalls the bookie")
					require.LessOrEqual(t, len(stalls), 1)
					require.Less(t, took, adds*5*time.Millisecond+6*time.Second)
					require.NoError(t, wr.Err())
					if spare > 0 && !opts.DelayEnsembleChange {
						require.NotContains(t, w.ensemble(wr.ID()), victim)
					}
				})
			})
		}
	}
}

// A bookie that is slow, and not silent, slows the writer down to its own pace.
func TestR27_SlowBookieSlowsTheWriter(t *testing.T) {
	inWorld(t, 4, ledger.Options{BytesInFlight: 256 << 10, LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		victim := w.ensemble(wr.ID())[1]
		victim.SetHook(func(fakebookie.Request) fakebookie.Verdict {
			<-time.After(10 * time.Millisecond) // about 1 MB/s
			return fakebookie.Pass()
		})
		var wg sync.WaitGroup
		held, start := int64(0), time.Now()
		for range 1000 {
			wg.Add(1)
			wr.Go(w.ctx, make([]byte, 10<<10), func(_ bk.EntryID, err error) {
				if err != nil {
					t.Error(err)
				}
				wg.Done()
			})
			held = max(held, wr.HeldBytes())
		}
		wg.Wait()
		require.Greater(t, time.Since(start), 5*time.Second)
		require.LessOrEqual(t, held, 256<<10+ledger.HeldSlack)
		require.Contains(t, w.ensemble(wr.ID()), victim, "nobody was replaced")
		victim.SetHook(nil)
		synctest.Wait()
		require.NotNil(t, victim.Entry(wr.ID(), 900), "it got what was kept for it")
		require.NoError(t, wr.Close(w.ctx))
	})
}

// An entry over the limit goes alone, also while a bookie is silent.
func TestR27_EntryOverTheLimit(t *testing.T) {
	inWorld(t, 3, ledger.Options{BytesInFlight: 1000}, func(w *world) {
		wr := w.create(3, 3, 2)
		gate := make(chan struct{})
		defer close(gate)
		w.Bookies[1].SetHook(func(fakebookie.Request) fakebookie.Verdict {
			<-gate
			return fakebookie.Silent()
		})
		start := time.Now()
		for range 5 {
			_, err := wr.Append(w.ctx, make([]byte, 1<<20))
			require.NoError(t, err)
		}
		require.Less(t, time.Since(start), time.Minute)
	})
}
