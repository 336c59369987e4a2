package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/proc"
)

var binary string

func TestMain(m *testing.M) {
	os.Exit(withBinary(m))
}

func withBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "loglode-sim-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "loglode")
	if out, err := exec.Command("go", "build", "-o", binary, "../../loglode").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// start brings up a cluster for one test. Tests spend most of their time waiting
// for leases and restarts: they run beside each other.
func start(t *testing.T, bookies, proxies int) *proc.Cluster {
	t.Helper()
	return startWith(t, proc.Options{Bookies: bookies, Proxies: proxies})
}

// dataDir is a directory that stays after a failure.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "loglode-sim-data-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}

// restartLease keeps restarts of bookies short: each waits for the lease of the
// process before.
const restartLease = 2 * time.Second

func startWith(t *testing.T, o proc.Options) *proc.Cluster {
	t.Helper()
	t.Parallel()
	return startAlone(t, o)
}

// startAlone is for tests that do not run beside others.
func startAlone(t *testing.T, o proc.Options) *proc.Cluster {
	t.Helper()
	o.Binary, o.Dir = binary, dataDir(t)
	c, err := proc.StartCluster(t.Context(), o)
	t.Cleanup(func() {
		if c != nil {
			c.StopAll()
		}
	})
	require.NoError(t, err)
	return c
}

func newStream(t *testing.T, c *proc.Cluster, args ...string) {
	t.Helper()
	require.NoError(t, c.Client(t.Context(), append([]string{"stream", "create", streamName}, args...)...))
}

const streamName = "s"

// random gives the seeded source of a test and prints its seed.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LOGLODE_SIM_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	t.Logf("seed %d; repeat with LOGLODE_SIM_SEED=%d go test -run '^%s$' ./cmd/internal/sim", seed, seed, t.Name())
	return rand.New(rand.NewPCG(seed, 0))
}

// within bounds a wait in a test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
