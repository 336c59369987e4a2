package ledger_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/memstore"
)

// pacedEnv makes the test binary a writer of 20 MB/s to these bookies, which
// prints a pacedSample every 100 ms until its input ends.
const pacedEnv = "LOGLODE_LEDGER_PACED"

// silentForEnv is how long a bookie stays silent in the test of R27. Default 8 s.
const silentForEnv = "LOGLODE_R27"

type pacedSample struct {
	Resident int64 // bytes
	Bytes    int64 // confirmed so far
	Failed   string
}

const (
	pacedRate = 20 << 20 // bytes a second
	pacedTick = 5 * time.Millisecond
)

func runPaced(bookies []string) error {
	ctx := context.Background()
	store := memstore.New()
	if _, err := layout.Init(ctx, store, "/bk"); err != nil {
		return err
	}
	cluster, err := layout.Open(ctx, store, "/bk")
	if err != nil {
		return err
	}
	sess, err := store.Session(ctx, metadata.SessionOptions{TTL: time.Hour})
	if err != nil {
		return err
	}
	for _, b := range bookies {
		if err := cluster.Register(ctx, sess, bk.BookieID(b), layout.ServiceInfo{}, layout.Writable); err != nil {
			return err
		}
	}
	c, err := ledger.New(cluster, ledger.Options{})
	if err != nil {
		return err
	}
	w, err := c.Create(ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
	if err != nil {
		return err
	}
	var confirmed atomic.Int64
	go func() {
		p := make([]byte, 1024)
		start, sent := time.Now(), int64(0)
		for tick := time.Tick(pacedTick); ; <-tick {
			for due := int64(time.Since(start).Seconds() * pacedRate); sent < due; sent += int64(len(p)) {
				w.Go(ctx, p, func(_ bk.EntryID, err error) {
					if err == nil {
						confirmed.Add(int64(len(p)))
					}
				})
			}
		}
	}()
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end is all that counts
		os.Exit(0)
	}()
	out := json.NewEncoder(os.Stdout)
	for range time.Tick(100 * time.Millisecond) {
		s := pacedSample{Bytes: confirmed.Load()}
		if s.Resident, err = residentBytes(); err != nil {
			return err
		}
		if err := w.Err(); err != nil {
			s.Failed = err.Error()
		}
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// residentBytes is the memory of this process.
func residentBytes() (int64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// child starts the test binary in another mode, until the test ends.
func child(t *testing.T, env ...string) (*exec.Cmd, *bufio.Scanner) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT) //nolint:errcheck // it may have ended
		in.Close()
		cmd.Wait() //nolint:errcheck // its output says what went wrong
	})
	return cmd, bufio.NewScanner(out)
}

// R27 with processes: one of three real bookies is stopped by SIGSTOP under a
// writer of 20 MB/s. The writer's memory stays in bounds, its adds go on, and
// none fails. LOGLODE_R27=120s is the case in full.
func TestR27_StoppedBookieProcess(t *testing.T) {
	silent := 8 * time.Second
	if s := os.Getenv(silentForEnv); s != "" {
		var err error
		silent, err = time.ParseDuration(s)
		require.NoError(t, err)
	}
	dir := t.TempDir()
	var addrs []string
	var victim *exec.Cmd
	for i, n := range []int{2, 1} {
		cmd, lines := child(t, bookiesEnv+"="+fmt.Sprint(dir, "/", i), bookieCountEnv+"="+fmt.Sprint(n))
		for range n {
			require.True(t, lines.Scan())
			addrs = append(addrs, lines.Text())
		}
		victim = cmd
	}
	_, samples := child(t, pacedEnv+"="+strings.Join(addrs, ","))
	watch := func(d time.Duration) (most, confirmed int64) {
		var first, last pacedSample
		for end := time.Now().Add(d); time.Now().Before(end); {
			require.True(t, samples.Scan())
			require.NoError(t, json.Unmarshal(samples.Bytes(), &last))
			require.Empty(t, last.Failed)
			if first.Resident == 0 {
				first = last
			}
			most = max(most, last.Resident)
		}
		return most, last.Bytes - first.Bytes
	}
	watch(time.Second)
	before, _ := watch(2 * time.Second)
	require.NoError(t, victim.Process.Signal(syscall.SIGSTOP))
	most, confirmed := watch(silent)
	require.NoError(t, victim.Process.Signal(syscall.SIGCONT))
	_, after := watch(2 * time.Second)
	t.Logf("resident: %d MiB before, at most %d MiB while a bookie was silent for %v; %d MiB confirmed meanwhile, %d MiB in 2 s after",
		before>>20, most>>20, silent, confirmed>>20, after>>20)
	require.Less(t, most, int64(160<<20), "resident bytes, with 16 MiB in flight")
	require.Positive(t, confirmed)
	require.Positive(t, after)
}
