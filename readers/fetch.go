package readers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/segment"
	"github.com/loglode/loglode/stream"
)

const (
	retryMin = 20 * time.Millisecond
	retryMax = 2 * time.Second
)

// fetcher goes through the segments of a stream and puts their entries into its
// queue, ahead of the reader. It owns one goroutine.
type fetcher struct {
	queue
	src   *segment.Stream
	opts  Options
	bound stream.DLSN // nothing past its entry is fetched; zero = no bound
	log   *zap.Logger

	ctx    context.Context // of the goroutine
	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutine has ended

	// Of the goroutine alone.
	changes <-chan struct{} // signals of the segment list
	lost    func() error    // why changes was closed
	list    []segment.Info
	at      stream.DLSN  // the next entry to fetch; zero = the first one left
	lenient bool         // truncated entries may be skipped
	jumped  bool         // some were skipped since the last chunk
	cur     segment.Info // being read, or read to its end
	told    bool         // the reader has a chunk of cur
	done    bool         // cur was read to its end
	empty   bool         // nothing was read from cur
	tries   int          // failures in a row
	since   time.Time    // when the first of them was
}

func newFetcher(src *segment.Stream, o Options, at place, bound stream.DLSN) (*fetcher, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w, err := src.Watch(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	f := &fetcher{src: src, opts: o, bound: bound, ctx: ctx, cancel: cancel, ended: make(chan struct{}),
		changes: w.C(), lost: w.Err, at: at.dlsn, lenient: at.lenient || o.SkipTruncated,
		log: o.Logger.Named("readers").With(zap.String("stream", string(src.Name())))}
	f.init(o.PrefetchBytes)
	go f.run()
	return f, nil
}

// stop ends the fetcher and waits for it.
func (f *fetcher) stop() {
	f.close()
	f.cancel()
	<-f.ended
}

// noFetcher is one that has ended.
func noFetcher() *fetcher {
	f := &fetcher{cancel: func() {}, ended: make(chan struct{})}
	f.init(1)
	close(f.ended)
	return f
}

func (f *fetcher) run() {
	defer close(f.ended)
	for {
		began := time.Now()
		err := f.next()
		if f.ctx.Err() != nil {
			return
		}
		if time.Since(began) > 2*retryMax {
			f.tries = 0
		}
		if err == nil {
			continue
		}
		if !f.retry(err) {
			f.put(&chunk{err: f.final(err)})
			return
		}
	}
}

func (f *fetcher) final(err error) error {
	if err == io.EOF {
		return err
	}
	return fmt.Errorf("read stream %s: %w", f.src.Name(), err)
}

// retry waits before another attempt after a failure that may pass. It is false
// when the failure is final, or has lasted too long.
func (f *fetcher) retry(err error) bool {
	passing := errors.Is(err, stream.ErrUnavailable) || errors.Is(err, stream.ErrTimeout) || errors.Is(err, stream.ErrNotEnoughBookies)
	if !passing {
		return false
	}
	if f.tries == 0 {
		f.since = time.Now()
		f.log.Warn("reading failed, trying again", zap.Error(err))
	}
	if time.Since(f.since) > f.opts.RetryFor {
		return false
	}
	f.setTrouble(err)
	d := min(retryMin<<min(f.tries, 10), retryMax)
	f.tries++
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-f.ctx.Done():
	}
	return true
}

// next finds the segment to read and reads it to its end. nil: call it again.
func (f *fetcher) next() error {
	if f.pastBound() {
		return io.EOF
	}
	if err := f.refresh(); err != nil {
		return err
	}
	info, ok, err := f.pick()
	if err != nil {
		return err
	}
	if !ok {
		return f.waitChange()
	}
	before := f.cur
	for i := range f.list {
		if same(f.list[i], f.cur) {
			before = f.list[i]
		}
	}
	if !same(info, f.cur) {
		f.told, f.done, f.empty = false, false, true
	}
	f.cur = info
	return f.readSegment(before)
}

// same reports whether a and b are the same segment; a number alone is given
// again after an empty segment.
func same(a, b segment.Info) bool { return a.Segment == b.Segment && a.Ledger == b.Ledger }

func (f *fetcher) refresh() error {
	list, err := f.src.List(f.ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 { // no segment yet, or the stream was deleted
		there, err := f.src.Exists(f.ctx)
		if err != nil {
			return err
		}
		if !there {
			return stream.ErrNotFound
		}
	}
	f.list = list
	return nil
}

func (f *fetcher) waitChange() error {
	select {
	case _, ok := <-f.changes:
		if !ok {
			return f.watchLost()
		}
	case <-f.ctx.Done():
	}
	return nil
}

// pick chooses the segment that holds f.at, or the next one that has anything
// past it. ok is false if there is none yet.
func (f *fetcher) pick() (info segment.Info, ok bool, err error) {
	if len(f.list) == 0 {
		return info, false, nil
	}
	if err := f.checkTruncation(); err != nil {
		return info, false, err
	}
	if first := firstLeft(f.list); f.at.Less(first) {
		f.jumped = f.cur.Ledger != 0 || f.cur.Segment != 0
		f.at = first
	}
	for _, s := range f.list {
		switch {
		case s.Status == segment.Truncated || s.Segment < f.at.Segment:
		case f.done && same(s, f.cur):
		default:
			return s, true, nil
		}
	}
	return info, false, nil
}

// checkTruncation fails if what is to be read next was truncated, unless it may
// be skipped.
func (f *fetcher) checkTruncation() error {
	if f.lenient || len(f.list) == 0 || !truncated(f.list, f.at) {
		return nil
	}
	return &stream.TruncatedError{At: f.at, First: firstLeft(f.list)}
}

// readSegment reads f.cur from f.at on to its end. before is the segment read
// before it, as listed now.
func (f *fetcher) readSegment(before segment.Info) (err error) {
	r, err := f.src.OpenReader(f.ctx, f.cur)
	if err != nil {
		return f.missing(err)
	}
	defer func() {
		r.SeekTo(0) // ends the iteration that Next is in
		err = joined(err, r.Close())
	}()
	if f.cur.Segment != f.at.Segment {
		f.at = stream.DLSN{Segment: f.cur.Segment}
	}
	r.SeekTo(f.at.Entry)
	c := f.newChunk()
	c.seg, c.before, c.fresh = f.cur, before, !f.told || f.jumped
	c.jumped, f.jumped = f.jumped, false
	for {
		e, err := r.Next(f.ctx)
		if err == io.EOF {
			f.hand(c)
			f.endSegment()
			return nil
		}
		if err != nil {
			f.hand(c)
			return f.missing(err)
		}
		c.add(e.ID, e.Payload)
		f.at = stream.DLSN{Segment: f.cur.Segment, Entry: e.ID + 1}
		f.empty, f.tries, f.lenient = false, 0, f.opts.SkipTruncated
		if len(c.buf) < chunkBytes && r.Ready() && !f.pastBound() {
			continue
		}
		f.hand(c)
		if f.pastBound() {
			return io.EOF
		}
		if leave, err := f.pause(); leave || err != nil {
			return err
		}
		c = f.newChunk()
		c.seg = f.cur
	}
}

// joined adds the failure of a close to what came before it, which stays as it
// is without one: io.EOF is compared by value.
func joined(err, closing error) error {
	if closing == nil {
		return err
	}
	return errors.Join(err, closing)
}

// hand gives a chunk to the reader, unless it has nothing to tell.
func (f *fetcher) hand(c *chunk) {
	if len(c.entries) > 0 || c.fresh {
		f.told = true
		f.put(c)
	}
}

func (f *fetcher) endSegment() {
	f.done = true
	if !f.empty {
		f.at = stream.DLSN{Segment: f.cur.Segment + 1}
	} // else its number may be given to another ledger
}

// pastBound reports whether everything from f.at on is past the bound.
func (f *fetcher) pastBound() bool {
	return f.bound != (stream.DLSN{}) && !f.at.Less(f.bound)
}

// pause waits until there is room, and looks whether what comes next was
// truncated meanwhile: then it is time to leave the segment.
func (f *fetcher) pause() (leave bool, err error) {
	for !f.hasRoom() {
		select {
		case <-f.room:
		case <-f.ctx.Done():
			return true, nil
		}
	}
	select {
	case _, ok := <-f.changes:
		if !ok {
			return true, f.watchLost()
		}
	default:
		return false, nil
	}
	if err := f.refresh(); err != nil {
		return true, err
	}
	return len(f.list) > 0 && truncated(f.list, f.at), f.checkTruncation()
}

func (f *fetcher) watchLost() error {
	return fmt.Errorf("watch of the segments: %w", errors.Join(f.lost(), stream.ErrClosed))
}

// missing judges a failure to read: a ledger that is gone was deleted after a
// truncation, or because its segment was empty.
func (f *fetcher) missing(err error) error {
	if !errors.Is(err, stream.ErrNotFound) || f.ctx.Err() != nil {
		return err
	}
	if lerr := f.refresh(); lerr != nil {
		return lerr
	}
	for _, s := range f.list {
		if same(s, f.cur) && s.Status != segment.Truncated {
			return err // still listed: its ledger is lost
		}
	}
	if len(f.list) > 0 && truncated(f.list, f.at) || !f.empty {
		if f.lenient {
			return nil
		}
		first := stream.DLSN{Segment: f.at.Segment + 1}
		if len(f.list) > 0 {
			first = firstLeft(f.list)
		}
		return &stream.TruncatedError{At: f.at, First: first}
	}
	f.done = true
	return nil
}
