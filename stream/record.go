package stream

import (
	"math"
	"slices"
	"time"
)

// TxID is the number that the application attaches to a record. In one stream
// it never goes back; equal ones may follow each other. Where the application
// gives none, it is the append time in milliseconds since 1970, kept monotone.
type TxID int64

// Special txids, as DistributedLog stores them: do not change.
const (
	// MaxTxID is the highest txid of a record.
	MaxTxID TxID = math.MaxInt64 - 1
	// EndOfStreamTxID is the txid of the record that seals a stream.
	EndOfStreamTxID TxID = math.MaxInt64
	// InvalidTxID stands for "no txid".
	InvalidTxID TxID = -999
)

// Valid reports whether a record may carry t: 0 to MaxTxID.
func (t TxID) Valid() bool { return t >= 0 && t <= MaxTxID }

// TxIDOf is the txid that stands for a time: milliseconds since 1970.
func TxIDOf(t time.Time) TxID { return TxID(t.UnixMilli()) }

// Time is the time that a txid stands for, where txids are append times.
func (t TxID) Time() time.Time { return time.UnixMilli(int64(t)) }

// Record is one record of a stream, as appended and as read.
type Record struct {
	DLSN    DLSN // assigned by the append; ignored there
	TxID    TxID // of an append: 0 = the writer chooses the append time in ms; negative is refused
	Payload []byte
}

// Clone copies the payload, so that the record outlives the buffer it came in.
func (r Record) Clone() Record {
	r.Payload = slices.Clone(r.Payload)
	return r
}

// Info is one stream of a listing.
type Info struct {
	Name Name
}
