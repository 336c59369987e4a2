package ledgersim

import (
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The environment is for make sim, the flags are for everybody else.
var (
	seedFlag  = flag.Uint64("sim.seed", env("LOGLODE_SIM_SEED", 1), "first seed")
	nFlag     = flag.Uint64("sim.n", env("LOGLODE_SIM_N", 10_000), "number of seeds; the history of a single one is printed")
	saltFlag  = flag.Uint64("sim.salt", 0, "another history under the same weather")
	offFlag   = flag.Uint64("sim.off", 0, "features to switch off, as a mask")
	ticksFlag = flag.Int64("sim.ticks", 0, "ticks until the faults end, 0 as the seed draws")
)

func env(key string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(key), 10, 64); err == nil {
		return n
	}
	return otherwise
}

func flagged() Options {
	return Options{Seed: *seedFlag, Salt: *saltFlag, Off: Features(*offFlag), Ticks: *ticksFlag}
}

func TestSim(t *testing.T) {
	if *nFlag == 1 {
		o := flagged()
		o.Trace = func(line string) { t.Log(line) }
		if _, v := Run(o); v != nil {
			t.Fatal(v)
		}
		return
	}
	start := time.Now()
	total, failed := Sweep(*seedFlag, *nFlag, flagged(), true)
	if failed != nil {
		t.Fatal(Shrink(*failed))
	}
	rate := float64(total.Schedules) / time.Since(start).Minutes()
	t.Logf("%d schedules clean, %.0f a minute: %+v", total.Schedules, rate, total)
	if *nFlag < 1000 {
		return
	}
	// A sweep in which nothing happens proves nothing.
	n := int(*nFlag)
	require.Greater(t, total.Acked, n)
	require.Greater(t, total.Changes, n/4)
	require.Greater(t, total.Recovered, n/4)
	require.Greater(t, total.Read, n)
	require.Greater(t, total.Polls, n/4)
	require.Greater(t, total.Lost, n/10)
	require.Greater(t, total.Deletes, n/10)
	require.Greater(t, total.Forces, n/10)
}
