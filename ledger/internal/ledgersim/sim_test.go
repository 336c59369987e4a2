package ledgersim

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// The environment is for make sim, the flags are for everybody else.
var (
	seedFlag = flag.Uint64("sim.seed", env("LOGLODE_SIM_SEED", 1), "first seed")
	nFlag    = flag.Uint64("sim.n", env("LOGLODE_SIM_N", 2000), "number of seeds; the history of a single one is printed")
)

func env(key string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(key), 10, 64); err == nil {
		return n
	}
	return otherwise
}

const replay = "replay with: go test ./ledger/internal/ledgersim -run 'TestSim$' -sim.seed %d -sim.n 1 -v"

// sweep runs n seeds from first on, on all processors, and gives what they did
// in sum, and the lowest seed that broke an invariant.
func sweep(first, n uint64, o Options, stop bool) (total Stats, failed uint64, err error) {
	var next atomic.Uint64
	next.Store(first - 1)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				seed := next.Add(1)
				if seed >= first+n {
					return
				}
				o := o
				o.Seed = seed
				st, e := Run(o)
				mu.Lock()
				total = total.Plus(st)
				if e != nil && (err == nil || seed < failed) {
					failed, err = seed, e
				}
				over := stop && err != nil
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
	if *nFlag == 1 {
		_, err := Run(Options{Seed: *seedFlag, Trace: func(line string) { t.Log(line) }})
		require.NoError(t, err)
		return
	}
	total, seed, err := sweep(*seedFlag, *nFlag, Options{}, true)
	require.NoError(t, err, replay, seed)
	t.Logf("%d seeds: %+v", *nFlag, total)
	if *nFlag < 500 {
		return
	}
	// A sweep in which nothing happens proves nothing.
	require.Greater(t, total.Acked, int(*nFlag))
	require.Greater(t, total.Changes, int(*nFlag)/4)
	require.Greater(t, total.Recovered, int(*nFlag)/4)
	require.Greater(t, total.Read, int(*nFlag))
}
