package writers

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/loglode/loglode/stream"
)

// Options of a Writer. The zero value of each field is its default.
type Options struct {
	// BytesInFlight is the most bytes of records (payload and 20 bytes each)
	// appended and not acknowledged. Go blocks beyond it, TryGo answers
	// stream.ErrBufferFull. One append may always be in flight, whatever its
	// size. Default 16 MiB.
	BytesInFlight int64
	// EntryBytes is the size at which an entry is full: the next record starts
	// another one. A longer record makes a longer entry. At most 1 MiB − 4 KiB.
	// Default 128 KiB.
	EntryBytes int
	// EntriesInFlight is the most entries handed over and not acknowledged;
	// beyond it records wait and make larger entries. Default 8.
	EntriesInFlight int
	// WriteTimeout ends an append whose context has no deadline. Default 30 s.
	WriteTimeout time.Duration
	// OpTimeout bounds what the writer does on its own: one attempt to start or
	// complete a segment. Default 10 s.
	OpTimeout time.Duration
	// RollRetry is how long a writer stays on its segment after a roll failed
	// before it tries again. Default 5 s.
	RollRetry time.Duration

	Logger     *zap.Logger           // nil = none
	Registerer prometheus.Registerer // nil = no metrics
	Events     Events
}

// Option changes the Options of a writer.
type Option func(*Options)

// WithOptions sets all options at once.
func WithOptions(o Options) Option { return func(dst *Options) { *dst = o } }

// WithBytesInFlight sets Options.BytesInFlight.
func WithBytesInFlight(n int64) Option { return func(o *Options) { o.BytesInFlight = n } }

// WithEntryBytes sets Options.EntryBytes.
func WithEntryBytes(n int) Option { return func(o *Options) { o.EntryBytes = n } }

// WithEntriesInFlight sets Options.EntriesInFlight.
func WithEntriesInFlight(n int) Option { return func(o *Options) { o.EntriesInFlight = n } }

// WithWriteTimeout sets Options.WriteTimeout.
func WithWriteTimeout(d time.Duration) Option { return func(o *Options) { o.WriteTimeout = d } }

// WithLogger sets Options.Logger.
func WithLogger(l *zap.Logger) Option { return func(o *Options) { o.Logger = l } }

// WithRegisterer sets Options.Registerer.
func WithRegisterer(r prometheus.Registerer) Option { return func(o *Options) { o.Registerer = r } }

// WithEvents sets Options.Events.
func WithEvents(e Events) Option { return func(o *Options) { o.Events = e } }

// Events are hooks for state changes. Each runs on the writer's own goroutine
// with no lock held and must not block. nil hooks are skipped.
type Events struct {
	Started   func(Started)   // a segment was started
	Completed func(Completed) // a segment was completed by this writer
	Failed    func(err error) // the writer ended with err
}

// Started tells of a segment that a writer started.
type Started struct {
	Stream  stream.Name
	Segment int64         // its sequence number
	Roll    bool          // it replaces an older one of this writer
	Stall   time.Duration // how long records waited for it
}

// Completed tells of a segment that a writer completed, or failed to complete:
// then the next writer does.
type Completed struct {
	Stream  stream.Name
	Segment int64
	Records int64
	Err     error
}

func (o Options) withDefaults() Options {
	if o.BytesInFlight == 0 {
		o.BytesInFlight = 16 << 20
	}
	if o.EntryBytes == 0 {
		o.EntryBytes = 128 << 10
	}
	if o.EntriesInFlight == 0 {
		o.EntriesInFlight = 8
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&o.WriteTimeout, 30 * time.Second}, {&o.OpTimeout, 10 * time.Second}, {&o.RollRetry, 5 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// entryBytesMax is the most bytes of an entry, its envelope included.
const entryBytesMax = 1<<20 - 4<<10

// Validate names each field that cannot be used, and its value.
func (o Options) Validate() error {
	var errs []error
	if o.BytesInFlight < 0 {
		errs = append(errs, fmt.Errorf("BytesInFlight %d is negative", o.BytesInFlight))
	}
	if o.EntryBytes < 0 || o.EntryBytes > entryBytesMax {
		errs = append(errs, fmt.Errorf("EntryBytes %d: want 0 to %d", o.EntryBytes, entryBytesMax))
	}
	if o.EntriesInFlight < 0 {
		errs = append(errs, fmt.Errorf("EntriesInFlight %d is negative", o.EntriesInFlight))
	}
	if o.WriteTimeout < 0 || o.OpTimeout < 0 || o.RollRetry < 0 {
		errs = append(errs, fmt.Errorf("WriteTimeout %v, OpTimeout %v, RollRetry %v: want none negative",
			o.WriteTimeout, o.OpTimeout, o.RollRetry))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("writer options: %w", err)
	}
	return nil
}
