package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// round is one call on its way to the owner.
type round struct {
	c    *Client
	name stream.Name
	call *wire.Call

	tried  []string // hosts that answered or failed in this pass over the ring
	failed []string // hosts that could not be used at all: proxies are told
	hint   string   // where the last answer sent us
	hops   int      // redirects since the last look-up
	total  int
	tries  int
	last   error // what the last host said
}

// answer is what a round ends with.
type answer struct {
	reply *wire.Reply
	conn  *wire.Conn
	addr  string
}

// route sends a call to the stream's owner, wherever that is, until it is
// answered with success or an error that is the caller's, or ctx ends. failed
// are hosts that are known not to serve.
func (c *Client) route(ctx context.Context, name stream.Name, call *wire.Call, failed ...string) (answer, error) {
	r := &round{c: c, name: name, call: call, failed: failed}
	for {
		addr, err := r.pick(ctx)
		if err != nil {
			return answer{}, r.ended(ctx, err)
		}
		a, done, err := r.ask(ctx, addr)
		if done {
			c.stats.hopsPerCall.Observe(float64(r.total))
			return a, err
		}
		r.last = err
		if ctx.Err() != nil {
			return answer{}, r.ended(ctx, ctx.Err())
		}
	}
}

// ended says why a round ended without an answer.
func (r *round) ended(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", stream.ErrTimeout, err)
	}
	if r.last != nil {
		return fmt.Errorf("%s stream %s: %w (last answer: %w)", r.call.Method, r.name, err, r.last)
	}
	return fmt.Errorf("%s stream %s: %w", r.call.Method, r.name, err)
}

// pick chooses the next host: where the last answer sent us, the cached owner,
// or the next of the ring. After MaxHops redirects it is the owner by metadata.
func (r *round) pick(ctx context.Context) (string, error) {
	hint := r.hint
	r.hint = ""
	if r.hops > r.c.o.MaxHops {
		r.hops = 0
		if err := r.pause(ctx); err != nil {
			return "", err
		}
		addr, err := r.c.lookUp(ctx, r.name)
		if err != nil {
			r.last = err
		}
		hint = addr
		r.c.setOwner(r.name, addr)
	}
	if hint != "" && !slices.Contains(r.failed, hint) {
		return hint, nil
	}
	for {
		if a := r.c.Owner(r.name); a != "" && !r.used(a) {
			return a, nil
		}
		if a := r.fromRing(); a != "" {
			return a, nil
		}
		// All were asked, or there is none: begin again, after a pause.
		if err := r.pause(ctx); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoProxy, err)
		}
		r.tried = nil
	}
}

func (r *round) used(addr string) bool {
	return slices.Contains(r.tried, addr) || slices.Contains(r.failed, addr)
}

// fromRing is the next host that was not tried: one that did not fail lately if
// there is one.
func (r *round) fromRing() string {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	second := ""
	for _, a := range c.ring.order(string(r.name)) {
		if slices.Contains(r.tried, a) {
			continue
		}
		if !c.isDown(a) && !slices.Contains(r.failed, a) {
			return a
		}
		if second == "" {
			second = a
		}
	}
	return second
}

// pause waits a little longer with each pass, up to 100 ms.
func (r *round) pause(ctx context.Context) error {
	r.tries++
	t := time.NewTimer(min(100*time.Millisecond, time.Duration(r.tries)*25*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.c.ctx.Done():
		return stream.ErrClosed
	}
}

// ask sends the call to one host. done means that the round ends here.
func (r *round) ask(ctx context.Context, addr string) (a answer, done bool, err error) {
	c := r.c
	r.tried = append(r.tried, addr)
	conn, err := c.conn(ctx, addr)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, stream.ErrClosed) {
			r.hostFailed(addr)
		}
		return a, errors.Is(err, stream.ErrClosed), err
	}
	if r.call.Context == nil {
		r.call.Context = &wire.WriteContext{}
	}
	r.call.Context.TriedHosts = nil
	for _, f := range r.failed {
		r.call.Context.TriedHosts = append(r.call.Context.TriedHosts, wire.JavaAddress(f))
	}
	if sum, ok := wire.Checksum(r.call); ok {
		r.call.Context.Crc32 = &sum
	}
	if f := c.o.Events.Routed; f != nil {
		f(Routed{string(r.name), addr})
	}
	one, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	reply, err := conn.Call(one, r.call)
	cancel()
	if err != nil {
		if ctx.Err() == nil {
			conn.Fail(err) // what waits behind this call would wait as long
			r.hostFailed(addr)
		}
		return a, false, fmt.Errorf("proxy %s: %w", addr, err)
	}
	if reply.Err != nil {
		if reply.Err.Type == wire.TypeUnknownMethod {
			r.hostFailed(addr)
			return a, false, reply.Err
		}
		return a, true, fmt.Errorf("%s stream %s at %s: %w", r.call.Method, r.name, addr, reply.Err)
	}
	done, err = r.react(addr, reply)
	return answer{reply, conn, addr}, done, err
}

// hostFailed notes a host that cannot be used.
func (r *round) hostFailed(addr string) {
	r.c.hostFailed(addr)
	if !slices.Contains(r.failed, addr) {
		r.failed = append(r.failed, addr)
	}
}

// react does what an answer asks for.
func (r *round) react(addr string, reply *wire.Reply) (done bool, err error) {
	c := r.c
	h := reply.Header()
	err = wire.ErrorOf(h)
	if h == nil {
		return true, err
	}
	r.failed = slices.DeleteFunc(r.failed, func(a string) bool { return a == addr })
	switch wire.ReactionTo(h.Code) {
	case wire.Done:
		if m := r.call.Method; m == wire.Release || m == wire.Delete {
			c.setOwner(r.name, "")
		} else {
			c.setOwner(r.name, addr)
		}
		return true, nil
	case wire.Redirect:
		r.hops++
		r.total++
		c.stats.hops.Inc()
		l, perr := wire.ParseLocation(h.GetLocation())
		if perr != nil || l.Addr == addr {
			c.forget(r.name, addr)
			return false, err
		}
		if f := c.o.Events.Hopped; f != nil {
			f(Hopped{string(r.name), addr, l.Addr, r.total})
		}
		c.setOwner(r.name, l.Addr)
		r.hint = l.Addr
	case wire.Fail:
		return true, fmt.Errorf("%s stream %s at %s: %w", r.call.Method, r.name, addr, err)
	case wire.DropHost:
		c.hostFailed(addr)
	case wire.KeepAndAsk:
	default:
		c.forget(r.name, addr)
	}
	return false, err
}
