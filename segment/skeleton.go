package segment

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

var errTODO = errors.New("not implemented")

func (t *Tree) list(ctx context.Context, prefix string) iter.Seq2[stream.Info, error] {
	return func(yield func(stream.Info, error) bool) { yield(stream.Info{}, errTODO) }
}

// Create makes the stream's tree, with the operations of extra in the same
// transaction. It fails with stream.ErrExists if the stream exists.
func (s *Stream) Create(ctx context.Context, extra ...metadata.Op) error { return errTODO }

// Exists reports whether the stream's tree is there.
func (s *Stream) Exists(ctx context.Context) (bool, error) { return false, errTODO }

// Delete fences the stream's writer, deletes every segment (ledger first), then
// the tree and whatever else lies directly below the stream's node that is not
// a nested stream. It fails with stream.ErrNotFound without a stream. A Delete
// that was cut short can be repeated.
func (s *Stream) Delete(ctx context.Context) error { return errTODO }

// Rename moves the stream's tree to another name in one transaction, with the
// operations of extra. It fails with stream.ErrExists if to exists, with
// stream.ErrNotOwner if somebody holds the write lock.
func (s *Stream) Rename(ctx context.Context, to stream.Name, extra ...metadata.Op) error {
	return errTODO
}

// List gives the stream's segments, oldest first: numbers rise by one, the last
// one or two may be in progress. It fails with stream.ErrNotFound without a
// stream, with stream.ErrCorrupt at a gap.
func (s *Stream) List(ctx context.Context) ([]Info, error) { return nil, errTODO }

// Watch signals changes of the list: a segment started, completed, truncated or
// deleted. Read List after each signal.
func (s *Stream) Watch(ctx context.Context) (metadata.Watch, error) { return nil, errTODO }

// Claim takes the stream over: writers of older claims can start and complete
// no segment from now on, segments in progress are fenced, recovered and
// completed (empty ones deleted). It fails with stream.ErrNotFound without a
// stream, with stream.ErrFenced if another claim came in between.
func (s *Stream) Claim(ctx context.Context) (*Claim, error) { return nil, errTODO }

// Claim is the right to write a stream, until another Claim takes it. Its
// methods may be called by one goroutine at a time, except Allocate, Err and
// Lost.
type Claim struct{}

// LastTxID is the highest txid of the stream's completed segments,
// stream.InvalidTxID if there is none.
func (c *Claim) LastTxID() stream.TxID { return stream.InvalidTxID }

// Sealed reports whether the stream has its end-of-stream record.
func (c *Claim) Sealed() bool { return false }

// Err is nil until the claim is lost, then what a call would fail with: it
// wraps stream.ErrFenced.
func (c *Claim) Err() error { return nil }

// Allocation is a ledger made for a segment that has not started yet.
type Allocation struct{}

// Allocate makes the ledger of the next segment: the slow part of a start,
// which may run while the segment before is being written. One allocation may
// be open at a time. It fails with stream.ErrNotEnoughBookies,
// stream.ErrFenced.
func (c *Claim) Allocate(ctx context.Context, q stream.Quorum) (*Allocation, error) {
	return nil, errTODO
}

// Start starts the next segment on an allocated ledger, in one transaction.
// firstTxID may not be lower than LastTxID; at a roll it is the txid of the last
// record of the segment before. The segment before may still be in progress, and
// Complete it then. It fails with *stream.TxIDOrderError, stream.ErrSealed, and
// with stream.ErrFenced once another claim was made.
func (c *Claim) Start(ctx context.Context, a *Allocation, firstTxID stream.TxID) (*Writer, error) {
	return nil, errTODO
}

// Discard gives back an allocation that is not needed: its ledger is deleted
// by the next Allocate, of this claim or of a later one.
func (c *Claim) Discard(a *Allocation) {}

// Complete waits for the writer's entries in flight, closes its ledger and
// completes the segment with what was acknowledged: entries that failed are not
// part of it and never will be. A segment without entries is deleted instead
// (Info is zero then). Segments complete in the order of their starts. It fails
// with stream.ErrFenced if another claim has recovered the segment.
func (c *Claim) Complete(ctx context.Context, w *Writer) (Info, error) { return Info{}, errTODO }

// Seal ends the stream for good: it writes the end-of-stream record into w, or
// into a new segment with quorum q if w is nil, and completes it.
func (c *Claim) Seal(ctx context.Context, w *Writer, q stream.Quorum) error { return errTODO }

// Writer appends entries to the one segment it started.
type Writer struct{}

// Segment is the segment's number.
func (w *Writer) Segment() int64 { return 0 }

// Ledger is the id of the segment's ledger.
func (w *Writer) Ledger() bk.LedgerID { return 0 }

// FirstTxID is what the segment was started with.
func (w *Writer) FirstTxID() stream.TxID { return 0 }

// Started is when the segment was started.
func (w *Writer) Started() time.Time { return time.Time{} }

// SizeBytes is the number of payload bytes pushed into the ledger.
func (w *Writer) SizeBytes() int64 { return 0 }

// Position is the number of user records of all entries pushed so far: what
// record.Builder.Reset takes for the next entry.
func (w *Writer) Position() int64 { return 0 }

// Err is why the writer has ended, nil while it has not.
func (w *Writer) Err() error { return nil }

// Go appends an entry (record.Builder.Finish and Summary) and calls done with
// its entry id once it is acknowledged, or with the failure; callbacks come in
// order, on a goroutine of the ledger client, and must not block. The DLSN of
// the record in slot k is {Segment(), entry, k}. payload is the caller's again
// when done runs. Go blocks while the byte limit in flight is reached; if ctx
// ends meanwhile, done gets its error before Go returns and the entry was not
// sent. One goroutine at a time may call Go and TryGo. After the first failure
// of an entry that was sent all later ones fail with the same cause.
func (w *Writer) Go(ctx context.Context, payload []byte, sum record.Summary, done func(entry int64, err error)) {
	done(-1, errTODO)
}

// TryGo is Go that does not block: stream.ErrBufferFull when the byte limit is
// reached, the writer's failure when it has ended. done is called only if TryGo
// returns nil.
func (w *Writer) TryGo(payload []byte, sum record.Summary, done func(entry int64, err error)) error {
	return errTODO
}

// Acked tells what is acknowledged so far: the last entry id (-1 without one)
// and the summary a completion would write.
func (w *Writer) Acked() (entry int64, records int64, lastTxID stream.TxID) {
	return -1, 0, stream.InvalidTxID
}

// Abort lets go at once, as a crash would: entries in flight fail, the segment
// stays in progress, and the next claim recovers it.
func (w *Writer) Abort() error { return errTODO }

// Entry is one entry of a segment, as read.
type Entry struct {
	ID      int64
	Payload []byte // see Reader.Decode
}

// Reader reads the entries of one segment, and follows one that is in progress.
// Its methods may be called by one goroutine at a time, except Close.
type Reader struct{}

// OpenReader opens a segment of List without fencing it. It fails with
// stream.ErrNotFound if the ledger was deleted meanwhile.
func (s *Stream) OpenReader(ctx context.Context, info Info) (*Reader, error) { return nil, errTODO }

// Info is the segment as it was listed when the reader was opened.
func (r *Reader) Info() Info { return Info{} }

// LAC is the last entry that is known to be confirmed, -1 without one.
func (r *Reader) LAC() int64 { return -1 }

// Closed reports whether the segment can get no more entries: LAC is its last
// one then.
func (r *Reader) Closed() bool { return false }

// SeekTo makes entry the next that Next gives; the first is 0.
func (r *Reader) SeekTo(entry int64) {}

// Next gives the next entry and waits for it where the segment is in progress.
// It gives io.EOF after the last entry of a segment that is closed: another one
// may follow in the stream. The payload is valid until the next call. If ctx
// ends, Next can be called again.
func (r *Reader) Next(ctx context.Context) (Entry, error) { return Entry{}, errTODO }

// Ready reports whether Next has an entry that needs no waiting for a writer.
func (r *Reader) Ready() bool { return false }

// Decode starts it on the records of an entry.
func (r *Reader) Decode(it *record.Iterator, e Entry) {}

// FindTxID gives the DLSN of the first user record whose txid is t or higher.
// ok is false if there is none up to the LAC.
func (r *Reader) FindTxID(ctx context.Context, t stream.TxID) (d stream.DLSN, ok bool, err error) {
	return stream.DLSN{}, false, errTODO
}

// LastRecord gives the last user record up to the LAC; with all, the last
// record of any kind. ok is false if there is none. The payload is the caller's.
func (r *Reader) LastRecord(ctx context.Context, all bool) (v record.View, ok bool, err error) {
	return record.View{}, false, errTODO
}

// Close ends the reader; a Next that waits fails with stream.ErrClosed.
func (r *Reader) Close() error { return errTODO }

// First gives the first user record left: truncation is applied. It fails with
// stream.ErrEmpty without one.
func (s *Stream) First(ctx context.Context) (record.View, error) { return record.View{}, errTODO }

// Last gives the newest user record that is visible. It fails with
// stream.ErrEmpty without one.
func (s *Stream) Last(ctx context.Context) (record.View, error) { return record.View{}, errTODO }

// FindTxID gives the position of the first record whose txid is t or higher;
// past the newest record, the position just after it. Truncation is not
// applied. It fails with stream.ErrEmpty in a stream without records.
func (s *Stream) FindTxID(ctx context.Context, t stream.TxID) (stream.DLSN, error) {
	return stream.DLSN{}, errTODO
}

// Count gives the number of user records from a DLSN on, that record included,
// up to the newest that is visible.
func (s *Stream) Count(ctx context.Context, from stream.DLSN) (int64, error) { return 0, errTODO }

// Truncate cuts off all records before d, at once and in one transaction, also
// inside the segment in progress. A truncation point never moves back: a lower
// d changes nothing. Ledgers go later, by Purge.
func (s *Stream) Truncate(ctx context.Context, d stream.DLSN) error { return errTODO }

// Purge deletes the ledgers of truncated segments, and truncates and deletes
// completed segments older than age (0 = none), oldest first. The newest
// completed segment stays in any case. It gives the number of segments deleted.
func (s *Stream) Purge(ctx context.Context, age time.Duration) (int, error) { return 0, errTODO }

// Lock is a member of the stream's write lock.
type Lock struct{}

// Lock waits up to wait (0 = at once or not at all) to become the first member
// of the write lock. It fails with a *stream.OwnerError that names the holder.
// The lock is a hint: it keeps two owners from taking the stream from each
// other in turn, and protects nothing.
func (s *Stream) Lock(ctx context.Context, sess metadata.Session, clientID string, wait time.Duration) (*Lock, error) {
	return nil, errTODO
}

// Release gives the lock back.
func (l *Lock) Release(ctx context.Context) error { return errTODO }
