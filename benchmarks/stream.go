package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/stream"
)

// Appender is what the library's writer and the proxy client have in common.
type Appender interface {
	Go(ctx context.Context, r stream.Record, done func(stream.DLSN, error))
}

// Append appends records to a stream through w.
func Append(ctx context.Context, w Appender, load Load) (Result, error) {
	res, err := Run(ctx, load, streamTarget(w))
	res.Name = "append"
	return res, err
}

func streamTarget(w Appender) Target {
	return TargetFunc(func(ctx context.Context, op *Op) {
		done, ok := op.Adapter.(func(stream.DLSN, error))
		if !ok {
			done = func(_ stream.DLSN, err error) { op.Done(err) }
			op.Adapter = done
		}
		w.Go(ctx, stream.Record{Payload: op.Payload}, done)
	})
}

// Tail appends records through w while a reader of its own tails the stream.
// TailMicros of the result is the time from when a record was due to when the
// reader had it; both have one clock, this process's.
func Tail(ctx context.Context, w Appender, s *namespace.Stream, load Load) (Result, error) {
	load = load.withDefaults()
	if load.SizeBytes < startBytes {
		return Result{}, fmt.Errorf("tail: size %d bytes: want at least %d, for the time of each record", load.SizeBytes, startBytes)
	}
	r, err := s.Reader(ctx, stream.Now())
	if err != nil {
		return Result{}, err
	}
	t := &tailing{hist: newHistogram(), from: time.Now().Add(load.Warmup)}
	rctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		for {
			rec, err := r.Next(rctx)
			if err != nil {
				if rctx.Err() != nil || errors.Is(err, io.EOF) {
					err = nil
				}
				ended <- err
				return
			}
			t.saw(rec)
		}
	}()
	res, err := Run(ctx, load, streamTarget(w))
	stop()
	err = errors.Join(err, <-ended, r.Close())
	res.Name = "append to tail"
	t.mu.Lock()
	defer t.mu.Unlock()
	l := latencyOf(t.hist)
	res.TailMicros = &l
	if err == nil && t.hist.TotalCount() == 0 {
		err = errors.New("tail: the reader saw no record")
	}
	return res, err
}

type tailing struct {
	from time.Time

	mu   sync.Mutex // guards hist
	hist *hdrhistogram.Histogram
}

func (t *tailing) saw(r stream.Record) {
	start, ok := startOf(r.Payload)
	if !ok || start.Before(t.from) {
		return
	}
	us := max(0, min(time.Since(start).Microseconds(), histogramMax))
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.hist.RecordValue(us)
}
