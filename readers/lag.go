package readers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loglode/loglode/stream"
)

// Lag is how far a reader is behind.
type Lag struct {
	Records int64         // visible records not given yet, those that a Filter drops included
	Last    stream.DLSN   // the newest visible record; stream.InvalidDLSN if there is none
	Age     time.Duration // from the txid of the last record given to that of Last, as milliseconds; 0 before the first
}

// Lag tells how far the reader is behind the newest visible record.
func (r *Reader) Lag(ctx context.Context) (Lag, error) {
	l, err := r.lag(ctx)
	if err != nil {
		return Lag{}, fmt.Errorf("lag of a reader of stream %s: %w", r.src.Name(), err)
	}
	return l, nil
}

func (r *Reader) lag(ctx context.Context) (Lag, error) {
	last, err := r.src.Last(ctx)
	if errors.Is(err, stream.ErrEmpty) {
		return Lag{Last: stream.InvalidDLSN}, nil
	}
	if err != nil {
		return Lag{}, err
	}
	next := r.from
	if r.last.DLSN != stream.InvalidDLSN {
		next = r.last.DLSN.Next()
	}
	l := Lag{Last: last.DLSN}
	if last.DLSN.Less(next) {
		return l, nil
	}
	list, err := r.src.List(ctx)
	if err != nil {
		return Lag{}, err
	}
	if len(list) > 0 && truncated(list, next) {
		next = firstLeft(list)
	}
	if l.Records, err = r.src.Count(ctx, next); err != nil {
		return Lag{}, err
	}
	if r.last.DLSN != stream.InvalidDLSN {
		l.Age = time.Duration(last.TxID-r.last.TxID) * time.Millisecond
	}
	return l, nil
}
