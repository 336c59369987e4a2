package client

import (
	"context"

	"github.com/loglode/loglode/stream"
)

// LookUp reads from metadata which proxy owns a stream now: "host:port", or ""
// if none does. Appends need not call it; operators and tests like to know.
func (c *Client) LookUp(ctx context.Context, name stream.Name) (string, error) {
	return c.lookUp(ctx, name)
}
