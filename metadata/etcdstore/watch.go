package etcdstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
)

// watchRetryMin and watchRetryMax space the attempts to start a watch again.
const (
	watchRetryMin = 50 * time.Millisecond
	watchRetryMax = time.Second
)

type watch struct {
	s      *Store
	key    string // exact, or the prefix of descendants
	direct bool   // look at direct children of key
	c      chan struct{}
	ended  chan struct{} // closed before c is
	err    error         // written before ended is closed, read after
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

func (w *watch) signal() {
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// Watch is metadata.Store.Watch. The first signal comes when the server has
// taken the watch. On the wire, WatchChildren brings the changes of all
// descendants; those that are not direct children are dropped here.
func (s *Store) Watch(ctx context.Context, key string, scope metadata.WatchScope) (metadata.Watch, error) {
	if err := metadata.ValidKey(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("watch %q: %w: %w", key, metadata.ErrUnavailable, err)
	}
	w := &watch{s: s, key: key, c: make(chan struct{}, 1), ended: make(chan struct{})}
	if scope == metadata.WatchChildren {
		w.key, w.direct = childPrefix(key), true
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
	retry := watchRetryMin
	for wctx.Err() == nil {
		if w.follow(wctx) {
			retry = watchRetryMin
		}
		t := time.NewTimer(retry)
		select {
		case <-t.C:
		case <-wctx.Done():
			t.Stop()
		}
		retry = min(retry*2, watchRetryMax)
	}
	w.err = metadata.ErrClosed
	if err := ctx.Err(); err != nil {
		w.err = err
	}
	close(w.ended)
	close(w.c)
}

// follow signals for as long as one etcd watch lasts. It begins at the newest
// revision; whatever happened before is covered by the signal at its start.
// started says whether the server took it.
func (w *watch) follow(ctx context.Context) (started bool) {
	// A context of its own, so that an ended etcd watch leaves nothing behind.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if w.direct {
		opts = append(opts, clientv3.WithRange(past(w.key)))
	}
	for resp := range w.s.cli.Watch(ctx, w.key, opts...) {
		if err := resp.Err(); err != nil {
			w.s.log.Debug("watch broke, starting again", zap.String("key", w.key), zap.Error(err))
			return started
		}
		if resp.Created {
			started = true
			w.signal()
		}
		for _, ev := range resp.Events {
			if !w.direct || strings.IndexByte(string(ev.Kv.Key[len(w.key):]), '/') < 0 {
				w.signal()
				break
			}
		}
	}
	return started
}
