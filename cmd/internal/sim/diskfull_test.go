//go:build soak

package sim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/proc"
)

// TestR14_DiskFull: each bookie has a small disk of its own, which a writer
// fills. The bookies turn read-only and the writer ends with exit code 5; so
// they are after a kill -9 and a restart on the full disk. With more room they
// take writes again by themselves, and everything acknowledged is there. It
// mounts memory file systems: run it as root.
func TestR14_DiskFull(t *testing.T) {
	const small = 160 << 20
	mounts := make([]string, 3)
	base := dataDir(t)
	for i := range mounts {
		mounts[i] = filepath.Join(base, fmt.Sprint("disk", i+1))
		require.NoError(t, os.Mkdir(mounts[i], 0o755))
		require.NoError(t, syscall.Mount("tmpfs", mounts[i], "tmpfs", 0, fmt.Sprint("size=", small)), "mount: root is needed")
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(mounts[i], syscall.MNT_DETACH)) })
	}
	c := startWith(t, proc.Options{Bookies: 3, BookieDir: func(i int) string { return mounts[i] }})
	newStream(t, c)
	p := produce(t, c, "a", "--write-timeout", "10s")
	p.pad = 4 << 10
	go p.feed(1_000_000, 0)
	requireUnavailable(t, p)
	requireModes(t, c, "read-only")
	next := produce(t, c, "b")
	next.feed(1, 0)
	requireUnavailable(t, next)

	c.KillAll()
	require.NoError(t, c.StartAll(t.Context()))
	requireModes(t, c, "read-only")
	for _, m := range mounts {
		require.NoError(t, syscall.Mount("tmpfs", m, "tmpfs", syscall.MS_REMOUNT, fmt.Sprint("size=", 4*small)))
	}
	requireModes(t, c, "writable")
	requireKept(t, c, streamName, p)
}

// requireUnavailable waits for the end of a producer, with exit code 5.
func requireUnavailable(t *testing.T, p *producer) {
	t.Helper()
	var err error
	select {
	case err = <-p.ended:
	case <-time.After(90 * time.Second):
		require.Fail(t, "the writer goes on for ever on a full disk")
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 5, exit.ExitCode(), "%s", p.errs.Bytes())
	t.Logf("writer ended: %s", p.errs.Bytes())
}

// requireModes waits until all bookies are listed with a mode.
func requireModes(t *testing.T, c *proc.Cluster, mode string) {
	t.Helper()
	var out []byte
	for began := time.Now(); ; {
		var err error
		out, err = c.Command(t.Context(), "bookie", "ls").Output()
		require.NoError(t, err)
		if strings.Count(string(out), mode) == len(c.Bookies) {
			t.Logf("all are %s after %v", mode, time.Since(began))
			return
		}
		require.Less(t, time.Since(began), 30*time.Second, "not all are %s: %s", mode, out)
		<-time.After(200 * time.Millisecond)
	}
}
