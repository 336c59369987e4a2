package etcdstore

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// sentHandler notes whether a call has left this process: a call that never got
// a stream on a connection cannot have had an effect. The error alone does not
// tell.
type sentHandler struct{}

type sentKey struct{}

// withSent gives a context for one call and the flag that is set once the call
// may have reached the server.
func withSent(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

func (sentHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (sentHandler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutHeader); !ok {
		return
	}
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
}

func (sentHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (sentHandler) HandleConn(context.Context, stats.ConnStats) {}
