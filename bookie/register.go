package bookie

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/registration"
	"github.com/loglode/loglode/metadata/layout"
)

// RegisterOptions says where and as what a bookie is listed.
type RegisterOptions struct {
	Cluster *layout.Cluster
	ID      bk.BookieID
	Info    layout.ServiceInfo // where clients dial; empty: ID is the address
	TTL     time.Duration      // of the session; 10 s
	Logger  *zap.Logger
}

// Registration keeps a bookie listed in its cluster, as writable or read-only
// as it is. A bookie whose journal failed is listed as read-only. It ends with
// Close.
type Registration struct {
	r       *registration.Registration
	unwatch func()
}

// Register lists the bookie and returns once it is. Serve before. A node that
// a killed process of the same id left behind is waited for; if the other one
// lives on, Register fails with metadata.ErrExists.
func (b *Bookie) Register(ctx context.Context, o RegisterOptions) (*Registration, error) {
	if o.Cluster == nil {
		return nil, errors.New("register bookie: no cluster given")
	}
	orDefault(&o.TTL, 10*time.Second)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	changed := make(chan struct{}, 1)
	unwatch := b.state.watch(func() {
		select {
		case changed <- struct{}{}:
		default: // one signal is enough
		}
	})
	r, err := registration.Start(ctx, registration.Options{
		Cluster: o.Cluster, ID: o.ID, Info: o.Info, TTL: o.TTL, Logger: o.Logger.Named("registration"),
		Mode: b.listMode, Changed: changed,
	})
	if err != nil {
		unwatch()
		return nil, err
	}
	return &Registration{r: r, unwatch: unwatch}, nil
}

func (b *Bookie) listMode() (layout.Mode, bool) {
	switch b.state.get() {
	case Writable:
		return layout.Writable, true
	case ReadOnly, Failed:
		return layout.ReadOnly, true
	default:
		return 0, false
	}
}

// Close takes the bookie out of the list. Do it before the server stops, so
// that clients do not choose it any more.
func (r *Registration) Close(ctx context.Context) error {
	r.unwatch()
	return r.r.Close(ctx)
}
