package proxy

import (
	"context"
	"errors"
	"time"
)

// Drain hands everything over and ends Serve: the proxy leaves the members,
// refuses new streams, completes the segments of those it owns, answers what
// is outstanding, and closes its connections and lease. When ctx ends before, it lets
// go of the rest as a crash would.
func (p *Proxy) Drain(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.o.DrainTimeout)
		defer cancel()
	}
	p.setDown()
	var errs []error
	l := p.lease.Load()
	if l != nil {
		errs = append(errs, l.Leave(ctx))
	}
	errs = append(errs, p.closeStreams(ctx))
	if err := errors.Join(errs...); err != nil && ctx.Err() != nil {
		return errors.Join(err, p.Kill())
	}
	p.shut()
	if err := p.waitDown(ctx); err != nil {
		return errors.Join(err, p.Kill())
	}
	if l = p.lease.Load(); l != nil {
		errs = append(errs, l.Close(ctx))
	}
	return errors.Join(errs...)
}

// Close is Drain, bounded by DrainTimeout.
func (p *Proxy) Close() error { return p.Drain(context.Background()) }

// Kill ends Serve as a crash would: connections are cut, writers let go, and
// the streams stay this proxy's in metadata until the lease ends.
func (p *Proxy) Kill() error {
	p.killed.Store(true)
	p.setDown()
	p.mu.Lock()
	for nc := range p.conns {
		_ = nc.Close() // its reader and writer see it
	}
	p.mu.Unlock()
	p.cancel()
	p.mu.Lock()
	for _, s := range p.streams {
		s.lose()
	}
	p.mu.Unlock()
	p.shut()
	p.mu.Lock()
	served := p.listener != nil
	p.mu.Unlock()
	if served {
		<-p.down
	}
	if l := p.lease.Load(); l != nil {
		l.Abandon()
	}
	return nil
}

// waitDown waits until Serve has ended, if it was called.
func (p *Proxy) waitDown(ctx context.Context) error {
	p.mu.Lock()
	served := p.listener != nil
	p.mu.Unlock()
	if !served {
		return nil
	}
	select {
	case <-p.down:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeStreams hands all streams over and waits for it.
func (p *Proxy) closeStreams(ctx context.Context) error {
	p.mu.Lock()
	for _, s := range p.streams {
		s.close()
	}
	p.mu.Unlock()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for p.tableSize() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// shut stops accepting and lets connections end once they are answered.
func (p *Proxy) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.stop()
	if p.listener != nil {
		_ = p.listener.Close() // Accept reports it
	}
	for _, cancel := range p.conns {
		cancel()
	}
}
