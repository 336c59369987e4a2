package cli

import (
	"context"
	"errors"

	"github.com/loglode/loglode/cmd/internal/routed"
	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/writers"
)

// openAppender opens a writer of the stream, in this process or through the
// proxies. closeAll closes what lies below it.
func (a *app) openAppender(ctx context.Context, arg string, f appendFlags) (w appender, closeAll func() error, err error) {
	ns, s, err := a.openStream(ctx, arg)
	if err != nil {
		return nil, nil, err
	}
	octx, cancel := a.bounded(ctx)
	defer cancel()
	if f.via == "library" {
		w, err := s.Writer(octx, writers.WithLogger(a.log), writers.WithWriteTimeout(f.writeWait))
		if err != nil {
			return nil, nil, closing(err, ns.Close)
		}
		return w, ns.Close, nil
	}
	c, err := routed.Open(octx, ns, client.Options{Logger: a.log, Timeout: f.writeWait})
	if err != nil {
		return nil, nil, closing(err, ns.Close)
	}
	closeAll = func() error { return errors.Join(c.Close(), ns.Close()) }
	pw, err := c.Writer(octx, stream.Name(arg))
	if err != nil {
		return nil, nil, closing(err, closeAll)
	}
	return pw, closeAll, nil
}
