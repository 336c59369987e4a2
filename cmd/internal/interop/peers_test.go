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
