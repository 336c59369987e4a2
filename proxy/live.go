package proxy

import (
	"context"
	"errors"

	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/writers"
)

// New makes a proxy for the streams of a namespace, which must stay open while
// it serves.
func New(ns *namespace.Namespace, o Options) (*Proxy, error) {
	// A call that the writer has is answered by its deadline, too.
	opts := append([]writers.Option{writers.WithWriteTimeout(o.withDefaults().RequestTimeout)}, o.Writer...)
	return newProxy(live{ns: ns, opts: opts}, ns.Store(), ns.Root(), o)
}

// live is the backend of a running proxy.
type live struct {
	ns   *namespace.Namespace
	opts []writers.Option
}

func (b live) open(ctx context.Context, name stream.Name) (appender, stream.DLSN, error) {
	s, err := b.ns.Stream(ctx, name)
	if err != nil {
		return nil, stream.DLSN{}, err
	}
	w, err := s.Writer(ctx, b.opts...)
	if err != nil {
		return nil, stream.DLSN{}, err
	}
	last, err := s.Resolve(ctx, stream.Last())
	if errors.Is(err, stream.ErrEmpty) {
		return w, stream.DLSN{}, nil
	}
	if err != nil {
		return nil, stream.DLSN{}, errors.Join(err, w.Abort())
	}
	return w, last, nil
}

// create makes a stream with the defaults. One that exists is as good: a client
// may repeat the call.
func (b live) create(ctx context.Context, name stream.Name) error {
	err := b.ns.Create(ctx, name, stream.Config{})
	if errors.Is(err, stream.ErrExists) {
		return nil
	}
	return err
}

func (b live) delete(ctx context.Context, name stream.Name) error { return b.ns.Delete(ctx, name) }

func (b live) truncate(ctx context.Context, name stream.Name, to stream.DLSN) error {
	s, err := b.ns.Stream(ctx, name)
	if err != nil {
		return err
	}
	return s.Truncate(ctx, stream.At(to))
}
