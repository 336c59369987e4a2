package writers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/stream"
)

// rollState is how far the roll to the next segment is.
type rollState uint8

const (
	rollNone       rollState = iota
	rollPreparing            // the next segment's ledger is being made; the old segment is still written
	rollPrepared             // nothing is handed over until the old segment is acknowledged and the next started
	rollCompleting           // the next segment is written, the old one is being completed
	rollResting              // the last attempt failed; the next one is made later
)

// shortFor is how long a segment with fewer bookies than configured is written
// before the writer looks whether there are enough for a full one.
const shortFor = 30 * time.Second

// checkRoll begins a roll when the segment is large or old enough, or short of
// bookies for a while. Called with w.mu held.
func (w *Writer) checkRoll(now time.Time) {
	if w.roll != rollNone || w.closing {
		return
	}
	r := w.cfg.Roll
	due := r.SizeBytes > 0 && w.seg.bytes >= r.SizeBytes || r.Every > 0 && now.Sub(w.seg.started) >= r.Every
	switch {
	case due:
		w.roll = rollPreparing
		w.beside(func() { w.prepareNext(false) })
	case w.seg.Short() && now.Sub(w.seg.looked) >= shortFor:
		w.seg.looked = now
		w.roll = rollPreparing
		w.beside(func() { w.prepareNext(true) })
	}
}

// beside runs f on the second goroutine, which must be free. Called with w.mu
// held.
func (w *Writer) beside(f func()) {
	w.running = true
	go func() {
		f()
		w.mu.Lock()
		w.running = false
		w.quiet.Broadcast()
		w.signal()
		w.mu.Unlock()
	}()
}

func (w *Writer) prepareNext(full bool) {
	ctx, cancel := context.WithTimeout(w.ctx, w.opts.OpTimeout)
	defer cancel()
	err := w.log.prepare(ctx, full)
	w.mu.Lock()
	if err == nil {
		w.roll = rollPrepared
		w.mu.Unlock()
		return
	}
	if full && errors.Is(err, stream.ErrNotEnoughBookies) {
		w.roll = rollNone // the bookies are not back yet: no news
		w.mu.Unlock()
		return
	}
	w.rest(err)
	w.deliver()
}

// rest leaves the writer on its segment after a roll failed, unless it was
// fenced. Called with w.mu held; deliver must follow.
func (w *Writer) rest(err error) {
	if errors.Is(err, stream.ErrFenced) {
		w.fail(fmt.Errorf("roll stream %s: %w", w.name, err))
		return
	}
	if w.err == nil && !w.aborted {
		w.zlog.Warn("roll failed, staying on the segment", zap.Int64("segment", w.seg.Segment()), zap.Error(err))
	}
	w.roll = rollResting
	time.AfterFunc(w.opts.RollRetry, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.roll == rollResting {
			w.roll = rollNone
		}
	})
}

// start starts the first segment, or the next one when the old one is
// acknowledged to its end. It runs on the sender.
func (w *Writer) start() {
	w.mu.Lock()
	old, first := w.seg, w.lastTx
	if w.queue.n > 0 {
		first = w.queue.head.firstTx
	}
	w.mu.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(w.ctx, w.opts.OpTimeout)
	seg, err := w.log.start(ctx, first)
	cancel()
	stall := time.Since(began)
	w.mu.Lock()
	if err != nil && old == nil {
		w.fail(fmt.Errorf("start a segment of stream %s: %w", w.name, err))
	} else if err != nil {
		w.rest(err)
	} else {
		w.switchTo(newCurrent(seg), old)
	}
	w.deliver()
	if err != nil {
		return
	}
	w.stats.started(old != nil, stall)
	w.zlog.Info("segment started", zap.Int64("segment", seg.Segment()), zap.Bool("roll", old != nil), zap.Duration("stall", stall))
	if f := w.opts.Events.Started; f != nil {
		f(Started{Stream: w.name, Segment: seg.Segment(), Roll: old != nil, Stall: stall})
	}
}

// switchTo makes the entries that wait go to seg: their positions count from
// its start. Called with w.mu held.
func (w *Writer) switchTo(seg, old *current) {
	w.seg, w.position, w.roll = seg, 0, rollNone
	for b := w.queue.head; b != nil; b = b.next {
		b.entry.Rebase(w.position)
		w.position = b.entry.Summary().Position
	}
	if old != nil {
		w.roll = rollCompleting
		w.beside(func() { w.completeOld(old) })
	}
}

// completeOld completes the segment that was rolled away from, trying until it
// works, the writer ends, or another writer turns out to have done it.
func (w *Writer) completeOld(old *current) {
	for {
		err := w.complete(old)
		if err == nil || w.ctx.Err() != nil {
			break
		}
		fenced := errors.Is(err, stream.ErrFenced) || errors.Is(err, stream.ErrConflict)
		if fenced || w.pause() {
			w.giveUp(old, err, fenced)
			break
		}
	}
	w.mu.Lock()
	if w.roll == rollCompleting {
		w.roll = rollNone
	}
	w.mu.Unlock()
}

// pause waits before the next attempt. It reports whether the writer is ending.
func (w *Writer) pause() (ending bool) {
	t := time.NewTimer(w.opts.RollRetry)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-w.ctx.Done():
	case <-w.closed:
	}
	return true
}

// giveUp leaves a segment to the next writer's recovery.
func (w *Writer) giveUp(old *current, err error, fenced bool) {
	err = errors.Join(fmt.Errorf("complete segment %d of stream %s: %w", old.Segment(), w.name, err), old.Abort())
	w.mu.Lock()
	if fenced {
		w.fail(err)
	} else {
		w.closeErr = errors.Join(w.closeErr, err)
	}
	w.deliver()
}

// complete makes one attempt to complete a segment whose entries are all
// acknowledged.
func (w *Writer) complete(seg *current) error {
	ctx, cancel := context.WithTimeout(w.ctx, w.opts.OpTimeout)
	defer cancel()
	records, err := w.log.complete(ctx, seg.target)
	if err == nil {
		w.zlog.Info("segment completed", zap.Int64("segment", seg.Segment()), zap.Int64("records", records))
	}
	w.stats.completed(err)
	if f := w.opts.Events.Completed; f != nil {
		f(Completed{Stream: w.name, Segment: seg.Segment(), Records: records, Err: err})
	}
	return err
}
