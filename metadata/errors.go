package metadata

import (
	"errors"
	"fmt"
)

// Conditions a caller can act on; test with errors.Is.
var (
	ErrNotFound       = errors.New("metadata: no such key")
	ErrExists         = errors.New("metadata: key exists")
	ErrConflict       = errors.New("metadata: key was changed by another client")
	ErrNotEmpty       = errors.New("metadata: key has children")
	ErrUnknownOutcome = errors.New("metadata: outcome unknown: the change may have been applied")
	ErrUnavailable    = errors.New("metadata: store unavailable")
	ErrSessionLost    = errors.New("metadata: session lost")
	ErrClosed         = errors.New("metadata: store closed")
	ErrInvalidKey     = errors.New("metadata: invalid key")
)

// TxnError is the refusal of a whole Txn, because of one of its operations.
// It wraps ErrNotFound, ErrExists, ErrConflict, ErrNotEmpty or ErrSessionLost.
// A store that cannot tell which operation it was gives Index -1.
type TxnError struct {
	Index int
	Key   string
	Err   error
}

func (e *TxnError) Error() string { return fmt.Sprintf("txn op %d on %q: %v", e.Index, e.Key, e.Err) }

func (e *TxnError) Unwrap() error { return e.Err }
