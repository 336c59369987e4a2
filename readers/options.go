package readers

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/stream"
)

// Options of a Reader. The zero value of each field is its default.
type Options struct {
	// PrefetchBytes is how many bytes of entries are fetched before they are
	// asked for. One entry may always be held. Default 8 MiB.
	PrefetchBytes int64
	// SkipTruncated lets a reader whose position was truncated go on at the
	// first record that is left, instead of failing with stream.ErrTruncated.
	SkipTruncated bool
	// RetryFor is how long reading is tried again while bookies or metadata do not
	// answer, before the reader fails. Default 1 min.
	RetryFor time.Duration
	// IdleAfter calls Idle once each time the reader was asked for a record and
	// none came for so long. 0 = never.
	IdleAfter time.Duration
	// Idle is called on the goroutine of Next or NextBatch.
	Idle func(Idle)
	// Filter drops records it answers false to. It runs on the goroutine of
	// Next or NextBatch and must not keep the payload.
	Filter func(stream.Record) bool
	// Pace replays records as fast as they were written, times Pace, by their
	// txids as milliseconds: 1 is the original speed, 2 twice that. 0 = as fast
	// as possible.
	Pace float64

	Logger *zap.Logger // nil = none
}

// Idle tells of a reader that waits.
type Idle struct {
	After   stream.DLSN   // the last record given; stream.InvalidDLSN if none yet
	Waiting time.Duration // how long it has waited
}

// Option changes the Options of a reader.
type Option func(*Options)

// Prefetch sets Options.PrefetchBytes.
func Prefetch(bytes int64) Option { return func(o *Options) { o.PrefetchBytes = bytes } }

// SkipTruncated sets Options.SkipTruncated.
func SkipTruncated() Option { return func(o *Options) { o.SkipTruncated = true } }

// RetryFor sets Options.RetryFor.
func RetryFor(d time.Duration) Option { return func(o *Options) { o.RetryFor = d } }

// IdleAfter sets Options.IdleAfter and Options.Idle.
func IdleAfter(d time.Duration, fn func(Idle)) Option {
	return func(o *Options) { o.IdleAfter, o.Idle = d, fn }
}

// Filter sets Options.Filter.
func Filter(fn func(stream.Record) bool) Option { return func(o *Options) { o.Filter = fn } }

// Pace sets Options.Pace.
func Pace(speed float64) Option { return func(o *Options) { o.Pace = speed } }

// WithLogger sets Options.Logger.
func WithLogger(l *zap.Logger) Option { return func(o *Options) { o.Logger = l } }

func (o Options) withDefaults() Options {
	if o.PrefetchBytes == 0 {
		o.PrefetchBytes = 8 << 20
	}
	if o.RetryFor == 0 {
		o.RetryFor = time.Minute
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// Validate names each field that cannot be used, and its value.
func (o Options) Validate() error {
	var errs []error
	if o.PrefetchBytes < 0 {
		errs = append(errs, fmt.Errorf("PrefetchBytes %d is negative", o.PrefetchBytes))
	}
	if o.RetryFor < 0 {
		errs = append(errs, fmt.Errorf("RetryFor %v is negative", o.RetryFor))
	}
	if o.IdleAfter < 0 || o.IdleAfter > 0 && o.Idle == nil {
		errs = append(errs, fmt.Errorf("IdleAfter %v: want a positive time and a function", o.IdleAfter))
	}
	if o.Pace < 0 || o.Pace != o.Pace {
		errs = append(errs, fmt.Errorf("Pace %v is not a speed", o.Pace))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reader options: %w", err)
	}
	return nil
}
