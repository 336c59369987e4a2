package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/loglode/loglode/stream"
)

// Conditions of a client; those of streams are in package stream.
var (
	// ErrUnknownOutcome: the record may be in the stream or not.
	ErrUnknownOutcome = errors.New("unknown whether the record was appended")
	// ErrNoProxy: no proxy is known, or none could be used.
	ErrNoProxy = errors.New("no write proxy available")
)

// Resolve gives the records of a stream after one DLSN up to and including
// another, in order. It must wait for records that are not visible yet, and end
// with an error if it cannot give all. Payloads need to be valid until the next
// step only.
type Resolve func(ctx context.Context, name stream.Name, after, through stream.DLSN) iter.Seq2[stream.Record, error]

// Options of a Client. The zero value is good, but for Resolve, without which
// the outcome of a lost append stays unknown.
type Options struct {
	// Resolve reads back what an append with a lost answer may have written.
	Resolve Resolve
	// AtLeastOnce sends records of unknown outcome again where there is no
	// Resolve: they may be in the stream twice.
	AtLeastOnce bool

	Dial           func(ctx context.Context, addr string) (net.Conn, error) // default TCP
	ConnectTimeout time.Duration                                            // default 1 s
	// CallTimeout is how long one proxy may take for one answer. After SlowAfter
	// the writer looks whether it still owns the stream. Default 5 s.
	CallTimeout time.Duration
	// SlowAfter is when the owner of a stream is looked up in metadata because
	// an answer does not come. Default 500 ms.
	SlowAfter time.Duration
	// Timeout ends a writer whose oldest record was not acknowledged for so
	// long. Default 30 s.
	Timeout time.Duration
	// MaxHops is how many redirects are followed before the owner is looked up
	// in metadata. Default 3.
	MaxHops int
	// Blackout is how long a proxy that failed is left alone. Default 1 s.
	Blackout time.Duration

	BytesInFlight int // of one writer; Go blocks beyond it. Default 8 MiB
	BatchBytes    int // payload bytes of a bulk call. Default 256 KiB
	CallsInFlight int // bulk calls of one writer without an answer. Default 4

	Logger     *zap.Logger
	Registerer prometheus.Registerer
	Events     Events
}

// Events are hooks for what the routing does; nil hooks are skipped. They run on
// the goroutine that routes and must not block.
type Events struct {
	Routed   func(Routed)   // a call was sent to a proxy
	Hopped   func(Hopped)   // a proxy named another one as the owner
	LookedUp func(LookedUp) // the owner was read from metadata
	Bound    func(Bound)    // a writer bound itself to a stream
	Resolved func(Resolved) // a writer settled records of unknown outcome
}

// Routed tells where a call went.
type Routed struct{ Stream, Addr string }

// Hopped tells of a redirect.
type Hopped struct {
	Stream, From, To string
	Hops             int // of this call
}

// LookedUp tells who owns a stream by metadata; Addr is "" for nobody.
type LookedUp struct{ Stream, Addr string }

// Bound tells of a new binding.
type Bound struct {
	Stream, Addr string
	Pending      int // records not acknowledged
	Took         time.Duration
}

// Resolved tells how records of unknown outcome were settled.
type Resolved struct {
	Stream  string
	Maybe   int // records of unknown outcome
	Landed  int // of them found in the stream
	Through stream.DLSN
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&o.ConnectTimeout, time.Second)
	def(&o.CallTimeout, 5*time.Second)
	def(&o.SlowAfter, 500*time.Millisecond)
	def(&o.Timeout, 30*time.Second)
	def(&o.Blackout, time.Second)
	num(&o.MaxHops, 3)
	num(&o.BytesInFlight, 8<<20)
	num(&o.BatchBytes, 256<<10)
	num(&o.CallsInFlight, 4)
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// Validate names every field that cannot be used, and its value.
func (o Options) Validate() error {
	var errs []error
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"ConnectTimeout", int64(o.ConnectTimeout)}, {"CallTimeout", int64(o.CallTimeout)}, {"SlowAfter", int64(o.SlowAfter)},
		{"Timeout", int64(o.Timeout)}, {"Blackout", int64(o.Blackout)}, {"MaxHops", int64(o.MaxHops)},
		{"BytesInFlight", int64(o.BytesInFlight)}, {"BatchBytes", int64(o.BatchBytes)}, {"CallsInFlight", int64(o.CallsInFlight)},
	} {
		if f.v < 0 {
			errs = append(errs, fmt.Errorf("%s %d is negative", f.name, f.v))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("proxy client options: %w", err)
	}
	return nil
}
