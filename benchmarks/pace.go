package benchmarks

import (
	"context"
	"time"
)

// sleeper waits for d; false means that ctx ended first, or that it cannot wait.
type sleeper interface {
	sleep(ctx context.Context, d time.Duration) bool
	close() error
}

// coarse sleeps as exactly as the timers of the Go runtime do: up to a
// millisecond too long while nothing else runs.
type coarse struct{}

func (coarse) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (coarse) close() error { return nil }
