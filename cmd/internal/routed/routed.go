// Package routed opens the routing client of write proxies on an open
// namespace: it gives the client the namespace's metadata store to find proxies
// in, and the namespace's readers to settle appends whose answer was lost.
package routed

import (
	"context"
	"iter"

	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/stream"
)

// Open opens a client. Close it before the namespace.
func Open(ctx context.Context, ns *namespace.Namespace, o client.Options) (*client.Client, error) {
	o.Resolve = resolver(ns)
	return client.Open(ctx, ns.Store(), ns.Root(), o)
}

// resolver reads back what an append with a lost answer may have written. It
// tails, so that it waits for records that are not visible yet.
func resolver(ns *namespace.Namespace) client.Resolve {
	return func(ctx context.Context, name stream.Name, after, through stream.DLSN) iter.Seq2[stream.Record, error] {
		return func(yield func(stream.Record, error) bool) {
			s, err := ns.Stream(ctx, name)
			if err != nil {
				yield(stream.Record{}, err)
				return
			}
			for r, err := range s.Tail(ctx, stream.After(after)) {
				if err != nil {
					yield(r, err)
					return
				}
				if r.DLSN.Compare(through) > 0 || !yield(r, nil) || r.DLSN == through {
					return
				}
			}
		}
	}
}
