package bk

import (
	"errors"
	"fmt"
	"strings"
)

// Conditions a caller can act on. Test for them with errors.Is; the errors
// that carry facts wrap one of them.
var (
	// What a bookie answered.
	ErrNoSuchLedger       = errors.New("no such ledger")
	ErrNoSuchEntry        = errors.New("no such entry")
	ErrBadRequest         = errors.New("bad request")
	ErrBookieIO           = errors.New("bookie I/O error")
	ErrUnauthorized       = errors.New("unauthorized: wrong ledger password or failed authentication")
	ErrBadVersion         = errors.New("protocol version not supported")
	ErrFenced             = errors.New("ledger is fenced: another client owns its end")
	ErrReadOnly           = errors.New("bookie is read-only")
	ErrTooManyRequests    = errors.New("bookie has too many requests")
	ErrUnknownLedgerState = errors.New("bookie lost data of this ledger and cannot answer")

	// What a client found out by itself.
	ErrNotEnoughBookies  = errors.New("not enough bookies")
	ErrBookieUnavailable = errors.New("bookie unavailable")
	ErrTimeout           = errors.New("timed out")
	ErrLedgerExists      = errors.New("ledger exists")
	ErrLedgerClosed      = errors.New("ledger is closed")
	ErrClosed            = errors.New("closed")
	ErrCorrupt           = errors.New("corrupt")
	ErrReadPastLAC       = errors.New("read past the last confirmed entry")
	ErrRecoveryFailed    = errors.New("ledger recovery failed")
	ErrMetadataConflict  = errors.New("ledger metadata was changed by another client")
	ErrPayloadTooLong    = errors.New("entry payload too long")
	ErrBufferFull        = errors.New("byte limit of entries in flight reached")
	ErrDuplicateEntry    = errors.New("entry id was used before")
	ErrTooManyChanges    = errors.New("limit of ensemble changes reached")

	// What an argument breaks.
	ErrInvalidQuorum   = errors.New("invalid quorum")
	ErrInvalidBookieID = errors.New("invalid bookie id")
	ErrInvalidDigest   = errors.New("invalid digest type")
)

// QuorumError says why an entry did not reach, or could not be read from,
// enough bookies.
type QuorumError struct {
	Ledger    LedgerID
	Entry     EntryID
	Need, Got int
	Errs      []error // one for each bookie that failed
}

func (e *QuorumError) Error() string {
	why := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		why[i] = err.Error()
	}
	return fmt.Sprintf("ledger %d entry %d: %d of %d needed bookies: %s",
		e.Ledger, e.Entry, e.Got, e.Need, strings.Join(why, "; "))
}

func (e *QuorumError) Unwrap() []error { return e.Errs }

// BookieError is the failure of one request at one bookie.
type BookieError struct {
	Bookie BookieID
	Err    error
}

func (e *BookieError) Error() string { return fmt.Sprintf("bookie %s: %v", e.Bookie, e.Err) }

func (e *BookieError) Unwrap() error { return e.Err }

// CorruptError says where bytes differ from what they must be. It is never
// retried on the same copy.
type CorruptError struct {
	Where  string // file, bookie or field
	Offset int64  // bytes into Where, -1 where it has no offset
	Want   string
	Got    string
}

func (e *CorruptError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s: corrupt: want %s, got %s", e.Where, e.Want, e.Got)
	}
	return fmt.Sprintf("%s: corrupt at offset %d: want %s, got %s", e.Where, e.Offset, e.Want, e.Got)
}

func (e *CorruptError) Unwrap() error { return ErrCorrupt }
