package server

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Options sets up a Server. The zero value of a field means its default.
type Options struct {
	ConnsMax      int           // open connections; one more is closed at once; 4,096
	IdleMax       time.Duration // how long a peer may leave a frame unfinished; 30 s
	WriteStallMax time.Duration // how long one write to a peer may take; 30 s
	OutBytesMax   int           // answers waiting on one connection, in bytes, before its requests are no longer read; 4 MiB
	WaitingMax    int           // reads, and as many fences, LAC writes and forces, waiting on one connection; 4,096
	LongPollsMax  int           // long polls waiting in all; 100,000
	LongPollMax   time.Duration // longest wait of one long poll; 10 min
	ReadWorkers   int           // goroutines that read entries; 8
	SyncWorkers   int           // goroutines that wait for the journal; 32
	OpTimeout     time.Duration // limit for a fence, a LAC write or a force; 30 s

	Auth       Auth // who may use the bookie; nil: everyone
	Logger     *zap.Logger
	Registerer prometheus.Registerer
	Events     Events
}

// Events are called as things happen; nil ones are skipped. None may block.
type Events struct {
	Refused func(remote string)            // accept goroutine: over ConnsMax
	Opened  func(remote string)            // accept goroutine
	Closed  func(remote string, why error) // goroutine of the connection; nil: the peer or Drain ended it
}

// Validate names the field and value it refuses.
func (o *Options) Validate() error {
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"ConnsMax", int64(o.ConnsMax)}, {"IdleMax", int64(o.IdleMax)}, {"WriteStallMax", int64(o.WriteStallMax)},
		{"OutBytesMax", int64(o.OutBytesMax)}, {"WaitingMax", int64(o.WaitingMax)},
		{"LongPollsMax", int64(o.LongPollsMax)}, {"LongPollMax", int64(o.LongPollMax)},
		{"ReadWorkers", int64(o.ReadWorkers)}, {"SyncWorkers", int64(o.SyncWorkers)}, {"OpTimeout", int64(o.OpTimeout)},
	} {
		if f.v < 0 {
			return fmt.Errorf("server options: %s is %d, want 0 or more", f.name, f.v)
		}
	}
	return nil
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (o Options) withDefaults() Options {
	orDefault(&o.ConnsMax, 4096)
	orDefault(&o.IdleMax, 30*time.Second)
	orDefault(&o.WriteStallMax, 30*time.Second)
	orDefault(&o.OutBytesMax, 4<<20)
	orDefault(&o.WaitingMax, 4096)
	orDefault(&o.LongPollsMax, 100_000)
	orDefault(&o.LongPollMax, 10*time.Minute)
	orDefault(&o.ReadWorkers, 8)
	orDefault(&o.SyncWorkers, 32)
	orDefault(&o.OpTimeout, 30*time.Second)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}
