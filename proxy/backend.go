package proxy

import (
	"context"

	"github.com/loglode/loglode/stream"
)

// backend is what a proxy asks of the namespace.
type backend interface {
	// open fences the stream's writer, recovers, and gives the new writer and
	// the DLSN of the last record there is (zero in an empty stream).
	open(ctx context.Context, name stream.Name) (appender, stream.DLSN, error)
	create(ctx context.Context, name stream.Name) error
	delete(ctx context.Context, name stream.Name) error
	truncate(ctx context.Context, name stream.Name, to stream.DLSN) error
}

// appender is writers.Writer.
type appender interface {
	// GoBatch adds records to one entry; callbacks run in the order of the
	// calls, but one for records that are refused at once runs before GoBatch
	// returns.
	GoBatch(ctx context.Context, rs []stream.Record, done func(first stream.DLSN, err error))
	GoSet(ctx context.Context, txid stream.TxID, set []byte, done func(first stream.DLSN, err error))
	Flush(ctx context.Context) error
	Err() error
	Close() error
	Abort() error
}
