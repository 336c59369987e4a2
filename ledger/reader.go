package ledger

import (
	"context"
	"iter"

	"github.com/loglode/loglode/bookie/bk"
)

// Reader reads one ledger. Any number of goroutines may use it.
type Reader struct{}

// ID is the ledger's id.
func (r *Reader) ID() bk.LedgerID { return 0 }

// LAC is the last entry that may be read, as far as this handle knows. It moves
// up by WaitLAC, ReadNext and by what bookies answer to reads; once the ledger
// is closed it is the ledger's last entry.
func (r *Reader) LAC() bk.EntryID { return bk.InvalidEntryID }

// Closed reports whether the ledger is closed: its LAC is final then.
func (r *Reader) Closed() bool { return false }

// Length is the number of payload bytes up to the LAC of a closed ledger; of an
// open one, as far as this handle has read.
func (r *Reader) Length() int64 { return 0 }

// Entries gives the entries first to last, both included, in order. It fails
// with bk.ErrReadPastLAC when last is past the LAC. The payload of an entry is
// valid until the next step of the iteration.
func (r *Reader) Entries(ctx context.Context, first, last bk.EntryID) iter.Seq2[bk.Entry, error] {
	return func(yield func(bk.Entry, error) bool) { yield(bk.Entry{}, errTODO) }
}

// Read gives one entry. Its payload is the caller's.
func (r *Reader) Read(ctx context.Context, e bk.EntryID) (bk.Entry, error) {
	return bk.Entry{}, errTODO
}

// WaitLAC waits until the LAC is past after, and gives it. It fails with
// bk.ErrLedgerClosed when the ledger is closed at or before after.
func (r *Reader) WaitLAC(ctx context.Context, after bk.EntryID) (bk.EntryID, error) {
	return bk.InvalidEntryID, errTODO
}

// ReadNext waits until entry after+1 is confirmed and gives it; in the usual
// case it comes with the answer to the wait. Its payload is the caller's. It
// fails with bk.ErrLedgerClosed when the ledger is closed at or before after.
func (r *Reader) ReadNext(ctx context.Context, after bk.EntryID) (bk.Entry, error) {
	return bk.Entry{}, errTODO
}

// Close ends the handle: its metadata watch and whatever waits on it.
func (r *Reader) Close() error { return errTODO }
