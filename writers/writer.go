package writers

import (
	"context"
	"errors"

	"github.com/loglode/loglode/stream"
)

var errTODO = errors.New("not implemented")

// Writer appends to one stream. Any number of goroutines may use it; records
// get their DLSNs in the order of the calls.
//
// A record's TxID 0 lets the writer choose: the append time in milliseconds,
// or the last txid where that is higher. A txid below the last one is refused
// with a *stream.TxIDOrderError; equal ones are allowed.
type Writer struct{}

// Append adds one record and waits until it is durable. r.Payload is not kept
// after return. When ctx ends first, the record may still become part of the
// stream.
func (w *Writer) Append(ctx context.Context, r stream.Record) (stream.DLSN, error) {
	return stream.InvalidDLSN, errTODO
}

// AppendBatch adds records in one entry: all of them become part of the
// stream, or none. It waits until they are durable. It fails with a
// *stream.RecordTooLongError when they do not fit in one entry.
func (w *Writer) AppendBatch(ctx context.Context, rs []stream.Record) ([]stream.DLSN, error) {
	return nil, errTODO
}

// Go adds one record and calls done once it is durable, or failed. Callbacks
// run one at a time, in the order of the calls, with no lock held; they must
// not block. r.Payload is copied before Go returns. Go blocks while the limit
// of bytes in flight is reached. A record that is refused at once gets its
// callback before Go returns.
func (w *Writer) Go(ctx context.Context, r stream.Record, done func(stream.DLSN, error)) {
	done(stream.InvalidDLSN, errTODO)
}

// TryGo is Go that does not block: it fails with stream.ErrBufferFull when the
// limit of bytes in flight is reached, and with what refuses the record. done is
// called only if TryGo returns nil.
func (w *Writer) TryGo(r stream.Record, done func(stream.DLSN, error)) error { return errTODO }

// Flush waits until every record appended before it is durable.
func (w *Writer) Flush(ctx context.Context) error { return errTODO }

// Seal ends the stream: it waits for the records appended before, marks the end,
// and closes the writer. Nobody can append after it; readers end with io.EOF.
func (w *Writer) Seal(ctx context.Context) error { return errTODO }

// LastTxID is the highest txid accepted, or found when the writer was opened;
// stream.InvalidTxID in an empty stream.
func (w *Writer) LastTxID() stream.TxID { return stream.InvalidTxID }

// Err is why the writer has ended: nil while it works, stream.ErrClosed after
// Close or Abort, stream.ErrFenced after another writer took the stream over.
func (w *Writer) Err() error { return errTODO }

// Done is closed when the writer has ended.
func (w *Writer) Done() <-chan struct{} { return nil }

// Close refuses new records, waits for those in flight and completes the
// segment. It is bounded by WriteTimeout and OpTimeout.
func (w *Writer) Close() error { return errTODO }

// Abort lets go of the stream at once: records in flight fail, the segment
// stays in progress, and the next writer recovers it.
func (w *Writer) Abort() error { return errTODO }
