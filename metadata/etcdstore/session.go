package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
)

// session keeps one lease alive. Its goroutine ends with it.
type session struct {
	s     *Store
	id    clientv3.LeaseID
	ttl   time.Duration // as the server granted it
	alive time.Time     // when the last keep-alive that was answered had been sent
	stop  context.CancelFunc
	done  chan struct{}
	gone  atomic.Bool // the lease is known to have ended at the server
}

func (h *session) ID() metadata.SessionID { return metadata.SessionID(h.id) }

func (h *session) Secret() []byte { return nil }

func (h *session) Done() <-chan struct{} { return h.done }

// Session is metadata.Store.Session. The TTL is rounded up to whole seconds,
// and the server may raise it to its own least.
func (s *Store) Session(ctx context.Context, opts metadata.SessionOptions) (metadata.Session, error) {
	ctx, cancel, err := s.call(ctx)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	defer cancel()
	ttl := opts.TTL
	if ttl <= 0 {
		ttl = metadata.DefaultSessionTTL
	}
	h := &session{s: s, id: clientv3.LeaseID(opts.Resume), done: make(chan struct{}), alive: time.Now()}
	if opts.Resume == 0 {
		// A grant whose answer is lost leaves a lease that nobody uses.
		resp, err := s.cli.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
		if err != nil {
			return nil, fmt.Errorf("session: %w", readError(ctx, err))
		}
		h.id, h.ttl = resp.ID, time.Duration(resp.TTL)*time.Second
	} else {
		resp, err := s.cli.KeepAliveOnce(ctx, h.id)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil, fmt.Errorf("resume session %x: %w", opts.Resume, metadata.ErrSessionLost)
		}
		if err != nil {
			return nil, fmt.Errorf("resume session %x: %w", opts.Resume, readError(ctx, err))
		}
		h.ttl = time.Duration(resp.TTL) * time.Second
	}
	var live context.Context
	live, h.stop = context.WithCancel(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		h.stop()
		return nil, fmt.Errorf("session: %w", metadata.ErrClosed)
	}
	s.sessions[h] = struct{}{}
	s.wg.Go(func() { h.run(live) })
	return h, nil
}

// run keeps the lease alive until it is lost or let go.
func (h *session) run(ctx context.Context) {
	defer func() {
		h.stop()
		h.s.mu.Lock()
		delete(h.s.sessions, h)
		h.s.mu.Unlock()
		close(h.done)
	}()
	wait := h.ttl / 3
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		err := h.renew(ctx)
		switch {
		case err == nil:
			wait = h.ttl / 3
		case errors.Is(err, rpctypes.ErrLeaseNotFound), !time.Now().Before(h.alive.Add(h.ttl)):
			h.s.log.Warn("session lost", zap.Int64("session", int64(h.id)), zap.Error(err))
			return
		default:
			wait = h.ttl / 20
		}
		t.Reset(wait)
	}
}

// renew sends one keep-alive. It waits for the answer no longer than the lease
// can live, and tries a new connection twice before that.
func (h *session) renew(ctx context.Context) error {
	sent := time.Now()
	limit := sent.Add(h.ttl / 3)
	if end := h.alive.Add(h.ttl); end.Before(limit) {
		limit = end
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	resp, err := h.s.cli.KeepAliveOnce(ctx, h.id)
	if err != nil {
		return err
	}
	h.alive, h.ttl = sent, time.Duration(resp.TTL)*time.Second
	return nil
}

// Close revokes the lease. A lease that is gone already is success.
func (h *session) Close(ctx context.Context) error {
	h.Abandon()
	if h.gone.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.s.opts.RequestTimeout)
	defer cancel()
	for {
		_, err := h.s.cli.Revoke(ctx, h.id)
		if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
			h.gone.Store(true)
			return nil
		}
		if ctx.Err() != nil || h.s.ctx.Err() != nil {
			return fmt.Errorf("end session %x: %w", int64(h.id), writeError(ctx, true, err))
		}
		t := time.NewTimer(watchRetryMin)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

func (h *session) Abandon() {
	h.stop()
	<-h.done
}
