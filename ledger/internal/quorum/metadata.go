package quorum

import (
	"fmt"
	"slices"

	"github.com/loglode/loglode/bookie/bk"
)

// State is where a ledger is in its life. It only moves forward (rule 49).
type State uint8

// The states of a ledger.
const (
	StateOpen State = iota
	StateInRecovery
	StateClosed
)

func (s State) String() string {
	switch s {
	case StateOpen:
		return "OPEN"
	case StateInRecovery:
		return "IN_RECOVERY"
	case StateClosed:
		return "CLOSED"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// Segment is a run of entries with one ensemble: it reaches from First to the
// entry before the next segment's First.
type Segment struct {
	First    bk.EntryID
	Ensemble []bk.BookieID // by position; never changed in place
}

// Metadata is the part of a ledger's metadata that the protocol decides over.
// Values are immutable: the cores build a new one for every change and never
// write into a Segments or Ensemble slice they were given or have handed out.
type Metadata struct {
	State     State
	Segments  []Segment
	LastEntry bk.EntryID // StateClosed only: last entry, InvalidEntryID when empty
	Length    int64      // StateClosed only: payload bytes of entries 0 to LastEntry
}

// Last is the last segment. Metadata that validate accepts has one.
func (m Metadata) Last() Segment { return m.Segments[len(m.Segments)-1] }

// SegmentOf is the index of the segment that holds e: the last whose First is
// at most e (rule 40). It is -1 for an entry before the first segment.
func (m Metadata) SegmentOf(e bk.EntryID) int {
	for i := len(m.Segments) - 1; i >= 0; i-- {
		if m.Segments[i].First <= e {
			return i
		}
	}
	return -1
}

// Equal reports whether both say the same.
func (m Metadata) Equal(o Metadata) bool {
	if m.State != o.State || !slices.EqualFunc(m.Segments, o.Segments, Segment.Equal) {
		return false
	}
	return m.State != StateClosed || m.LastEntry == o.LastEntry && m.Length == o.Length
}

// Equal reports whether both have the same first entry and ensemble.
func (s Segment) Equal(o Segment) bool {
	return s.First == o.First && slices.Equal(s.Ensemble, o.Ensemble)
}

// validate checks what the cores rely on: at least one segment, the first at
// entry 0, rising first entries, ensembles of the ledger's size without a
// bookie twice.
func (m Metadata) validate(q bk.Quorum) error {
	if len(m.Segments) == 0 {
		return fmt.Errorf("ledger metadata without a segment: %w", bk.ErrCorrupt)
	}
	prev := bk.InvalidEntryID
	for i, s := range m.Segments {
		if i == 0 && s.First != 0 {
			return fmt.Errorf("first segment starts at entry %d, want 0: %w", s.First, bk.ErrCorrupt)
		}
		if s.First <= prev || s.First > maxEntryID {
			return fmt.Errorf("segment %d starts at entry %d, the one before at %d: %w", i, s.First, prev, bk.ErrCorrupt)
		}
		prev = s.First
		if len(s.Ensemble) != q.Ensemble {
			return fmt.Errorf("segment %d has %d bookies, the ensemble size is %d: %w", i, len(s.Ensemble), q.Ensemble, bk.ErrCorrupt)
		}
		for p, b := range s.Ensemble {
			if slices.Contains(s.Ensemble[:p], b) {
				return fmt.Errorf("segment %d names bookie %s twice: %w", i, b, bk.ErrCorrupt)
			}
		}
	}
	return nil
}

// maxEntryID is far beyond what a ledger can hold, and far from an overflow.
const maxEntryID bk.EntryID = 1 << 60

// MaxWriteQuorum is the largest write quorum the cores take: acknowledgements
// are kept as one bit each in a word.
const MaxWriteQuorum = 64

// validateQuorum checks q for the cores.
func validateQuorum(q bk.Quorum) error {
	if err := q.Validate(); err != nil {
		return err
	}
	if q.Write > MaxWriteQuorum {
		return fmt.Errorf("write quorum %d: want at most %d: %w", q.Write, MaxWriteQuorum, bk.ErrInvalidQuorum)
	}
	return nil
}

// Position is the position in the ensemble of copy k (0 to Qw-1) of entry e:
// (e + k) mod E. Together these are the entry's write set.
func Position(q bk.Quorum, e bk.EntryID, k int) int {
	return int((uint64(e) + uint64(k)) % uint64(q.Ensemble))
}

// CopyAt is the inverse of Position: which copy of entry e goes to position
// pos. ok is false when pos is not in the write set of e.
func CopyAt(q bk.Quorum, e bk.EntryID, pos int) (k int, ok bool) {
	if pos < 0 || pos >= q.Ensemble || e < 0 {
		return 0, false
	}
	k = pos - int(uint64(e)%uint64(q.Ensemble))
	if k < 0 {
		k += q.Ensemble
	}
	return k, k < q.Write
}

// Covered reports whether the positions heard from suffice to go on with a
// recovery (rule 32): in every window of Qw consecutive positions, fewer than
// Qa have not been heard. heard has one element a position.
func Covered(q bk.Quorum, heard []bool) bool {
	if len(heard) != q.Ensemble {
		return false
	}
	for first := range q.Ensemble {
		unknown := 0
		for k := range q.Write {
			if !heard[(first+k)%q.Ensemble] {
				unknown++
			}
		}
		if unknown >= q.Ack {
			return false
		}
	}
	return true
}
