package bookie

import (
	"context"
	"errors"
	"iter"

	"github.com/loglode/loglode/bookie/bk"
)

// Identity is who a bookie is in its cluster, for the cookie check at start.
type Identity struct {
	ID bk.BookieID
}

// Bookie is one open storage node. Its methods may be called by any number of
// goroutines.
type Bookie struct{}

// Open locks the directories, replays what the journals hold beyond the marks,
// and starts the bookie.
func Open(ctx context.Context, o Options) (*Bookie, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return nil, errors.New("bookie: not built yet")
}

// Close flushes, ends all goroutines and unlocks the directories.
func (b *Bookie) Close() error { return nil }

// AddBatch stores adds. Each gets exactly one result at sink. Body and
// MasterKey are copied before AddBatch returns. It waits, up to
// Options.AddWait, for room in the write cache and in the journal's queue.
func (b *Bookie) AddBatch(sink AddSink, adds []Add) {}

// Read appends the body of an entry to dst. e = bk.InvalidEntryID reads the
// entry with the highest id stored here. Statuses: StatusOK, StatusNoLedger,
// StatusNoEntry, StatusIO (damage, disk error), StatusBadRequest (another
// negative id).
func (b *Bookie) Read(l bk.LedgerID, e bk.EntryID, dst []byte) ([]byte, bk.Status) {
	return dst, bk.StatusIO
}

// Fence refuses ordinary adds to a ledger from now on, for ever. It is durable
// once StatusOK is returned. An unknown ledger is created, fenced. Other
// statuses: StatusUnauthorized (wrong or empty key), StatusIO.
func (b *Bookie) Fence(ctx context.Context, l bk.LedgerID, masterKey []byte) bk.Status {
	return bk.StatusIO
}

// LAC is the highest last-add-confirmed seen for a ledger, in entry headers
// and explicit LACs. StatusOK or StatusNoLedger.
func (b *Bookie) LAC(l bk.LedgerID) (bk.EntryID, bk.Status) { return bk.InvalidEntryID, bk.StatusIO }

// WaitLAC calls fn once the LAC of a ledger is above after, from the goroutine
// that moved it, with no lock held; at once, inside WaitLAC, if it already is.
// fn must not block. cancel takes the wait back; it reports whether fn will
// never be called. An unknown ledger is waited for too.
func (b *Bookie) WaitLAC(l bk.LedgerID, after bk.EntryID, fn func(lac bk.EntryID)) (cancel func() bool) {
	return func() bool { return true }
}

// WriteLAC stores an explicit LAC body, durable once StatusOK is returned.
// Ledger and LAC are taken from the body.
func (b *Bookie) WriteLAC(ctx context.Context, l bk.LedgerID, masterKey, lacBody []byte) bk.Status {
	return bk.StatusIO
}

// ReadLAC gives the stored explicit LAC body and the entry with the highest
// id, each nil if there is none; StatusNoEntry if there is neither.
func (b *Bookie) ReadLAC(l bk.LedgerID) (lacBody, lastEntry []byte, s bk.Status) {
	return nil, nil, bk.StatusIO
}

// Force returns StatusOK once each journal write handed over before is
// durable.
func (b *Bookie) Force(ctx context.Context, l bk.LedgerID) bk.Status { return bk.StatusIO }

// Entries gives the ids stored here in rising order. StatusOK, StatusNoLedger
// or StatusIO.
func (b *Bookie) Entries(l bk.LedgerID) (iter.Seq[bk.EntryID], bk.Status) { return nil, bk.StatusIO }

// Info gives the capacity and the free space of the ledger directories, in
// bytes.
func (b *Bookie) Info() (total, free int64, err error) { return 0, 0, nil }

// SetReadOnly asks for read-only, or takes the wish back.
func (b *Bookie) SetReadOnly(on bool) {}

// State is what the bookie takes now.
func (b *Bookie) State() State { return Closed }
