package fakebookie

import (
	"context"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata/layout"
)

// SetReadOnly moves a bookie to the list of those that are read-only. It goes on
// answering whatever its hook says.
func (c *Cluster) SetReadOnly(ctx context.Context, id bk.BookieID) error {
	if err := c.Layout.Unregister(ctx, c.session, id); err != nil {
		return err
	}
	return c.Layout.Register(ctx, c.session, id, layout.ServiceInfo{}, layout.ReadOnly)
}
