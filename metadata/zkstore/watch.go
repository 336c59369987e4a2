package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
)

type watch struct {
	s        *Store
	key      string
	children bool
	names    []string // children that are watched
	wake     chan struct{}
	c        chan struct{}
	ended    chan struct{} // closed before c is
	err      error         // written before ended is closed, read after
}

func (w *watch) C() <-chan struct{} { return w.c }

func (w *watch) Err() error {
	select {
	case <-w.ended:
		return w.err
	default:
		return nil
	}
}

func (w *watch) signal() { poke(w.c) }

// poke leaves a signal in c, if there is none.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Watch is metadata.Store.Watch. The first signal comes when the server has
// taken the watch.
func (s *Store) Watch(ctx context.Context, key string, scope metadata.WatchScope) (metadata.Watch, error) {
	if err := validKey(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("watch %q: %w: %w", key, metadata.ErrUnavailable, err)
	}
	w := &watch{
		s: s, key: key, children: scope == metadata.WatchChildren,
		wake: make(chan struct{}, 1), c: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if err := s.start(func() { w.run(ctx) }); err != nil {
		return nil, fmt.Errorf("watch %q: %w", key, err)
	}
	return w, nil
}

func (w *watch) run(ctx context.Context) {
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.s.ctx, cancel)()
	retry := retryMin
	for wctx.Err() == nil {
		// Signal after setting and not before: what changes from then on fires
		// it, and what changed before is there to be read.
		if err := w.set(wctx); err == nil {
			retry = retryMin
			w.signal()
			select {
			case <-w.wake:
			case <-wctx.Done():
			}
			continue
		} else if wctx.Err() == nil {
			w.s.log.Warn("watch not set, trying again", zap.String("key", w.key), zap.Error(err))
		}
		t := time.NewTimer(retry)
		select {
		case <-t.C:
		case <-wctx.Done():
			t.Stop()
		}
		retry = min(retry*2, retryMax)
	}
	w.s.forget(w)
	w.err = metadata.ErrClosed
	if err := ctx.Err(); err != nil {
		w.err = err
	}
	close(w.ended)
	close(w.c)
}

// set sets those ZooKeeper watches that are not set already.
func (w *watch) set(ctx context.Context) error {
	if !w.children {
		return w.s.arm(ctx, w, point{key: w.key}, false)
	}
	err := w.s.arm(ctx, w, point{key: w.key, children: true}, false)
	if errors.Is(err, zk.ErrNoNode) {
		// Not there: watch for it to be made. If it was made meanwhile, that does
		// not fire, and the next try finds it.
		if err := w.s.arm(ctx, w, point{key: w.key}, false); err != nil {
			return err
		}
		err = w.s.arm(ctx, w, point{key: w.key, children: true}, false)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	names := w.s.namesAt(point{key: w.key, children: true})
	w.names = names
	return each(len(names), func(i int) error {
		err := w.s.arm(ctx, w, point{key: metadata.Child(w.key, names[i])}, true)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
}
