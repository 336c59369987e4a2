package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

// retryInterval is the pause after a failed try, and callTimeout bounds one.
const (
	retryInterval = 500 * time.Millisecond
	callTimeout   = 10 * time.Second
)

// Options sets up a registration.
type Options struct {
	Cluster *layout.Cluster
	ID      bk.BookieID
	Info    layout.ServiceInfo
	TTL     time.Duration
	Logger  *zap.Logger
	// Mode tells the list to be in; ok is false for none of them.
	Mode func() (m layout.Mode, ok bool)
	// Changed gets a signal when Mode may answer differently.
	Changed <-chan struct{}
}

// Registration keeps a bookie listed. Its goroutine, run, is ended by Close.
type Registration struct {
	o       Options
	sess    metadata.Session // nil while there is none; of run
	cancel  context.CancelFunc
	stopped chan struct{}
}

// Start registers and returns once the bookie is listed. It waits for a node
// of an earlier process with the same id to end, two TTLs at most.
func Start(ctx context.Context, o Options) (*Registration, error) {
	r := &Registration{o: o, stopped: make(chan struct{})}
	wait, cancel := context.WithTimeout(ctx, 2*o.TTL+callTimeout)
	defer cancel()
	if err := r.register(wait); err != nil {
		if errors.Is(err, metadata.ErrExists) {
			err = fmt.Errorf("another running bookie has the id %s: %w", o.ID, err)
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout) // wait may be over
		defer cancel()
		return nil, errors.Join(err, r.endSession(end))
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = stop
	go r.run(run)
	return r, nil
}

func (r *Registration) register(ctx context.Context) error {
	mode, ok := r.o.Mode()
	if !ok {
		return r.endSession(ctx)
	}
	if r.sess != nil && isDone(r.sess) {
		r.o.Logger.Warn("metadata session lost, registering again", zap.String("bookie", string(r.o.ID)))
		r.sess = nil
	}
	if r.sess == nil {
		s, err := r.o.Cluster.Store().Session(ctx, metadata.SessionOptions{TTL: r.o.TTL})
		if err != nil {
			return fmt.Errorf("session of bookie %s: %w", r.o.ID, err)
		}
		r.sess = s
	}
	if err := r.o.Cluster.Register(ctx, r.sess, r.o.ID, r.o.Info, mode); err != nil {
		return fmt.Errorf("register bookie %s: %w", r.o.ID, err)
	}
	return nil
}

func isDone(s metadata.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func (r *Registration) endSession(ctx context.Context) error {
	if r.sess == nil {
		return nil
	}
	s := r.sess
	r.sess = nil
	if err := s.Close(ctx); err != nil && !errors.Is(err, metadata.ErrSessionLost) {
		return fmt.Errorf("end session of bookie %s: %w", r.o.ID, err)
	}
	return nil
}

func (r *Registration) run(ctx context.Context) {
	defer close(r.stopped)
	for {
		var lost <-chan struct{}
		if r.sess != nil {
			lost = r.sess.Done()
		}
		select {
		case <-ctx.Done():
			return
		case <-r.o.Changed:
		case <-lost: // register sees it
		}
		r.again(ctx)
	}
}

// again tries until the bookie is listed as it should be.
func (r *Registration) again(ctx context.Context) {
	for {
		try, cancel := context.WithTimeout(ctx, callTimeout)
		err := r.register(try)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		r.o.Logger.Warn("registration failed, will try again", zap.Error(err))
		if errors.Is(err, metadata.ErrSessionLost) {
			r.sess = nil
		}
		t := time.NewTimer(retryInterval)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// Close takes the bookie out of the lists and ends its session.
func (r *Registration) Close(ctx context.Context) error {
	r.cancel()
	<-r.stopped
	return r.endSession(ctx)
}
