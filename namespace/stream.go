package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/loglode/loglode/readers"
	"github.com/loglode/loglode/segment"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/writers"
)

// Stream is a handle on one stream. It holds no resources. Any number of
// goroutines may use it.
type Stream struct {
	n   *Namespace
	seg *segment.Stream
	cfg stream.Config
}

// Name is the stream's name.
func (s *Stream) Name() stream.Name { return s.seg.Name() }

// Config is how the stream was configured when the handle was opened, with its
// defaults filled in.
func (s *Stream) Config() stream.Config { return s.cfg }

// Writer opens a writer: it fences the previous one, if there is any, and
// recovers its segment. It fails with stream.ErrSealed, and with
// stream.ErrFenced if another writer was opened at the same moment.
func (s *Stream) Writer(ctx context.Context, opts ...writers.Option) (*writers.Writer, error) {
	claim, err := s.claim(ctx)
	if err != nil {
		return nil, fmt.Errorf("open writer: %w", err)
	}
	all := []writers.Option{writers.WithLogger(s.n.opts.logger), writers.WithRegisterer(s.n.opts.registerer)}
	all = append(all, opts...)
	all = append(all, func(o *writers.Options) {
		user := o.Events.Started
		o.Events.Started = func(st writers.Started) {
			s.n.purger.want(s)
			if user != nil {
				user(st)
			}
		}
	})
	return writers.Open(s.Name(), claim, s.cfg, all...)
}

// claim takes the stream over.
func (s *Stream) claim(ctx context.Context) (*segment.Claim, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.n.recoverTimeout())
		defer cancel()
	}
	c, err := s.seg.Claim(ctx)
	return c, unreachable(err)
}

// Reader opens a reader at a position.
func (s *Stream) Reader(ctx context.Context, from stream.Position, opts ...readers.Option) (*readers.Reader, error) {
	ctx, cancel := s.n.opts.bound(ctx)
	defer cancel()
	r, err := readers.Open(ctx, s.seg, from, s.readerOptions(opts)...)
	return r, unreachable(err)
}

func (s *Stream) readerOptions(opts []readers.Option) []readers.Option {
	return append([]readers.Option{readers.WithLogger(s.n.opts.logger)}, opts...)
}

// Tail gives the records from a position on and then each new one. It ends by
// itself only if the stream is sealed. Payloads are valid until the next step.
func (s *Stream) Tail(ctx context.Context, from stream.Position, opts ...readers.Option) iter.Seq2[stream.Record, error] {
	return each(ctx, func() (*readers.Reader, error) { return s.Reader(ctx, from, opts...) })
}

// Replay gives the records from one position up to another, which is resolved
// at the start. As an end, a DLSN, a txid and a time are not included, After(d)
// includes d, and Last and Now both include the newest record that is visible
// at the start: no end lies behind that one, so Replay always ends. Payloads
// are valid until the next step. It fails with stream.ErrInvalidPosition when
// from is after to.
func (s *Stream) Replay(ctx context.Context, from, to stream.Position, opts ...readers.Option) iter.Seq2[stream.Record, error] {
	return each(ctx, func() (*readers.Reader, error) {
		bctx, cancel := s.n.opts.bound(ctx)
		defer cancel()
		r, err := readers.Bounded(bctx, s.seg, from, to, s.readerOptions(opts)...)
		return r, unreachable(err)
	})
}

// each gives what a reader reads, to its end.
func each(ctx context.Context, open func() (*readers.Reader, error)) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		r, err := open()
		if err != nil {
			yield(stream.Record{}, err)
			return
		}
		defer r.Close()
		for {
			rec, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// Resolve gives the DLSN that a position stands for now: of the record there,
// or of the place where that record will be. The last record of a stream
// without records is stream.ErrEmpty.
func (s *Stream) Resolve(ctx context.Context, p stream.Position) (stream.DLSN, error) {
	ctx, cancel := s.n.opts.bound(ctx)
	defer cancel()
	d, err := readers.Resolve(ctx, s.seg, p)
	return d, unreachable(err)
}

// Count gives the number of records that Replay would give.
func (s *Stream) Count(ctx context.Context, from, to stream.Position) (int64, error) {
	ctx, cancel := s.n.opts.bound(ctx)
	defer cancel()
	n, err := readers.Count(ctx, s.seg, from, to)
	return n, unreachable(err)
}

// Segments gives the stream's segments, oldest first.
func (s *Stream) Segments(ctx context.Context) iter.Seq2[segment.Info, error] {
	return func(yield func(segment.Info, error) bool) {
		ctx, cancel := s.n.opts.bound(ctx)
		defer cancel()
		list, err := s.seg.List(ctx)
		if err != nil {
			yield(segment.Info{}, unreachable(err))
			return
		}
		for _, info := range list {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Truncate gives up all records before a position. It takes effect for readers
// at once; ledgers are deleted later, by Purge or when the stream's writer
// starts a segment. A position past the end fails with
// stream.ErrInvalidPosition; one before the truncation point changes nothing.
func (s *Stream) Truncate(ctx context.Context, to stream.Position) error {
	ctx, cancel := s.n.opts.bound(ctx)
	defer cancel()
	if to.Kind() == stream.KindFirst {
		return nil
	}
	d, err := readers.Resolve(ctx, s.seg, to)
	if errors.Is(err, stream.ErrEmpty) {
		return nil
	}
	if err != nil {
		return unreachable(err)
	}
	last, err := readers.Resolve(ctx, s.seg, stream.Now())
	if err != nil {
		return unreachable(err)
	}
	if last.Less(d) {
		return fmt.Errorf("truncate stream %s to %v: the stream ends at %v: %w", s.Name(), to, last, stream.ErrInvalidPosition)
	}
	return unreachable(s.seg.Truncate(ctx, d))
}

// Purge deletes the ledgers of truncated segments, and of segments older than
// the configured retention. It gives the number of segments deleted.
func (s *Stream) Purge(ctx context.Context) (int, error) {
	ctx, cancel := s.n.opts.bound(ctx)
	defer cancel()
	n, err := s.seg.Purge(ctx, s.cfg.Retention.Age)
	return n, unreachable(err)
}

// Seal ends the stream: the writer, if there is one, is fenced; nobody can
// append after it; readers end with io.EOF. Sealing a sealed stream is no
// error.
func (s *Stream) Seal(ctx context.Context) error {
	c, err := s.claim(ctx)
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	if c.Sealed() {
		return nil
	}
	ctx, cancel := s.n.opts.bound(ctx)
	defer cancel()
	return unreachable(c.Seal(ctx, nil, s.cfg.Quorum))
}
