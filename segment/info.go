package segment

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/stream"
)

// Versions of a segment's text. On disk: do not renumber.
const (
	versionOriginal  = 1 // no segment number
	versionNumbered  = 2
	versionMinActive = 3
	versionEnveloped = 4
	versionSequence  = 5
	versionCurrent   = versionSequence
)

// Truncation says how much of a segment is cut off. On disk: do not renumber.
type Truncation uint8

// How much of a segment is truncated.
const (
	Active             Truncation = 0 // nothing
	PartiallyTruncated Truncation = 1 // what is before MinActive
	Truncated          Truncation = 2 // all; its ledger may be deleted at any time
	unknownTruncation  Truncation = 3
)

func (t Truncation) String() string {
	switch t {
	case Active:
		return "active"
	case PartiallyTruncated:
		return "partially truncated"
	case Truncated:
		return "truncated"
	default:
		return "unknown"
	}
}

// Info is the metadata of one segment.
type Info struct {
	Version    int   // of its text: 1 to 5
	Segment    int64 // segment sequence number, from 1; 0 in version 1
	Ledger     bk.LedgerID
	InProgress bool

	FirstTxID stream.TxID
	LastTxID  stream.TxID // of a completed segment; stream.InvalidTxID in progress
	Completed time.Time   // when it was completed, to the millisecond; zero in progress
	Records   int64       // user records of a completed segment
	LastEntry int64       // place of the last user record of a completed segment;
	LastSlot  int64       // -1 in progress and in version 1

	Status         Truncation
	MinActiveEntry int64 // first entry and slot left, of a partially truncated segment
	MinActiveSlot  int64
	Region         int // 0 to 15
	// StartSequence is the number of user records in all segments before this
	// one, -1 if not stored. See Sequence.
	StartSequence int64
}

// Enveloped reports whether the segment's entries are in envelopes.
func (i Info) Enveloped() bool { return i.Version >= versionEnveloped }

// First is the first DLSN that may be read: the segment's beginning, or its
// truncation point.
func (i Info) First() stream.DLSN {
	d := stream.DLSN{Segment: i.Segment}
	if i.Status == PartiallyTruncated {
		d.Entry, d.Slot = i.MinActiveEntry, i.MinActiveSlot
	}
	return d
}

// Last is the DLSN of the last user record of a completed segment.
func (i Info) Last() stream.DLSN {
	return stream.DLSN{Segment: i.Segment, Entry: i.LastEntry, Slot: i.LastSlot}
}

// Sealed reports whether the segment ends its stream.
func (i Info) Sealed() bool { return !i.InProgress && i.LastTxID == stream.EndOfStreamTxID }

// Sequence is the sequence id of the record at a position (from 1) of the
// segment: the running number of user records in the stream. Segments that do
// not store where they start get negative, still rising ids.
func (i Info) Sequence(position int64) int64 { return i.start() + position - 1 }

func (i Info) start() int64 {
	if i.Version >= versionSequence && i.StartSequence >= 0 {
		return i.StartSequence
	}
	return math.MinInt64 + i.Segment<<32
}

// nextStart is the start sequence of the segment that follows a completed one.
func (i Info) nextStart() int64 {
	if i.Version < versionSequence || i.StartSequence < 0 {
		return 0
	}
	return i.StartSequence + i.Records
}

const (
	inProgressPrefix = "inprogress_"
	completedPrefix  = "logrecs_"
)

// name is the segment's node below ledgers.
func (i Info) name() string {
	if i.InProgress {
		return fmt.Sprintf(inProgressPrefix+"%018d", i.Segment)
	}
	return fmt.Sprintf(completedPrefix+"%018d", i.Segment)
}

// isSegmentName tells segments from other children of ledgers, in every form
// of name that DistributedLog had.
func isSegmentName(name string) bool {
	return strings.HasPrefix(name, inProgressPrefix) || strings.HasPrefix(name, completedPrefix)
}

// First number of a segment's text. On disk: do not renumber.
const (
	wordVersionMask = 0xff
	wordStatusShift = 8
	wordStatusMask  = 0x3
	wordRegionShift = 28
	wordRegionMask  = 0xf
	wordCountShift  = 32
)

// text is the value of the segment's node: numbers separated by semicolons.
func (i Info) text() []byte {
	word := int64(i.Version)
	if i.Version >= versionNumbered {
		word |= int64(i.Status&wordStatusMask)<<wordStatusShift | int64(i.Region&wordRegionMask)<<wordRegionShift
	}
	if !i.InProgress {
		word |= i.Records << wordCountShift
	}
	f := []int64{word, int64(i.Ledger), int64(i.FirstTxID)}
	if !i.InProgress {
		f = append(f, int64(i.LastTxID), i.Completed.UnixMilli())
	}
	if i.Version >= versionNumbered {
		f = append(f, i.Segment)
		if !i.InProgress {
			f = append(f, i.LastEntry, i.LastSlot)
		}
	}
	if i.Version >= versionMinActive {
		f = append(f, i.MinActiveEntry, i.MinActiveSlot)
	}
	if i.Version >= versionSequence {
		if i.InProgress {
			f = append(f, -1)
		} else {
			f = append(f, i.StartSequence)
		}
	}
	var out []byte
	for k, n := range f {
		if k > 0 {
			out = append(out, ';')
		}
		out = strconv.AppendInt(out, n, 10)
	}
	return out
}

// fieldCount gives the number of fields of a version in progress and
// completed: what tells the two apart.
var fieldCount = [versionCurrent + 1][2]int{
	versionOriginal:  {3, 5},
	versionNumbered:  {4, 8},
	versionMinActive: {6, 10},
	versionEnveloped: {6, 10},
	versionSequence:  {7, 11},
}

// parseInfo reads the value of a segment's node. key names it in errors, which
// wrap stream.ErrCorrupt or stream.ErrUnsupported.
func parseInfo(key string, text []byte) (Info, error) {
	fields, err := parseNumbers(key, string(text))
	if err != nil {
		return Info{}, err
	}
	version := int(fields[0] & wordVersionMask)
	if version < versionOriginal || version > versionCurrent {
		return Info{}, fmt.Errorf("segment %s: metadata version %d, want %d to %d: %w",
			key, version, versionOriginal, versionCurrent, stream.ErrUnsupported)
	}
	want := fieldCount[version]
	if len(fields) != want[0] && len(fields) != want[1] {
		return Info{}, &stream.CorruptError{Where: key, Offset: -1,
			Want: fmt.Sprintf("%d or %d numbers in version %d", want[0], want[1], version), Got: strconv.Itoa(len(fields))}
	}
	i := Info{
		Version: version, InProgress: len(fields) == want[0],
		Ledger: bk.LedgerID(fields[1]), FirstTxID: stream.TxID(fields[2]), LastTxID: stream.InvalidTxID,
		LastEntry: -1, LastSlot: -1, StartSequence: -1,
	}
	if version >= versionNumbered {
		i.Status = Truncation(fields[0] >> wordStatusShift & wordStatusMask)
		i.Region = int(fields[0] >> wordRegionShift & wordRegionMask)
	}
	rest := fields[3:]
	next := func() int64 { n := rest[0]; rest = rest[1:]; return n }
	if !i.InProgress {
		i.Records = fields[0] >> wordCountShift
		i.LastTxID, i.Completed = stream.TxID(next()), time.UnixMilli(next())
	}
	if version >= versionNumbered {
		i.Segment = next()
		if !i.InProgress {
			i.LastEntry, i.LastSlot = next(), next()
		}
	}
	if version >= versionMinActive {
		i.MinActiveEntry, i.MinActiveSlot = next(), next()
	}
	if version >= versionSequence {
		i.StartSequence = next()
	}
	return i, nil
}

func parseNumbers(key, text string) ([]int64, error) {
	trimmed := strings.TrimRight(text, ";") // empty parts at the end are harmless
	parts := strings.Split(trimmed, ";")
	if len(parts) < 2 {
		return nil, &stream.CorruptError{Where: key, Offset: -1, Want: "numbers separated by semicolons", Got: strconv.Quote(cut(text))}
	}
	fields := make([]int64, len(parts))
	for k, p := range parts {
		n, err := strconv.ParseInt(p, 10, 64)
		if err != nil {
			return nil, &stream.CorruptError{Where: key, Offset: -1, Want: "a 64-bit number", Got: strconv.Quote(cut(p))}
		}
		fields[k] = n
	}
	return fields, nil
}

func cut(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
