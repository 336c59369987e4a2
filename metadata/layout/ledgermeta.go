package layout

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/loglode/loglode/bookie/bk"
)

// State is where a ledger is in its life. It only moves forward.
type State uint8

// Ledger states, numbered as in ledger metadata: do not renumber.
const (
	StateOpen       State = 1 // a writer may append
	StateInRecovery State = 2 // some client is finding the end; nobody may append or add segments
	StateClosed     State = 3 // LastEntry and Length are final
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
		return "State(" + strconv.Itoa(int(s)) + ")"
	}
}

// Segment is a run of entries with one ensemble (called fragment in prose, to
// tell it from a stream's segments).
type Segment struct {
	First    bk.EntryID
	Ensemble []bk.BookieID // Quorum.Ensemble bookies; their order is the striping

	unknown []byte // protobuf fields that this version does not know
}

// Format versions of ledger metadata. New ledgers are written as FormatVersion3.
const (
	FormatVersion1 = 1
	FormatVersion2 = 2
	FormatVersion3 = 3
)

// LedgerMetadata is all that is known of a ledger outside its entries. Treat a
// value that others may see as immutable: Clone, change the clone, and write it
// with Cluster.UpdateLedger.
type LedgerMetadata struct {
	FormatVersion int // 0 is written as FormatVersion3
	Quorum        bk.Quorum
	State         State
	Segments      []Segment  // ascending First; the first begins at entry 0
	LastEntry     bk.EntryID // bk.InvalidEntryID unless closed; closed with InvalidEntryID = empty
	Length        int64      // payload bytes up to LastEntry; 0 unless closed
	HasPassword   bool       // Digest and Password are stored; false in format 1 and in very old ledgers
	Digest        bk.DigestType
	Password      []byte
	CTime         time.Time         // when it was created, to the millisecond; zero: not stored
	Custom        map[string][]byte // the application's own
	CToken        int64             // random at creation, 0 from the first update on; format 3 only

	unknown []byte // protobuf fields that this version does not know
}

// Clone is a deep copy.
func (m *LedgerMetadata) Clone() *LedgerMetadata {
	c := *m
	c.Segments = make([]Segment, len(m.Segments))
	for i, s := range m.Segments {
		c.Segments[i] = Segment{First: s.First, Ensemble: slices.Clone(s.Ensemble), unknown: bytes.Clone(s.unknown)}
	}
	c.Password = bytes.Clone(m.Password)
	if m.Custom != nil {
		c.Custom = maps.Clone(m.Custom)
		for k, v := range c.Custom {
			c.Custom[k] = bytes.Clone(v)
		}
	}
	c.unknown = bytes.Clone(m.unknown)
	return &c
}

// LastSegment is the segment that new entries belong to.
func (m *LedgerMetadata) LastSegment() *Segment { return &m.Segments[len(m.Segments)-1] }

// SegmentOf is the segment that entry e belongs to: the one with the largest
// First ≤ e.
func (m *LedgerMetadata) SegmentOf(e bk.EntryID) *Segment {
	for i := len(m.Segments) - 1; i > 0; i-- {
		if m.Segments[i].First <= e {
			return &m.Segments[i]
		}
	}
	return &m.Segments[0]
}
