package bk

import (
	"fmt"
	"strconv"
)

// LedgerID names a ledger in a cluster. Valid ids are not negative and use up
// to 63 bits.
type LedgerID int64

// EntryID numbers the entries of one ledger from 0, without gaps.
type EntryID int64

// InvalidEntryID stands for "no entry", as on the wire: the LAC of a ledger
// without a confirmed entry, the last entry of an empty ledger, and, in a read
// request, "the entry with the highest id you hold".
const InvalidEntryID EntryID = -1

// InvalidLedgerID stands for "no ledger".
const InvalidLedgerID LedgerID = -1

func (l LedgerID) String() string { return strconv.FormatInt(int64(l), 10) }

func (e EntryID) String() string { return strconv.FormatInt(int64(e), 10) }

// BookieID names a bookie. By convention it is host:port, but metadata may
// give the bookie another address.
type BookieID string

// ParseBookieID checks s against the rule that Apache BookKeeper applies:
// letters, digits, ':', '.', '_' and '-', at least one of them, and not the
// reserved word "readonly".
func ParseBookieID(s string) (BookieID, error) {
	if s == "" {
		return "", fmt.Errorf("bookie id is empty: %w", ErrInvalidBookieID)
	}
	if s == "readonly" {
		return "", fmt.Errorf("bookie id %q is reserved: %w", s, ErrInvalidBookieID)
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == ':' || c == '.' || c == '_' || c == '-'
		if !ok {
			return "", fmt.Errorf("bookie id %q: byte %d is %q, allowed are letters, digits and : . _ -: %w",
				s, i, c, ErrInvalidBookieID)
		}
	}
	return BookieID(s), nil
}

// Quorum says how a ledger is replicated: each entry goes to Write of the
// Ensemble bookies and counts once Ack of them have it on disk.
type Quorum struct {
	Ensemble int // E, bookies per ledger
	Write    int // Qw, copies per entry
	Ack      int // Qa, answers that make an entry confirmed
}

// Validate checks Ensemble ≥ Write ≥ Ack ≥ 1.
func (q Quorum) Validate() error {
	if q.Ensemble >= q.Write && q.Write >= q.Ack && q.Ack >= 1 {
		return nil
	}
	return fmt.Errorf("ensemble %d, write quorum %d, ack quorum %d: want ensemble >= write >= ack >= 1: %w",
		q.Ensemble, q.Write, q.Ack, ErrInvalidQuorum)
}
