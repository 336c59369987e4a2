package client

import (
	"context"
	"errors"

	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// Create makes a stream with the default configuration. One that exists is no
// error.
func (c *Client) Create(ctx context.Context, name stream.Name) error {
	return c.admin(ctx, name, &wire.Call{Method: wire.Create})
}

// Delete removes a stream.
func (c *Client) Delete(ctx context.Context, name stream.Name) error {
	return c.admin(ctx, name, &wire.Call{Method: wire.Delete})
}

// Truncate gives up all records before a position.
func (c *Client) Truncate(ctx context.Context, name stream.Name, to stream.DLSN) error {
	return c.admin(ctx, name, &wire.Call{Method: wire.Truncate, DLSN: to.Base64()})
}

// Release makes the owner hand the stream over: the next append finds a new
// one, which may be the same proxy.
func (c *Client) Release(ctx context.Context, name stream.Name) error {
	return c.admin(ctx, name, &wire.Call{Method: wire.Release})
}

// SetAcceptNewStream makes one proxy take new streams, or only serve those that
// it owns.
func (c *Client) SetAcceptNewStream(ctx context.Context, addr string, enabled bool) error {
	conn, err := c.conn(ctx, addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	reply, err := conn.Call(ctx, &wire.Call{Method: wire.SetAcceptNewStream, Enabled: enabled})
	if err != nil {
		return err
	}
	if reply.Err != nil {
		return reply.Err
	}
	return nil
}

// admin routes a call. It ends by ctx's deadline, or Options.Timeout.
func (c *Client) admin(ctx context.Context, name stream.Name, call *wire.Call) error {
	if err := name.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	call.Stream = string(name)
	_, err := c.route(ctx, name, call)
	return err
}

// unknown tells whether an append that failed like this may have happened.
func unknown(err error) bool {
	var se *wire.StatusError
	if errors.As(err, &se) {
		return wire.MayHaveHappened(se.Code)
	}
	return true
}
