//go:build interop

package interop

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/javapeer"
)

// java finds Java and the jars.
func java(t *testing.T) *javapeer.Java {
	t.Helper()
	j, err := javapeer.Setup(t.Context())
	require.NoError(t, err)
	return j
}

// dataDir is a directory that stays after a failure.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "loglode-interop-")
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

// TestPeersStart: ZooKeeper and one of Apache's bookies come up and go away.
func TestPeersStart(t *testing.T) {
	j, dir := java(t), dataDir(t)
	zk, err := j.StartZooKeeper(t.Context(), dir)
	if zk != nil {
		t.Cleanup(zk.Stop)
	}
	require.NoError(t, err)
	require.NoError(t, j.InitCluster(t.Context(), dir, zk.URI("/ledgers")))
	require.Error(t, j.InitCluster(t.Context(), dir, zk.URI("/ledgers")), "a cluster is made once")
	b, err := j.NewBookie(javapeer.BookieOptions{Name: "bookie1", Dir: dir, Metadata: zk.URI("/ledgers")})
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	require.NoError(t, b.Start(t.Context()))
	b.Kill()
	require.NoError(t, b.Start(t.Context()), "again on its data")
}
