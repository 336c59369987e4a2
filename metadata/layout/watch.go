package layout

import (
	"context"

	"github.com/loglode/loglode/metadata"
)

// bothWatch merges two watches into one. Its goroutine ends when either does.
type bothWatch struct {
	c     chan struct{}
	ended chan struct{} // closed before c is
	err   error         // written before ended is closed, read after
}

func (w *bothWatch) C() <-chan struct{} { return w.c }

func (w *bothWatch) Err() error {
	select {
	case <-w.ended:
		return w.err
	default:
		return nil
	}
}

func watchBoth(ctx context.Context, store metadata.Store, scope metadata.WatchScope, a, b string) (metadata.Watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	wa, err := store.Watch(ctx, a, scope)
	if err != nil {
		cancel()
		return nil, err
	}
	wb, err := store.Watch(ctx, b, scope)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &bothWatch{c: make(chan struct{}, 1), ended: make(chan struct{})}
	go w.run(cancel, wa, wb)
	return w, nil
}

func (w *bothWatch) run(cancel context.CancelFunc, a, b metadata.Watch) {
	defer cancel()
	for {
		from := a
		var ok bool
		select {
		case _, ok = <-a.C():
		case _, ok = <-b.C():
			from = b
		}
		if !ok {
			w.err = from.Err()
			close(w.ended)
			close(w.c)
			return
		}
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}
