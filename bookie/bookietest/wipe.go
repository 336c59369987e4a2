package bookietest

import (
	"context"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// Wipe gives a bookie that does not run an empty disk, as a replaced machine
// has.
func (c *Cluster) Wipe(i int) { c.bookies[i].fs = vfs.NewCrashableMem() }

// TryRestart is Restart of a bookie that may refuse to start.
func (c *Cluster) TryRestart(i int) error { return c.bookies[i].start(context.Background()) }

// DeleteCookie lets a bookie with an empty disk start under its old id, as an
// operator can.
func (c *Cluster) DeleteCookie(i int) {
	c.t.Helper()
	_, v, err := c.Cluster.Cookie(context.Background(), c.ID(i))
	require.NoError(c.t, err)
	require.NoError(c.t, c.Cluster.DeleteCookie(context.Background(), c.ID(i), v))
}
