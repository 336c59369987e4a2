package record

import (
	"encoding/binary"
	"fmt"

	"github.com/loglode/loglode/stream"
)

// Sizes in bytes. On disk and on the wire: do not change.
const (
	HeaderSize     = 20                         // of a record in front of its payload
	RecordSizeMax  = 1<<20 - 8<<10              // record with its header
	PayloadSizeMax = RecordSizeMax - HeaderSize // payload of a record
	EntrySizeMax   = 1<<20 - 4<<10              // entry with its envelope, before compression
	EnvelopeSize   = 13                         // envelope in front of the records
	SetHeaderSize  = 16                         // record set in front of its data
)

// DecodedSizeMax is the most bytes that an entry or a record set may claim to
// have before compression; what claims more is corrupt.
const DecodedSizeMax = 4 << 20

// Flags tell special records from user records. On disk: do not renumber.
type Flags uint8

// The flags of a record's metadata word.
const (
	FlagControl     Flags = 1 << 0 // commits what is before it; applications never see it
	FlagEndOfStream Flags = 1 << 1 // seals the stream
	FlagSet         Flags = 1 << 2 // payload is a record set

	flagsMask = FlagControl | FlagEndOfStream | FlagSet
)

// User reports whether the record is one that an application appended.
func (f Flags) User() bool { return f&(FlagControl|FlagEndOfStream) == 0 }

// Payloads of special records. Readers look at the flags alone.
const (
	ControlPayload     = "control"
	KeepAlivePayload   = "keepalive"
	HeartbeatPayload   = "heartbeat"
	EndOfStreamPayload = "endOfStream"
)

const (
	envelopeVersion = 1          // on disk: do not renumber
	codecMask       = 0x3        // of the envelope's flags and of a set's first word
	setVersion      = 0x1000     // on disk: do not renumber
	setVersionMask  = 0xf000     // of a set's first word
	positionShift   = 16         // of the metadata word
	positionMask    = 0xffffffff // of the metadata word, after shifting
)

// PositionMax is the highest position that DistributedLog counts to.
const PositionMax = 1<<31 - 1

// appendHeader appends the header of a record to dst.
func appendHeader(dst []byte, f Flags, position int64, txid stream.TxID, payloadSize int) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(f)|uint64(position)&positionMask<<positionShift)
	dst = binary.BigEndian.AppendUint64(dst, uint64(txid))
	return binary.BigEndian.AppendUint32(dst, uint32(payloadSize))
}

// putEnvelope writes the envelope of an entry into dst[:EnvelopeSize].
func putEnvelope(dst []byte, codec stream.Compression, raw, data int) {
	dst[0] = envelopeVersion
	binary.BigEndian.PutUint32(dst[1:], uint32(codec))
	binary.BigEndian.PutUint32(dst[5:], uint32(raw))
	binary.BigEndian.PutUint32(dst[9:], uint32(data))
}

// putSetHeader writes the header of a record set into dst[:SetHeaderSize].
func putSetHeader(dst []byte, codec stream.Compression, count, raw, data int) {
	binary.BigEndian.PutUint32(dst, setVersion|uint32(codec))
	binary.BigEndian.PutUint32(dst[4:], uint32(count))
	binary.BigEndian.PutUint32(dst[8:], uint32(raw))
	binary.BigEndian.PutUint32(dst[12:], uint32(data))
}

// SetCount is the number of records in a record set, read from its payload.
func SetCount(payload []byte) (int, error) {
	if len(payload) < SetHeaderSize {
		return 0, corrupt("record set", 0, fmt.Sprintf("at least %d bytes", SetHeaderSize), fmt.Sprint(len(payload)))
	}
	n := int32(binary.BigEndian.Uint32(payload[4:]))
	if n < 0 {
		return 0, corrupt("record set, count", 4, "0 or more", fmt.Sprint(n))
	}
	return int(n), nil
}

func corrupt(where string, offset int, want, got string) error {
	return &stream.CorruptError{Where: where, Offset: offset, Want: want, Got: got}
}
