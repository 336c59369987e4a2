package stream

import (
	"errors"
	"fmt"
	"time"
)

// Conditions a caller can act on; test with errors.Is. The errors that carry
// facts wrap one of them.
var (
	ErrFenced           = errors.New("fenced: another writer took the stream over")
	ErrSealed           = errors.New("stream is sealed")
	ErrClosed           = errors.New("closed")
	ErrTruncated        = errors.New("position is truncated")
	ErrNotFound         = errors.New("no such stream")
	ErrExists           = errors.New("stream exists")
	ErrEmpty            = errors.New("stream has no records")
	ErrNotEnoughBookies = errors.New("not enough bookies")
	ErrBufferFull       = errors.New("byte limit of appends in flight reached")
	ErrCorrupt          = errors.New("corrupt")
	ErrConflict         = errors.New("changed by another client")
	ErrUnauthorized     = errors.New("unauthorized")
	ErrTxIDOrder        = errors.New("txid goes back")
	ErrRecordTooLong    = errors.New("record too long")
	ErrNotOwner         = errors.New("stream is owned by another")
	ErrEndOfStream      = errors.New("end of stream")
	ErrUnavailable      = errors.New("unavailable")
	ErrTimeout          = errors.New("timed out")

	// What an argument or a stored value breaks.
	ErrInvalidName     = errors.New("invalid stream name")
	ErrInvalidPosition = errors.New("invalid position")
	ErrInvalidDLSN     = errors.New("invalid DLSN")
	ErrInvalidConfig   = errors.New("invalid stream configuration")
	// ErrUnsupported means that the stream was written in a format version
	// that this build does not know.
	ErrUnsupported = errors.New("unsupported format version")
)

// NameError says what is wrong with a stream name. It wraps ErrInvalidName.
type NameError struct {
	Name   string // as it was given, maybe cut
	Reason string
}

func (e *NameError) Error() string { return fmt.Sprintf("stream name %q: %s", e.Name, e.Reason) }

func (e *NameError) Unwrap() error { return ErrInvalidName }

// TruncatedError says that what was asked for lies before the truncation
// point. It wraps ErrTruncated.
type TruncatedError struct {
	At    DLSN // what was asked for
	First DLSN // the first DLSN that is left
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("%v is truncated, the stream begins at %v", e.At, e.First)
}

func (e *TruncatedError) Unwrap() error { return ErrTruncated }

// RecordTooLongError says by how much a record is too long. It wraps
// ErrRecordTooLong.
type RecordTooLongError struct {
	Size  int // payload bytes
	Limit int // most payload bytes
}

func (e *RecordTooLongError) Error() string {
	return fmt.Sprintf("record payload of %d bytes is over the limit of %d bytes", e.Size, e.Limit)
}

func (e *RecordTooLongError) Unwrap() error { return ErrRecordTooLong }

// TxIDOrderError says that a txid cannot follow the last one. It wraps
// ErrTxIDOrder.
type TxIDOrderError struct {
	TxID TxID // refused
	Last TxID // highest so far; an equal one is allowed
}

func (e *TxIDOrderError) Error() string {
	if !e.TxID.Valid() {
		return fmt.Sprintf("txid %d: want 0 to %d", e.TxID, MaxTxID)
	}
	return fmt.Sprintf("txid %d goes back: the last one is %d", e.TxID, e.Last)
}

func (e *TxIDOrderError) Unwrap() error { return ErrTxIDOrder }

// OwnerError names who writes a stream now. It wraps ErrNotOwner.
type OwnerError struct {
	Stream Name
	Owner  string // client id, or host:port of a proxy
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("stream %s is owned by %s", e.Stream, e.Owner)
}

func (e *OwnerError) Unwrap() error { return ErrNotOwner }

// FencedError says where a writer lost its stream. It wraps ErrFenced.
type FencedError struct {
	Stream Name
	At     time.Time // when this writer found out
	Cause  error
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("writer of stream %s is fenced: %v", e.Stream, e.Cause)
}

func (e *FencedError) Unwrap() []error { return []error{ErrFenced, e.Cause} }

// CorruptError says where stored bytes differ from what they must be. It wraps
// ErrCorrupt and is never retried on the same bytes.
type CorruptError struct {
	Where  string // entry, record or metadata key
	Offset int    // bytes into Where, -1 where it has no offset
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
