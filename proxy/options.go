package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/writers"
)

// ShardAuto lets a proxy take the lowest shard number that is free.
const ShardAuto = -1

// Options of a Proxy. The zero value is good, but for Shard, whose zero value
// is shard 0.
type Options struct {
	// Addr is "host:port" where clients and other proxies reach this one.
	// Default: the listener's address.
	Addr string
	// Shard is this proxy's number, unique among the members. ShardAuto takes
	// the lowest free one.
	Shard int
	// LeaseTTL bounds how long the streams of a dead proxy stay without an
	// owner. Stores may round it up. Default 1 s.
	LeaseTTL time.Duration
	// RequestTimeout is when a call is answered at the latest. Default 10 s.
	RequestTimeout time.Duration
	// IdleTimeout is after how long without calls a stream is let go. Default
	// 10 min.
	IdleTimeout time.Duration
	// DrainTimeout bounds Drain and Close, when their context has no deadline.
	// Default 30 s.
	DrainTimeout time.Duration

	Limits Limits           // default: see there
	Conn   wire.ConnOptions // bounds of one connection

	// Writer is passed on to each stream's writer.
	Writer []writers.Option
	// Probe tells whether the proxy at addr is certainly dead. Default: a TCP
	// connection is refused.
	Probe func(ctx context.Context, addr string) bool

	Logger     *zap.Logger
	Registerer prometheus.Registerer
	Events     Events
}

// Limits bound what a proxy takes on. Rates are per second, 0 = no limit.
type Limits struct {
	Connections int   // default 4096; more are closed at once
	Streams     int   // streams in the table, owned or being taken. Default 100,000
	QueueBytes  int64 // payload bytes of one stream waiting for its writer. Default 32 MiB
	TotalBytes  int64 // payload bytes of all calls without an answer. Default 512 MiB
	Producers   int   // producers bound to one stream; the oldest makes room. Default 1024

	StreamCalls  float64 // write and bulk calls of one stream
	StreamBytes  float64 // payload bytes of one stream
	ServiceCalls float64 // of all streams
	ServiceBytes float64
}

// Events are hooks for state changes; nil hooks are skipped. They run on the
// goroutine of the stream, or of the connection, and must not block.
type Events struct {
	Acquired   func(Acquired)   // a stream was taken
	Released   func(Released)   // a stream was let go
	Redirected func(Redirected) // a call was answered with FOUND
	Refused    func(code wire.Code)
	LeaseLost  func()
}

// Acquired tells of a stream that this proxy took.
type Acquired struct {
	Stream string
	Epoch  int64
	Took   time.Duration // owner's node, fence, recovery
}

// Released tells of a stream that this proxy let go.
type Released struct {
	Stream string
	Epoch  int64
	Clean  bool // the segment was completed and the owner's node deleted
	Cause  error
}

// Redirected tells of a call for a stream that another proxy owns.
type Redirected struct {
	Stream string
	To     string // location
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.LeaseTTL, time.Second)
	def(&o.RequestTimeout, 10*time.Second)
	def(&o.IdleTimeout, 10*time.Minute)
	def(&o.DrainTimeout, 30*time.Second)
	l := &o.Limits
	if l.Connections == 0 {
		l.Connections = 4096
	}
	if l.Streams == 0 {
		l.Streams = 100_000
	}
	if l.QueueBytes == 0 {
		l.QueueBytes = 32 << 20
	}
	if l.TotalBytes == 0 {
		l.TotalBytes = 512 << 20
	}
	if l.Producers == 0 {
		l.Producers = 1024
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// Validate names every field that cannot be used, and its value.
func (o Options) Validate() error {
	var errs []error
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"LeaseTTL", o.LeaseTTL}, {"RequestTimeout", o.RequestTimeout}, {"IdleTimeout", o.IdleTimeout}, {"DrainTimeout", o.DrainTimeout}} {
		if d.v < 0 {
			errs = append(errs, fmt.Errorf("%s %v is negative", d.name, d.v))
		}
	}
	for _, n := range []struct {
		name string
		v    float64
	}{
		{"Connections", float64(o.Limits.Connections)}, {"Streams", float64(o.Limits.Streams)},
		{"QueueBytes", float64(o.Limits.QueueBytes)}, {"TotalBytes", float64(o.Limits.TotalBytes)},
		{"Producers", float64(o.Limits.Producers)}, {"StreamCalls", o.Limits.StreamCalls},
		{"StreamBytes", o.Limits.StreamBytes}, {"ServiceCalls", o.Limits.ServiceCalls}, {"ServiceBytes", o.Limits.ServiceBytes},
	} {
		if n.v < 0 {
			errs = append(errs, fmt.Errorf("limit %s %v is negative", n.name, n.v))
		}
	}
	if o.Shard < ShardAuto {
		errs = append(errs, fmt.Errorf("shard %d: want 0 or more, or %d for any", o.Shard, ShardAuto))
	}
	if o.Addr != "" {
		if _, _, err := net.SplitHostPort(o.Addr); err != nil {
			errs = append(errs, fmt.Errorf("address %q: %w", o.Addr, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("proxy options: %w", err)
	}
	return nil
}
