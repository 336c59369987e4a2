package proxy

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/proxy/internal/owner"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// own makes sure that this proxy owns the stream, and may believe it. All of
// this file runs on the stream's goroutine.
func (s *owned) own(ctx context.Context, o *op) error {
	if s.w != nil {
		if s.lease.Held() {
			return nil
		}
		// Paused, or the store does not answer: nothing is written before we know.
		err := s.lease.Confirm(ctx)
		if err == nil {
			return nil
		}
		if !errors.Is(err, owner.ErrLost) {
			return status(wire.ZooKeeperError, "stream %s: %v", s.name, err)
		}
		s.letGo(false, err)
	}
	if s.taken != nil && time.Now().Before(s.until) && !o.call.Tried(s.taken.Owner.Addr) {
		return s.redirect(s.taken)
	}
	if !s.p.accepting() {
		return status(wire.ServiceUnavailable, "proxy takes no more streams")
	}
	return s.acquire(ctx, o)
}

// redirect is the answer that names the owner.
func (s *owned) redirect(t *owner.TakenError) error {
	to := t.Owner.Location.String()
	if f := s.p.o.Events.Redirected; f != nil {
		f(Redirected{Stream: string(s.name), To: to})
	}
	s.p.stats.redirected.Inc()
	return &wire.StatusError{Code: wire.Found, Location: to}
}

// acquire takes the stream: owner's node, then writer, then one more look at
// the lease, because opening the writer can take long.
func (s *owned) acquire(ctx context.Context, o *op) error {
	began := time.Now()
	lease := s.p.lease.Load()
	if lease == nil {
		return status(wire.StreamUnavailable, "proxy has no lease now")
	}
	s.taken = nil
	// A proxy that its client cannot use is waited for as long as its lease
	// can last without it.
	wait, cancel := context.WithTimeout(ctx, 2*s.p.o.LeaseTTL+time.Second)
	claim, err := lease.Take(wait, s.name, o.call.Tried)
	cancel()
	var taken *owner.TakenError
	if errors.As(err, &taken) {
		s.taken, s.until = taken, time.Now().Add(s.p.o.LeaseTTL*3/5)
		return s.redirect(taken)
	}
	if err != nil {
		return withCode(err)
	}
	w, last, err := s.p.b.open(ctx, s.name)
	if err == nil {
		if err = lease.Confirm(ctx); err != nil {
			err = errors.Join(err, w.Abort())
		}
	}
	if err != nil {
		s.drop(claim)
		return withCode(err)
	}
	s.w, s.claim = w, claim
	octx, end := context.WithCancel(s.p.ctx)
	s.ctx = octx
	s.mu.Lock()
	s.cancel = end
	s.lease, s.last, s.binds, s.doubt = lease, last, nil, false
	s.mu.Unlock()
	s.epoch.Store(claim.Epoch)
	s.active.Store(true)
	took := time.Since(began)
	s.p.log.Info("stream taken", zap.String("stream", string(s.name)), zap.Int64("epoch", claim.Epoch), zap.Duration("took", took))
	s.p.stats.acquired.Inc()
	if f := s.p.o.Events.Acquired; f != nil {
		f(Acquired{Stream: string(s.name), Epoch: claim.Epoch, Took: took})
	}
	return nil
}

// dropDead lets go of a stream whose writer failed or whose lease is lost.
func (s *owned) dropDead() {
	if s.w == nil {
		return
	}
	select {
	case <-s.lease.Lost():
		s.letGo(false, owner.ErrLost)
		return
	default:
	}
	if err := s.w.Err(); err != nil {
		s.letGo(false, err)
		return
	}
	s.mu.Lock()
	doubt := s.doubt
	s.mu.Unlock()
	if doubt {
		s.letGo(false, stream.ErrTimeout)
	}
}

// letGo ends the ownership: clean completes the segment, otherwise the next
// owner recovers it.
func (s *owned) letGo(clean bool, cause error) {
	if s.w == nil {
		return
	}
	s.active.Store(false)
	s.mu.Lock()
	s.binds = nil
	s.mu.Unlock()
	var err error
	if clean {
		err = s.w.Close()
	} else {
		err = s.w.Abort()
	}
	s.mu.Lock()
	s.cancel()
	s.cancel = nil
	s.mu.Unlock()
	if err != nil {
		s.p.log.Info("writer ended badly", zap.String("stream", string(s.name)), zap.Error(err))
	}
	s.drop(s.claim)
	epoch := s.epoch.Load()
	s.p.log.Info("stream let go", zap.String("stream", string(s.name)), zap.Int64("epoch", epoch), zap.Bool("clean", clean && err == nil),
		zap.NamedError("cause", cause))
	s.p.stats.released.Inc()
	if f := s.p.o.Events.Released; f != nil {
		f(Released{Stream: string(s.name), Epoch: epoch, Clean: clean && err == nil, Cause: cause})
	}
	s.w, s.claim = nil, nil
}

// drop deletes the owner's node; if it cannot, the end of the lease does.
func (s *owned) drop(c *owner.Claim) {
	ctx, cancel := context.WithTimeout(context.Background(), s.p.o.LeaseTTL)
	defer cancel()
	if s.p.killed.Load() {
		return // as after a crash: nothing is tidied up
	}
	if err := c.Drop(ctx); err != nil {
		s.p.log.Info("owner's node stays until the lease ends", zap.String("stream", string(s.name)), zap.Error(err))
	}
}

// release hands the stream over.
func (s *owned) release(ctx context.Context) error {
	if s.w != nil {
		s.letGo(true, nil)
		return nil
	}
	return s.elsewhere(ctx)
}

// elsewhere is a redirect if another proxy owns the stream.
func (s *owned) elsewhere(ctx context.Context) error {
	lease := s.p.lease.Load()
	if lease == nil {
		return status(wire.StreamUnavailable, "proxy has no lease now")
	}
	o, err := lease.Owner(ctx, s.name)
	if err != nil {
		return withCode(err)
	}
	if o == nil || o.Addr == lease.Location().Addr {
		return nil
	}
	return s.redirect(&owner.TakenError{Stream: s.name, Owner: *o})
}

// delete removes the stream. Being its owner keeps other proxies from writing
// it meanwhile.
func (s *owned) delete(ctx context.Context, o *op) error {
	if err := s.own(ctx, o); err != nil {
		return err
	}
	claim := s.claim
	s.letGo(true, nil)
	if err := s.p.b.delete(ctx, s.name); err != nil {
		return withCode(err)
	}
	return claim.Forget(ctx)
}

// truncate gives up what is before a position.
func (s *owned) truncate(ctx context.Context, o *op) error {
	to, err := stream.ParseDLSN(o.call.DLSN)
	if err != nil {
		return err // Call answered that already
	}
	if err := s.own(ctx, o); err != nil {
		return err
	}
	return withCode(s.p.b.truncate(ctx, s.name, to))
}

// withCode gives errors of the metadata store and of contexts the status code
// that package wire, which does not know them, cannot.
func withCode(err error) error {
	var se *wire.StatusError
	switch {
	case err == nil || errors.As(err, &se):
		return err
	case errors.Is(err, owner.ErrLost):
		return status(wire.LockingException, "%v", err)
	case errors.Is(err, metadata.ErrUnavailable), errors.Is(err, metadata.ErrSessionLost), errors.Is(err, metadata.ErrUnknownOutcome),
		errors.Is(err, metadata.ErrClosed):
		return status(wire.ZooKeeperError, "%v", err)
	case errors.Is(err, metadata.ErrConflict), errors.Is(err, metadata.ErrExists), errors.Is(err, metadata.ErrNotFound),
		errors.Is(err, metadata.ErrNotEmpty):
		return status(wire.MetadataException, "%v", err)
	}
	return err
}
