package ledger_test

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

// paced makes all bookies answer reads late, as latency says, and counts reads.
func (w *world) paced(latency func(fakebookie.Request) time.Duration) *atomic.Int64 {
	var reads atomic.Int64
	for _, b := range w.Bookies {
		b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Op != wire.OpRead && r.Op != wire.OpBatchRead {
				return fakebookie.Pass()
			}
			reads.Add(1)
			return fakebookie.Late(latency(r))
		})
	}
	return &reads
}

// R41: while bookies are well, speculative reads are less than 5 in 100, however
// the times of answers are distributed.
func TestR41_ExtraReadsAreFew(t *testing.T) {
	const seed = 41
	ms := func(r *rand.Rand, n int) time.Duration { return time.Duration(r.IntN(n*1000)+1) * time.Microsecond }
	for name, latency := range map[string]func(r *rand.Rand) time.Duration{
		"fast":       func(r *rand.Rand) time.Duration { return ms(r, 1) },
		"long tail":  func(r *rand.Rand) time.Duration { return ms(r, 1) * time.Duration(1+r.IntN(30)*r.IntN(2)*r.IntN(2)) },
		"two humps":  func(r *rand.Rand) time.Duration { return ms(r, 1) + 60*time.Millisecond*time.Duration(r.IntN(20)/19) },
		"rare stall": func(r *rand.Rand) time.Duration { return ms(r, 1) + 400*time.Millisecond*time.Duration(r.IntN(100)/99) },
		"slow":       func(r *rand.Rand) time.Duration { return 300*time.Millisecond + ms(r, 300) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Logf("seed %d; go test ./ledger -run %s", seed, t.Name())
			inWorld(t, 4, ledger.Options{}, func(w *world) {
				id := w.closedLedger(4, 3, 2, 500)
				rng := rand.New(rand.NewPCG(seed, seed))
				lock := make(chan struct{}, 1)
				reads := w.paced(func(fakebookie.Request) time.Duration {
					lock <- struct{}{}
					defer func() { <-lock }()
					return latency(rng)
				})
				r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
				const rounds = 10
				for range rounds {
					w.readAll(r, 499)
				}
				t.Logf("%d reads of %d entries", reads.Load(), rounds*500)
				require.Less(t, reads.Load(), int64(rounds*500*105/100))
			})
		})
	}
}

// R41: a bookie that is 100 ms slower for a second costs no read that long; it is
// asked less meanwhile, and as often as before some seconds later.
func TestR41_OneSlowBookieAfterAnother(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 3, 2, 300)
		var slow atomic.Pointer[bk.BookieID]
		reads := w.paced(func(r fakebookie.Request) time.Duration {
			if s := slow.Load(); s != nil && *s == r.Bookie {
				return 101 * time.Millisecond
			}
			return time.Millisecond
		})
		r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
		round := func(d time.Duration) (n int, longest time.Duration) {
			for start := time.Now(); time.Since(start) < d; n++ {
				before := time.Now()
				_, err := r.Read(w.ctx, bk.EntryID(n%300))
				require.NoError(t, err)
				longest = max(longest, time.Since(before))
			}
			return n, longest
		}
		round(time.Second) // so that it is known how fast answers are
		for i, b := range w.Bookies {
			slow.Store(&w.Bookies[i].ID)
			b.Forget()
			n, longest := round(time.Second)
			require.Less(t, longest, 50*time.Millisecond)
			require.Greater(t, n, 600, "nearly as many as when all is well")
			require.Less(t, len(b.Seen()), 20)
			slow.Store(nil)
			round(2 * time.Second)
			b.Forget()
			n, _ = round(time.Second)
			require.Greater(t, len(b.Seen()), n/4, "it has its share again")
		}
		require.Less(t, reads.Load(), int64(13*1000*105/100))
	})
}

// R41: when all bookies are slow at once, say because of their load, that is not
// answered with more load.
func TestR41_GeneralSlownessIsNoReasonToReadMore(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		id := w.closedLedger(4, 3, 2, 200)
		var all atomic.Int64
		all.Store(int64(time.Millisecond))
		reads := w.paced(func(fakebookie.Request) time.Duration { return time.Duration(all.Load()) })
		r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
		read := func() {
			done := make(chan error)
			for e := range bk.EntryID(200) {
				go func() {
					_, err := r.Read(w.ctx, e)
					done <- err
				}()
			}
			for range 200 {
				require.NoError(t, <-done)
			}
		}
		for range 10 {
			read()
		}
		all.Store(int64(35 * time.Millisecond))
		before := reads.Load()
		for range 10 {
			read()
		}
		extra := reads.Load() - before - 2000
		require.Positive(t, extra)
		require.LessOrEqual(t, extra, int64(16+2000*4/100))
	})
}

// R41: a bookie that hangs is left after a moment, by all reads that wait for it,
// and tried again once a second.
func TestR41_HungBookieIsLeftAtOnce(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		id := w.closedLedger(4, 3, 2, 1000)
		w.paced(func(fakebookie.Request) time.Duration { return time.Millisecond })
		r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
		w.readAll(r, 999)
		hung := w.ensemble(id)[1]
		hung.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		hung.Forget()
		start := time.Now()
		for range 3 {
			w.readAll(r, 999)
		}
		require.Less(t, time.Since(start), time.Second, "as much as half of the reads wait at once")
		for time.Since(start) < 4*time.Second {
			_, err := r.Read(w.ctx, 1)
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(hung.Seen()), 300)
	})
}

// R41: the first valid copy wins; a bad one does not, however fast it is.
func TestR41_BadCopyDoesNotWin(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 3, 2, 1)
		ens := w.ensemble(id)
		ens[0].SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Late(3 * time.Second) })
		ens[1].SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Corrupt() })
		ens[2].SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Late(time.Second / 2) })
		r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
		start := time.Now()
		ent, err := r.Read(w.ctx, 0)
		require.NoError(t, err)
		require.Equal(t, payload(0), ent.Payload)
		require.Equal(t, 2500*time.Millisecond, time.Since(start).Round(time.Millisecond))
	})
}

// R41: what waits for a read ends with it.
func TestR41_NothingOutlivesAReadThatIsOver(t *testing.T) {
	inWorld(t, 4, ledger.Options{SpeculativeReadTimeout: 10 * time.Millisecond}, func(w *world) {
		id := w.closedLedger(4, 3, 2, 100)
		r := w.open(w.c, id, ledger.NoRecovery)
		measure := func() (goroutines int, heap uint64) {
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return runtime.NumGoroutine(), m.HeapAlloc
		}
		w.readAll(r, 99)
		for _, b := range w.Bookies {
			b.SetHook(nil)
		}
		goroutines, heap := measure()
		for i := range 20_000 {
			_, err := r.Read(w.ctx, bk.EntryID(i%100))
			require.NoError(t, err)
			if i%1000 == 0 {
				for _, b := range w.Bookies {
					b.Forget()
				}
			}
		}
		for _, b := range w.Bookies {
			b.Forget()
		}
		after, heapAfter := measure()
		require.Equal(t, goroutines, after)
		require.Less(t, heapAfter, heap+1<<20)
	})
}

// A reader that is away for a while and comes back does not take its own
// absence for the bookie's silence.
func TestR41_AbsentReaderIsNoSilentBookie(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 3, 2, 2000)
		c := w.client(ledger.Options{Events: ledger.Events{
			SpeculativeRead: func(bk.LedgerID, bk.EntryID, bk.BookieID) { t.Error("a speculative read") },
		}})
		r := w.open(c, id, ledger.NoRecovery)
		for ent, err := range r.Entries(w.ctx, 0, 1999) {
			require.NoError(t, err)
			if ent.ID%100 == 0 {
				<-time.After(3 * time.Second)
			}
		}
	})
}

// Replicas that answer much slower than others are asked after them.
func TestRule40_FarReplicasAreAskedLast(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 3, 2, 300)
		far := w.Bookies[1]
		w.paced(func(r fakebookie.Request) time.Duration {
			if r.Bookie == far.ID {
				return 30 * time.Millisecond
			}
			return time.Millisecond
		})
		r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
		for e := range bk.EntryID(60) {
			_, err := r.Read(w.ctx, e)
			require.NoError(t, err)
		}
		far.Forget()
		start := time.Now()
		for e := range bk.EntryID(300) {
			_, err := r.Read(w.ctx, e)
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(far.Seen()), 1+int(time.Since(start)/time.Second), "probes alone")
	})
}
