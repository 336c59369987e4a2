package benchmarks

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// virtual is a clock that works in a bubble of synctest.
func virtual() (sleeper, error) { return coarse{}, nil }

func TestPacerWaitsAndHeedsItsContext(t *testing.T) {
	p, err := newPacer()
	require.NoError(t, err)
	defer p.close()
	for _, d := range []time.Duration{time.Microsecond, time.Millisecond, 12 * time.Millisecond} {
		begin := time.Now()
		require.True(t, p.sleep(t.Context(), d))
		require.GreaterOrEqual(t, time.Since(begin), d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, p.sleep(ctx, time.Microsecond))
	require.False(t, p.sleep(ctx, time.Hour))
}

// delayed answers each operation after d, without order.
func delayed(d time.Duration) TargetFunc {
	return func(_ context.Context, op *Op) {
		time.AfterFunc(d, func() { op.Done(nil) })
	}
}

func TestClosedLoopKeepsOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res, err := Run(t.Context(), Load{newClock: virtual, Outstanding: 10, Warmup: time.Second, Duration: 10 * time.Second, SizeBytes: 8}, delayed(100*time.Millisecond))
		require.NoError(t, err)
		require.InDelta(t, 100, res.PerSecond, 5)
		require.InDelta(t, 100_000, res.AckMicros.P50, 200)
	})
}

// TestOpenLoopChargesStalls holds the target for a second: every operation that
// was due meanwhile must carry the delay (no coordinated omission).
func TestOpenLoopChargesStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		stall := TargetFunc(func(_ context.Context, op *Op) {
			wait := time.Millisecond
			if at := time.Since(begin); at >= 5*time.Second && at < 6*time.Second {
				wait = 6*time.Second - at
			}
			time.AfterFunc(wait, func() { op.Done(nil) })
		})
		res, err := Run(t.Context(), Load{newClock: virtual, Rate: 100, Outstanding: 10, Warmup: time.Second, Duration: 9 * time.Second, SizeBytes: 8}, stall)
		require.NoError(t, err)
		require.InDelta(t, 100, res.PerSecond, 2)
		require.Less(t, res.AckMicros.P50, int64(2000))
		require.Greater(t, res.AckMicros.P90, int64(50_000), "a tenth of the operations were due in the stall")
		require.InDelta(t, 1_000_000, res.AckMicros.Max, 20_000)
	})
}

func TestFailureEndsTheRun(t *testing.T) {
	boom := errors.New("boom")
	res, err := Run(t.Context(), Load{Outstanding: 3, SizeBytes: 1}, TargetFunc(func(_ context.Context, op *Op) { op.Done(boom) }))
	require.ErrorIs(t, err, boom)
	require.Positive(t, res.Failed)
}

func TestLoadValidateNamesTheField(t *testing.T) {
	_, err := Run(t.Context(), Load{Rate: -1}, delayed(0))
	require.ErrorContains(t, err, "rate -1")
	_, err = Run(t.Context(), Load{SizeBytes: 2 << 20}, delayed(0))
	require.ErrorContains(t, err, "2097152")
}

// TestUsageSeesThisProcess spins until the clock of /proc has moved; on a
// machine that never gives this process a tick, the test's own limit ends it.
func TestUsageSeesThisProcess(t *testing.T) {
	before := ReadUsage(nil)
	for ReadUsage(nil).Since(before).Self == 0 {
	}
	require.Positive(t, ReadUsage([]int{os.Getpid()}).ServerRSSBytes)
}
