package ledger

import (
	"context"
	"errors"

	"github.com/loglode/loglode/bookie/bk"
)

// Writer appends to one ledger. Any number of goroutines may use it; entries
// get their ids in the order of the calls.
//
// A Writer ends for good with its first failure (fenced, too few bookies,
// closed): every pending and later add then fails with that cause. A failed add
// may still become part of the ledger by recovery.
type Writer struct{}

// ID is the ledger's id.
func (w *Writer) ID() bk.LedgerID { return 0 }

// Append adds one entry and waits until it is confirmed. p is not kept after
// return. If ctx ends first, the entry may still be confirmed later.
func (w *Writer) Append(ctx context.Context, p []byte) (bk.EntryID, error) {
	return bk.InvalidEntryID, errTODO
}

// Go adds one entry and calls done once it is confirmed or failed. Callbacks
// run one at a time, in entry order, on a goroutine of the client, with no lock
// held; they must not block. p is the caller's again when done runs. Go blocks
// while the limit of bytes in flight is reached; when ctx ends meanwhile, done
// gets the context's error and bk.InvalidEntryID, before Go returns.
func (w *Writer) Go(ctx context.Context, p []byte, done func(bk.EntryID, error)) {}

// TryGo is Go that does not block: bk.ErrBufferFull when the limit of bytes in
// flight is reached, the writer's failure when it has ended. done is called
// only if TryGo returns nil.
func (w *Writer) TryGo(p []byte, done func(bk.EntryID, error)) error { return errTODO }

// Err is why the writer has ended, nil while it has not.
func (w *Writer) Err() error { return errTODO }

// LAC is the last entry confirmed, bk.InvalidEntryID at first.
func (w *Writer) LAC() bk.EntryID { return bk.InvalidEntryID }

// LastPushed is the id of the last entry handed to Append, Go or TryGo.
func (w *Writer) LastPushed() bk.EntryID { return bk.InvalidEntryID }

// Length is the number of payload bytes of all entries pushed.
func (w *Writer) Length() int64 { return 0 }

// Force makes all entries that are complete now durable on all bookies of the
// ensemble and moves the LAC up to them. It matters to ledgers made
// WithDeferredSync; elsewhere it waits for the entries pushed before it.
func (w *Writer) Force(ctx context.Context) error { return errTODO }

// Close waits for the entries in flight, then closes the ledger in the
// metadata at its LAC: it can never be appended to again. bk.ErrMetadataConflict
// means that another client closed it at another entry.
func (w *Writer) Close(ctx context.Context) error { return errTODO }

// Abort lets go of the ledger without closing it, as a crash would: entries in
// flight fail, and the next client recovers.
func (w *Writer) Abort() error { return errTODO }

var errTODO = errors.New("not implemented")
