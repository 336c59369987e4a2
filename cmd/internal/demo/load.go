package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/loglode/loglode/cmd/internal/proc"
	"github.com/loglode/loglode/cmd/internal/routed"
	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/stream"
)

// appender is what the library's writer and the proxy client have in common.
type appender interface {
	Go(ctx context.Context, r stream.Record, done func(stream.DLSN, error))
	Flush(ctx context.Context) error
	Close() error
}

// phase is what appending one half saw. Callbacks come one at a time.
type phase struct {
	mu      sync.Mutex // guards what follows
	lines   int
	took    time.Duration
	micros  *hdrhistogram.Histogram
	last    time.Time     // of the last acknowledgement
	longest time.Duration // between two acknowledgements
	dlsn    stream.DLSN
	err     error
}

// event is something to do to the system once so many lines are handed over.
// It runs beside the appending, one event after the other.
type event struct {
	at int // index into the input
	do func(ctx context.Context) error
}

// runEvents does each event that it is told the index of.
func runEvents(ctx context.Context, events []event, due <-chan int) error {
	for i := range due {
		if err := events[i].do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// run appends lines[from:to] and does the events on the way.
func (p *phase) run(ctx context.Context, w appender, lines [][]byte, from, to int, events []event) error {
	p.micros = hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
	due, happened := make(chan int, len(events)), make(chan error, 1)
	go func() { happened <- runEvents(ctx, events, due) }()
	err := p.append(ctx, w, lines, from, to, events, due)
	close(due)
	return errors.Join(err, <-happened)
}

func (p *phase) append(ctx context.Context, w appender, lines [][]byte, from, to int, events []event, due chan<- int) error {
	begin, next := time.Now(), 0
	p.last = begin
	for i := from; i < to; i++ {
		if next < len(events) && i >= events[next].at {
			due <- next
			next++
		}
		sent := time.Now()
		w.Go(ctx, stream.Record{Payload: lines[i]}, func(d stream.DLSN, err error) { p.acked(sent, d, err) })
		if err := p.failure(); err != nil {
			return err
		}
	}
	if err := w.Flush(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.took = time.Since(begin)
	got := p.lines
	p.mu.Unlock()
	if err := p.failure(); err != nil {
		return err
	}
	if got != to-from {
		return fmt.Errorf("%d of %d lines were acknowledged", got, to-from)
	}
	return nil
}

func (p *phase) acked(sent time.Time, d stream.DLSN, err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.lines > 0 && d.Compare(p.dlsn) <= 0 {
		err = fmt.Errorf("acknowledged %v after %v", d, p.dlsn)
	}
	if err != nil {
		if p.err == nil {
			p.err = err
		}
		return
	}
	p.lines++
	p.dlsn = d
	_ = p.micros.RecordValue(max(1, now.Sub(sent).Microseconds()))
	p.longest = max(p.longest, now.Sub(p.last))
	p.last = now
}

func (p *phase) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (d *demo) half() int { return len(d.input.lines) / 2 }

// appendFirstHalf writes through the library; a bookie dies on the way and
// comes back later.
func (d *demo) appendFirstHalf(ctx context.Context) error {
	ns, err := namespace.Open(ctx, d.cluster.Namespace)
	if err != nil {
		return err
	}
	defer ns.Close()
	s, err := ns.Stream(ctx, streamName)
	if err != nil {
		return err
	}
	w, err := s.Writer(ctx)
	if err != nil {
		return err
	}
	victim, half := d.cluster.Bookies[0], d.half()
	err = d.first.run(ctx, w, d.input.lines, 0, half, []event{
		{at: half / 2, do: func(context.Context) error { d.kill(victim); return nil }},
		{at: half * 3 / 4, do: func(ctx context.Context) error { return d.restart(ctx, victim) }},
	})
	if err != nil {
		return err
	}
	say("first half durable, through the library")
	return w.Close()
}

// appendSecondHalf writes through the proxies; the owner dies on the way and
// comes back later.
func (d *demo) appendSecondHalf(ctx context.Context) error {
	// A time in the middle: after the millisecond of the last record, before
	// the first of the second half.
	d.middle = time.Now().Truncate(time.Millisecond).Add(2 * time.Millisecond)
	<-time.After(time.Until(d.middle) + 2*time.Millisecond)
	ns, err := namespace.Open(ctx, d.cluster.Namespace)
	if err != nil {
		return err
	}
	defer ns.Close()
	c, err := routed.Open(ctx, ns, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := c.Writer(ctx, streamName)
	if err != nil {
		return err
	}
	var victim *proc.Process
	half, n := d.half(), len(d.input.lines)
	err = d.second.run(ctx, w, d.input.lines, half, n, []event{
		{at: half + (n-half)/2, do: func(context.Context) error {
			victim = d.cluster.ProxyAt(c.Owner(streamName))
			if victim == nil {
				return fmt.Errorf("no proxy owns the stream: %q", c.Owner(streamName))
			}
			d.kill(victim)
			return nil
		}},
		{at: half + (n-half)*3/4, do: func(ctx context.Context) error { return d.restart(ctx, victim) }},
	})
	if err != nil {
		return err
	}
	say("second half durable, through the proxies")
	return w.Close()
}

func (d *demo) kill(p *proc.Process) {
	p.Kill()
	d.killed = append(d.killed, p.Name)
	say("kill -9 %s", p.Name)
}

func (d *demo) restart(ctx context.Context, p *proc.Process) error {
	if err := p.Start(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	say("restarted %s", p.Name)
	return nil
}
