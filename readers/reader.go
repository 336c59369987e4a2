package readers

import (
	"context"
	"errors"
	"time"

	"github.com/loglode/loglode/stream"
)

var errTODO = errors.New("not implemented")

// Reader reads one stream. One goroutine at a time may use it.
type Reader struct{}

// Next gives the next record; its payload is valid until the next call. It
// waits for one until ctx ends. It ends with io.EOF when the stream is sealed
// or the bound is reached.
func (r *Reader) Next(ctx context.Context) (stream.Record, error) { return stream.Record{}, errTODO }

// NextBatch waits for one record and then fills dst with what is there without
// waiting. It gives the number of records, at least 1 when it succeeds; their
// payloads are valid until the next call.
func (r *Reader) NextBatch(ctx context.Context, dst []stream.Record) (int, error) { return 0, errTODO }

// Seek continues at another position. It also revives a reader that has failed.
func (r *Reader) Seek(ctx context.Context, p stream.Position) error { return errTODO }

// Lag tells how far the reader is behind the newest visible record.
func (r *Reader) Lag(ctx context.Context) (Lag, error) { return Lag{}, errTODO }

// Close ends the reader and waits for its goroutines.
func (r *Reader) Close() error { return errTODO }

// Lag is how far a reader is behind.
type Lag struct {
	Records int64         // visible records not given yet
	Last    stream.DLSN   // the newest visible record; stream.InvalidDLSN if there is none
	Age     time.Duration // between the txids of the last record given and of Last, as milliseconds
}

// Checkpoint is a saved position of a consumer together with the consumer's own
// state.
type Checkpoint struct{}

// Load gives the saved position and state; the first position and no state if
// nothing was ever saved.
func (c *Checkpoint) Load() (stream.Position, []byte) { return stream.First(), nil }

// Save replaces position and state in one step: at is the last record that
// state accounts for, Load then gives the position after it. It fails with
// stream.ErrConflict once another Checkpoint of the same id has saved.
func (c *Checkpoint) Save(ctx context.Context, at stream.DLSN, state []byte) error { return errTODO }
