package namespace

import (
	"context"
	"errors"
	"iter"

	"github.com/loglode/loglode/readers"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/writers"
)

var errTODO = errors.New("not implemented")

// Namespace is an open namespace of streams. Any number of goroutines may use
// it.
type Namespace struct{}

// Open opens the namespace at a URI: etcd://host:port,host:port/path or
// mem://name/path. It fails with ErrNotNamespace when nothing is bound there,
// and with stream.ErrUnavailable when the metadata servers do not answer.
func Open(ctx context.Context, uri string, opts ...Option) (*Namespace, error) { return nil, errTODO }

// Create makes a stream. It fails with stream.ErrExists, with a
// *stream.NameError, with stream.ErrInvalidConfig, and with
// stream.ErrNotEnoughBookies when the cluster has fewer bookies than the
// ensemble.
func (n *Namespace) Create(ctx context.Context, name stream.Name, c stream.Config) error {
	return errTODO
}

// Stream gives a handle on a stream. It fails with stream.ErrNotFound.
func (n *Namespace) Stream(ctx context.Context, name stream.Name) (*Stream, error) {
	return nil, errTODO
}

// List gives the streams whose name begins with prefix, by name.
func (n *Namespace) List(ctx context.Context, prefix string) iter.Seq2[stream.Info, error] {
	return func(yield func(stream.Info, error) bool) { yield(stream.Info{}, errTODO) }
}

// Watch gives an event for each stream there is, and then for each that is
// created or deleted, until ctx ends.
func (n *Namespace) Watch(ctx context.Context, prefix string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { yield(Event{}, errTODO) }
}

// Rename moves a stream that nobody writes. It fails with stream.ErrNotFound,
// stream.ErrExists, and stream.ErrConflict when a writer is active meanwhile.
func (n *Namespace) Rename(ctx context.Context, from, to stream.Name) error { return errTODO }

// Delete removes a stream and its ledgers. It fails with stream.ErrNotFound.
func (n *Namespace) Delete(ctx context.Context, name stream.Name) error { return errTODO }

// Binding is what the namespace's node says.
func (n *Namespace) Binding() Binding { return Binding{} }

// Close ends the namespace's connections. Writers and readers opened through it
// must be closed before.
func (n *Namespace) Close() error { return errTODO }

// Event is a change in the list of streams.
type Event struct {
	Name    stream.Name
	Deleted bool // false: created, or there already
}

// Stream is a handle on one stream. It holds no resources. Any number of
// goroutines may use it.
type Stream struct{}

// Name is the stream's name.
func (s *Stream) Name() stream.Name { return "" }

// Config is how the stream was configured when the handle was opened.
func (s *Stream) Config() stream.Config { return stream.Config{} }

// Writer opens a writer: it fences the previous one and recovers its segment.
// It fails with stream.ErrSealed.
func (s *Stream) Writer(ctx context.Context, opts ...writers.Option) (*writers.Writer, error) {
	return nil, errTODO
}

// Reader opens a reader at a position.
func (s *Stream) Reader(ctx context.Context, from stream.Position, opts ...readers.Option) (*readers.Reader, error) {
	return nil, errTODO
}

// Tail gives the records from a position on and then each new one. It ends by
// itself only if the stream is sealed. Payloads are valid until the next step.
func (s *Stream) Tail(ctx context.Context, from stream.Position, opts ...readers.Option) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) { yield(stream.Record{}, errTODO) }
}

// Replay gives the records from one position up to another, which is resolved
// at the start. See Bounds for what the end includes. Payloads are valid until
// the next step. It fails with stream.ErrInvalidPosition when from is after to.
func (s *Stream) Replay(ctx context.Context, from, to stream.Position, opts ...readers.Option) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) { yield(stream.Record{}, errTODO) }
}

// Resolve gives the DLSN that a position stands for now: of the record there,
// or of the place where that record will be.
func (s *Stream) Resolve(ctx context.Context, p stream.Position) (stream.DLSN, error) {
	return stream.InvalidDLSN, errTODO
}

// Count gives the number of records that Replay would give.
func (s *Stream) Count(ctx context.Context, from, to stream.Position) (int64, error) {
	return 0, errTODO
}

// Truncate gives up all records before a position. It takes effect for readers
// at once; ledgers are deleted later.
func (s *Stream) Truncate(ctx context.Context, to stream.Position) error { return errTODO }

// Seal ends the stream: the writer, if there is one, is fenced; nobody can
// append after it; readers end with io.EOF.
func (s *Stream) Seal(ctx context.Context) error { return errTODO }

// Checkpoint gives the saved position of a consumer.
func (s *Stream) Checkpoint(ctx context.Context, id string) (*readers.Checkpoint, error) {
	return nil, errTODO
}
