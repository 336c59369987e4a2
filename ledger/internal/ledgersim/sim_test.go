package ledgersim

import (
	"flag"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	seedFlag = flag.Uint64("sim.seed", 0, "run this seed alone and print its history")
	nFlag    = flag.Uint64("sim.n", 2000, "number of seeds")
)

const replay = "replay with: go test ./ledger/internal/ledgersim -run 'TestSim$' -sim.seed %d -v"

// sweep runs seeds 1 to n on all processors and gives what they did in sum, and
// the lowest seed that broke an invariant, 0 for none.
func sweep(n uint64, o Options, stop bool) (total Stats, failed uint64, err error) {
	var next atomic.Uint64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				seed := next.Add(1)
				if seed > n {
					return
				}
				o := o
				o.Seed = seed
				st, e := Run(o)
				mu.Lock()
				total = total.Plus(st)
				if e != nil && (failed == 0 || seed < failed) {
					failed, err = seed, e
				}
				over := stop && failed != 0
				mu.Unlock()
				if over {
					return
				}
			}
		})
	}
	wg.Wait()
	return total, failed, err
}

func TestSim(t *testing.T) {
	if *seedFlag != 0 {
		_, err := Run(Options{Seed: *seedFlag, Trace: func(line string) { t.Log(line) }})
		require.NoError(t, err)
		return
	}
	total, seed, err := sweep(*nFlag, Options{}, true)
	require.NoError(t, err, replay, seed)
	t.Logf("%d seeds: %+v", *nFlag, total)
	// A sweep in which nothing happens proves nothing.
	require.Greater(t, total.Acked, int(*nFlag))
	require.Greater(t, total.Changes, int(*nFlag)/4)
	require.Greater(t, total.Recovered, int(*nFlag)/4)
	require.Greater(t, total.Read, int(*nFlag))
}
