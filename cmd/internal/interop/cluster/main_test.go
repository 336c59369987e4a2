//go:build interop

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/loglode/loglode/cmd/internal/daemon"
	"github.com/loglode/loglode/cmd/internal/javapeer"
	"github.com/loglode/loglode/cmd/internal/proc"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
)

// The tests share one server; each has a cluster at a path of its own.
var (
	java *javapeer.Java
	zk   *javapeer.ZooKeeper
	dir  string // logs and data; kept after a failure
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	if dir, err = os.MkdirTemp("", "loglode-cluster-"); err != nil {
		return fail(err)
	}
	if java, err = javapeer.Setup(context.Background()); err != nil {
		return fail(err)
	}
	if zk, err = java.StartZooKeeper(context.Background(), dir); err != nil {
		return fail(err)
	}
	defer zk.Kill()
	code := m.Run()
	if driver != nil {
		if err := driver.stop(); err != nil {
			return fail(err)
		}
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "logs are in", dir)
		return code
	}
	if err := os.RemoveAll(dir); err != nil {
		return fail(err)
	}
	return 0
}

// wait bounds every wait for another process.
const wait = 60 * time.Second

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, wait, 50*time.Millisecond, what)
}

// open gives a client of a server and the path of a URI.
func open(t *testing.T, uri string) (metadata.Store, string) {
	t.Helper()
	s, path, err := dial.Open(t.Context(), uri, dial.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, path
}

// join opens the cluster at a URI.
func join(t *testing.T, uri string) *layout.Cluster {
	t.Helper()
	s, path := open(t, uri)
	c, err := layout.Open(t.Context(), s, path)
	require.NoError(t, err)
	return c
}

// startOurs starts one of our bookies, in this process.
func startOurs(t *testing.T, uri, name string, change func(*daemon.BookieOptions)) *daemon.Bookie {
	t.Helper()
	b, err := daemon.StartBookie(t.Context(), ourOptions(t, uri, name, change))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
	return b
}

func ourOptions(t *testing.T, uri, name string, change func(*daemon.BookieOptions)) daemon.BookieOptions {
	t.Helper()
	ports, err := proc.FreePorts(1)
	require.NoError(t, err)
	o := daemon.BookieOptions{
		MetadataURI: uri, Listen: fmt.Sprintf("127.0.0.1:%d", ports[0]), LeaseTTL: 6 * time.Second, Logger: zap.NewNop(),
		JournalDirs: []string{filepath.Join(dir, name, "journal")}, LedgerDirs: []string{filepath.Join(dir, name, "ledgers")},
	}
	if change != nil {
		change(&o)
	}
	return o
}
