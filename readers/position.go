package readers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loglode/loglode/segment"
	"github.com/loglode/loglode/stream"
)

// place is a position as a reader starts at it.
type place struct {
	dlsn    stream.DLSN // records before it are skipped; zero = none
	minTx   stream.TxID // so are those before the first with this txid
	lenient bool        // truncated records may be skipped in silence
}

// locate finds where a reader starts.
func locate(ctx context.Context, src *segment.Stream, p stream.Position) (place, error) {
	switch p.Kind() {
	case stream.KindFirst:
		return place{lenient: true}, nil
	case stream.KindAt:
		return place{dlsn: p.DLSN(), lenient: beforeAll(p.DLSN())}, nil
	case stream.KindAfter:
		return place{dlsn: p.DLSN().Next(), lenient: beforeAll(p.DLSN())}, nil
	case stream.KindLast, stream.KindNow:
		v, err := src.Last(ctx)
		if errors.Is(err, stream.ErrEmpty) {
			return place{lenient: true}, nil
		}
		if p.Kind() == stream.KindNow {
			v.DLSN = v.DLSN.Next()
		}
		return place{dlsn: v.DLSN}, err
	default:
		d, err := src.FindTxID(ctx, p.TxID())
		if errors.Is(err, stream.ErrEmpty) {
			d, err = stream.DLSN{}, nil
		}
		return place{dlsn: d, minTx: p.TxID(), lenient: true}, err
	}
}

// beforeAll tells positions that stand for "the beginning", whatever is left.
func beforeAll(d stream.DLSN) bool { return d.Compare(stream.BeforeFirstDLSN) <= 0 }

// Resolve gives the DLSN that a position stands for now: of the record there,
// or of the place where that record will be. The last record of a stream
// without records is stream.ErrEmpty; its other positions are the place of the
// first record to come.
func Resolve(ctx context.Context, src *segment.Stream, p stream.Position) (stream.DLSN, error) {
	d, err := resolve(ctx, src, p)
	if err != nil {
		return stream.InvalidDLSN, fmt.Errorf("resolve %v in stream %s: %w", p, src.Name(), err)
	}
	return d, nil
}

func resolve(ctx context.Context, src *segment.Stream, p stream.Position) (stream.DLSN, error) {
	switch p.Kind() {
	case stream.KindAt:
		return p.DLSN(), nil
	case stream.KindAfter:
		return p.DLSN().Next(), nil
	case stream.KindLast:
		v, err := src.Last(ctx)
		return v.DLSN, err
	case stream.KindNow:
		v, err := src.Last(ctx)
		if err != nil {
			return orBeginning(ctx, src, stream.DLSN{}, err)
		}
		return v.DLSN.Next(), nil
	case stream.KindFirst:
		v, err := src.First(ctx)
		return orBeginning(ctx, src, v.DLSN, err)
	default:
		d, err := src.FindTxID(ctx, p.TxID())
		return orBeginning(ctx, src, d, err)
	}
}

// orBeginning gives, for a stream without records, the place of its first
// record to come.
func orBeginning(ctx context.Context, src *segment.Stream, d stream.DLSN, err error) (stream.DLSN, error) {
	if !errors.Is(err, stream.ErrEmpty) {
		return d, err
	}
	list, err := src.List(ctx)
	if err != nil {
		return stream.DLSN{}, err
	}
	if len(list) == 0 {
		return stream.InitialDLSN, nil
	}
	return firstLeft(list), nil
}

// firstLeft is where what is not truncated begins.
func firstLeft(list []segment.Info) stream.DLSN {
	for i := range list {
		if list[i].Status != segment.Truncated {
			return list[i].First()
		}
	}
	return stream.DLSN{Segment: list[len(list)-1].Segment + 1}
}

// bounds resolves the end of a replay at its start: the first DLSN not given,
// at most just past the newest visible record. ok is false if there is nothing
// to give.
//
// As an end, At(d), a txid and a time exclude the record there, After(d)
// includes it; Last and Now both include the newest record.
func bounds(ctx context.Context, src *segment.Stream, from, to stream.Position) (end stream.DLSN, ok bool, err error) {
	if err := checkOrder(from, to); err != nil {
		return stream.DLSN{}, false, err
	}
	last, err := src.Last(ctx)
	if errors.Is(err, stream.ErrEmpty) {
		return stream.DLSN{}, false, nil
	}
	if err != nil {
		return stream.DLSN{}, false, err
	}
	end = last.DLSN.Next()
	if to.Kind() != stream.KindLast && to.Kind() != stream.KindNow {
		d, err := resolve(ctx, src, to)
		if err != nil {
			return stream.DLSN{}, false, err
		}
		if d.Less(end) {
			end = d
		}
	}
	at, err := locate(ctx, src, from)
	if err != nil {
		return stream.DLSN{}, false, err
	}
	if !at.dlsn.Less(end) {
		if fixed(from) && fixed(to) && at.dlsn != end && end.Less(last.DLSN.Next()) {
			return stream.DLSN{}, false, orderError(from, to)
		}
		return stream.DLSN{}, false, nil
	}
	return end, true, nil
}

// fixed tells positions that mean the same place at any time.
func fixed(p stream.Position) bool {
	return p.Kind() != stream.KindFirst && p.Kind() != stream.KindLast && p.Kind() != stream.KindNow
}

// checkOrder refuses positions that are in the wrong order whatever is in the
// stream.
func checkOrder(from, to stream.Position) error {
	dlsn := func(p stream.Position) (stream.DLSN, bool) {
		if p.Kind() == stream.KindAfter {
			return p.DLSN().Next(), true
		}
		return p.DLSN(), p.Kind() == stream.KindAt
	}
	if a, ok := dlsn(from); ok {
		if b, ok := dlsn(to); ok && b.Less(a) {
			return orderError(from, to)
		}
		return nil
	}
	txid := func(p stream.Position) bool { return p.Kind() == stream.KindTxID || p.Kind() == stream.KindTime }
	if txid(from) && txid(to) && to.TxID() < from.TxID() {
		return orderError(from, to)
	}
	return nil
}

func orderError(from, to stream.Position) error {
	return fmt.Errorf("from %v is after to %v: %w", from, to, stream.ErrInvalidPosition)
}

// Bounded opens a reader of the records from one position up to another, which
// is resolved now; see Replay. It ends with io.EOF there.
func Bounded(ctx context.Context, src *segment.Stream, from, to stream.Position, opts ...Option) (*Reader, error) {
	end, ok, err := bounds(ctx, src, from, to)
	if err != nil {
		return nil, fmt.Errorf("replay stream %s: %w", src.Name(), err)
	}
	if !ok {
		return ended(src, opts)
	}
	return open(ctx, src, from, end, opts)
}

// Count gives the number of records that a Bounded reader without a Filter
// would give.
func Count(ctx context.Context, src *segment.Stream, from, to stream.Position) (int64, error) {
	n, err := count(ctx, src, from, to)
	if err != nil {
		return 0, fmt.Errorf("count records of stream %s: %w", src.Name(), err)
	}
	return n, nil
}

// countAttempts is how often Count starts again because the stream grew.
const countAttempts = 100

func count(ctx context.Context, src *segment.Stream, from, to stream.Position) (int64, error) {
	end, ok, err := bounds(ctx, src, from, to)
	if err != nil || !ok {
		return 0, err
	}
	start, err := resolve(ctx, src, from)
	if err != nil {
		return 0, err
	}
	if start, err = clamp(ctx, src, from, start); err != nil {
		return 0, err
	}
	// The stream may grow between two counts: then the one after it differs.
	after, err := src.Count(ctx, end)
	for range countAttempts {
		if err != nil {
			return 0, err
		}
		n, err := src.Count(ctx, start)
		if err != nil {
			return 0, err
		}
		again, err := src.Count(ctx, end)
		if err != nil {
			return 0, err
		}
		if again == after {
			return max(n-after, 0), nil
		}
		after = again
	}
	return 0, fmt.Errorf("the stream grows too fast: %w", stream.ErrUnavailable)
}

// clamp moves a start that is truncated as a reader would, or fails as a reader
// would.
func clamp(ctx context.Context, src *segment.Stream, p stream.Position, d stream.DLSN) (stream.DLSN, error) {
	list, err := src.List(ctx)
	if err != nil || len(list) == 0 {
		return d, err
	}
	first := firstLeft(list)
	if !truncated(list, d) {
		return d, nil
	}
	if (p.Kind() == stream.KindAt || p.Kind() == stream.KindAfter) && !beforeAll(p.DLSN()) {
		return d, &stream.TruncatedError{At: d, First: first}
	}
	return first, nil
}

// truncated reports whether d lies before what is left.
func truncated(list []segment.Info, d stream.DLSN) bool {
	first := firstLeft(list)
	if !d.Less(first) {
		return false
	}
	return list[0].Status != segment.Active || list[0].Segment > 1
}

// pacer spaces records by their txids as milliseconds.
type pacer struct {
	speed float64
	began time.Time
	first stream.TxID
}

func (p *pacer) wait(ctx context.Context, t stream.TxID) error {
	if p.speed == 0 {
		return nil
	}
	if p.began.IsZero() {
		p.began, p.first = time.Now(), t
	}
	ahead := time.Duration(float64(t-p.first)*float64(time.Millisecond)/p.speed) - time.Since(p.began)
	if ahead <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(ahead)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
