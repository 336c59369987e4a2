package benchmarks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load says what to send.
type Load struct {
	Rate        float64       // operations per second on a fixed schedule; 0 = closed loop
	Outstanding int           // closed loop: operations in flight; open loop: the most in flight. Default 1,000
	SizeBytes   int           // payload of each operation. Default 1,024
	Warmup      time.Duration // not measured. Default 2 s
	Duration    time.Duration // measured. Default 10 s
	Count       int64         // stop after so many measured operations; 0 = by Duration
	ServerPIDs  []int         // processes whose processor time counts as the servers'

	newClock func() (sleeper, error) // default newPacer
}

var errClock = errors.New("the timer of the load generator failed")

func (l Load) withDefaults() Load {
	if l.Outstanding == 0 {
		l.Outstanding = 1000
	}
	if l.SizeBytes == 0 {
		l.SizeBytes = 1024
	}
	if l.Warmup == 0 {
		l.Warmup = 2 * time.Second
	}
	if l.Duration == 0 {
		l.Duration = 10 * time.Second
	}
	if l.newClock == nil {
		l.newClock = newPacer
	}
	return l
}

// Validate names each field that cannot be used, and its value.
func (l Load) Validate() error {
	var errs []error
	if l.Rate < 0 {
		errs = append(errs, fmt.Errorf("rate %v is negative", l.Rate))
	}
	if l.Outstanding < 0 {
		errs = append(errs, fmt.Errorf("outstanding %d is negative", l.Outstanding))
	}
	if l.SizeBytes < 0 || l.SizeBytes > 1<<20 {
		errs = append(errs, fmt.Errorf("size %d bytes is not between 0 and 1 MiB", l.SizeBytes))
	}
	if l.Warmup < 0 || l.Duration < 0 || l.Count < 0 {
		errs = append(errs, errors.New("warm-up, duration and count must not be negative"))
	}
	return errors.Join(errs...)
}

// Target is what a Load is sent to. Send starts one operation; op.Done is called
// exactly once, on any goroutine, maybe before Send returns. The op and its
// payload are the caller's again when Done runs.
type Target interface {
	Send(ctx context.Context, op *Op)
}

// TargetFunc is a Target made of a function.
type TargetFunc func(ctx context.Context, op *Op)

// Send calls f.
func (f TargetFunc) Send(ctx context.Context, op *Op) { f(ctx, op) }

// Op is one operation in flight. Ops are reused, so that the load generator
// allocates nothing per operation.
type Op struct {
	Index   int       // of this Op among those outstanding, from 0
	Payload []byte    // from 8 bytes on it begins with Start, in ns since 1970, big-endian
	Start   time.Time // due time in the open loop, time of the call in the closed one
	Done    func(error)
	Adapter any // for the target: what it needs to call Done, kept between uses

	run *run
}

type run struct {
	load  Load
	clock sleeper
	free  chan *Op

	mu    sync.Mutex // guards what follows
	hist  *hdrhistogram.Histogram
	first error

	measuring atomic.Bool
	finished  atomic.Int64 // measured operations done
	failed    atomic.Int64
}

// Run sends the load to target until its time or count is over, waits for what
// is in flight, and tells what was seen. The first failure of an operation ends
// the run with that error, and the result so far.
func Run(ctx context.Context, load Load, target Target) (Result, error) {
	load = load.withDefaults()
	if err := load.Validate(); err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	clock, err := load.newClock()
	if err != nil {
		return Result{}, err
	}
	defer clock.close()
	r := &run{load: load, clock: clock, free: make(chan *Op, load.Outstanding), hist: newHistogram()}
	for i := range load.Outstanding {
		o := &Op{Index: i, run: r, Payload: make([]byte, load.SizeBytes)}
		for k := range o.Payload {
			o.Payload[k] = byte(k*7 + i)
		}
		o.Done = o.finish
		r.free <- o
	}
	before, begin := Usage{}, time.Now()
	measureFrom := begin.Add(load.Warmup)
	err = r.pump(ctx, target, begin, func() {
		before, measureFrom = ReadUsage(load.ServerPIDs), time.Now()
		r.measuring.Store(true)
	})
	elapsed := time.Since(measureFrom)
	r.measuring.Store(false)
	after, done := ReadUsage(load.ServerPIDs), r.finished.Load()
	for range load.Outstanding { // wait for what is in flight
		<-r.free
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	res := newResult(load, done, elapsed, r.hist, after.Since(before))
	res.Failed = r.failed.Load()
	return res, errors.Join(err, r.first)
}

// pump sends until the load is over, a failure or the end of ctx.
func (r *run) pump(ctx context.Context, target Target, begin time.Time, startMeasuring func()) error {
	measureAt, sent := begin.Add(r.load.Warmup), int64(0)
	end := measureAt.Add(r.load.Duration)
	for {
		now := time.Now()
		if r.measuring.Load() {
			if r.load.Count > 0 && r.finished.Load() >= r.load.Count || r.load.Count == 0 && !now.Before(end) {
				return nil
			}
		} else if !now.Before(measureAt) {
			startMeasuring()
		}
		start := now
		if r.load.Rate > 0 {
			start = begin.Add(time.Duration(float64(sent) / r.load.Rate * float64(time.Second)))
			if wait := start.Sub(now); wait > 0 && !r.clock.sleep(ctx, wait) {
				if ctx.Err() == nil {
					return errClock
				}
				return context.Cause(ctx)
			}
		}
		var o *Op
		select {
		case o = <-r.free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if r.failed.Load() > 0 {
			r.free <- o
			return nil
		}
		if r.load.Rate == 0 {
			start = time.Now()
		}
		o.Start = start
		if len(o.Payload) >= startBytes {
			binary.BigEndian.PutUint64(o.Payload, uint64(start.UnixNano()))
		}
		sent++
		target.Send(ctx, o)
	}
}

// startBytes is the size of the start time at the head of a payload.
const startBytes = 8

// startOf reads the start time from the head of a payload.
func startOf(payload []byte) (time.Time, bool) {
	if len(payload) < startBytes {
		return time.Time{}, false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(payload))), true
}

func (o *Op) finish(err error) {
	r := o.run
	if err != nil {
		r.failed.Add(1)
		r.mu.Lock()
		if r.first == nil {
			r.first = err
		}
		r.mu.Unlock()
	} else if r.measuring.Load() {
		us := time.Since(o.Start).Microseconds()
		r.mu.Lock()
		_ = r.hist.RecordValue(min(us, histogramMax))
		r.mu.Unlock()
		r.finished.Add(1)
	}
	r.free <- o
}
