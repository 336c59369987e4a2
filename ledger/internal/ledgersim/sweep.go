package ledgersim

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Failure is a schedule that broke an invariant.
type Failure struct {
	Options   Options
	Violation *Violation
}

const gcPercent = 800

// Sweep runs the n seeds from first on, on all processors, under o. It gives
// what they did in sum and the failure with the lowest seed, nil if there is
// none. With stop it ends soon after the first.
func Sweep(first, n uint64, o Options, stop bool) (Stats, *Failure) {
	// The live heap is so small that the collector would run all the time.
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	var next atomic.Uint64
	next.Store(first - 1)
	var mu sync.Mutex
	var total Stats
	var failed *Failure
	var over atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var r Runner
			var sum Stats
			for !over.Load() {
				seed := next.Add(1)
				if seed >= first+n {
					break
				}
				o := o
				o.Seed = seed
				st, v := r.Run(o)
				sum = sum.Plus(st)
				if v == nil {
					continue
				}
				mu.Lock()
				if failed == nil || seed < failed.Options.Seed {
					failed = &Failure{Options: o, Violation: v}
				}
				mu.Unlock()
				over.Store(stop)
			}
			mu.Lock()
			total = total.Plus(sum)
			mu.Unlock()
		})
	}
	wg.Wait()
	return total, failed
}
