package record

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pierrec/lz4/v4"

	"github.com/loglode/loglode/stream"
)

// ErrFull means that the entry has no room for the record: finish it and put
// the record into the next one.
var ErrFull = errors.New("entry is full")

// Builder packs records into one entry. Its zero value is not ready: call Reset
// first. It keeps its buffers from entry to entry, so that a Builder in use
// allocates nothing per record. It is not safe for concurrent use.
type Builder struct {
	buf    []byte // room for the envelope, then the records
	packed []byte // the finished entry, when it is compressed
	lz4    lz4.Compressor
	codec  stream.Compression
	sum    Summary
}

// Summary is what a writer must know of an entry to assign DLSNs and to
// complete its segment.
type Summary struct {
	Records     int         // slots taken: records, with the inner ones of record sets
	User        int         // user records among them
	Position    int64       // position after the entry: user records of the segment so far
	LastTxID    stream.TxID // of the last record of any kind, if Records > 0
	LastUser    int         // slot of the last user or end-of-stream record, -1 without one
	EndOfStream bool        // the entry seals the stream
}

// Reset starts an entry. position is the number of user records that the
// segment holds before it. The entry that Finish gave before is invalid from
// now on.
func (b *Builder) Reset(codec stream.Compression, position int64) {
	if cap(b.buf) < EnvelopeSize {
		b.buf = make([]byte, EnvelopeSize, 4<<10)
	}
	b.buf = b.buf[:EnvelopeSize]
	b.codec = codec
	b.sum = Summary{Position: position, LastUser: -1}
}

// SizeBytes is the size of the entry so far, envelope included, before
// compression.
func (b *Builder) SizeBytes() int { return len(b.buf) }

// Records is the number of slots taken so far: the slot of the next record.
func (b *Builder) Records() int { return b.sum.Records }

// Empty reports whether the entry has no record yet.
func (b *Builder) Empty() bool { return len(b.buf) <= EnvelopeSize }

// Fits reports whether a record with so many payload bytes still fits.
func (b *Builder) Fits(payloadSize int) bool {
	return len(b.buf)+HeaderSize+payloadSize <= EntrySizeMax
}

// Append adds a user record. It fails with ErrFull, or with a
// *stream.RecordTooLongError if the record fits no entry. payload is not kept.
func (b *Builder) Append(txid stream.TxID, payload []byte) error {
	if err := b.room(len(payload)); err != nil {
		return err
	}
	b.sum.Position++
	b.add(0, b.sum.Position, txid, payload)
	b.sum.LastUser = b.sum.Records
	b.sum.Records++
	b.sum.User++
	return nil
}

// AppendSet adds a record set that a client packed (see SetBuilder), unopened.
// It takes as many slots and positions as it has records. It fails as Append
// does, and with a *stream.CorruptError if its header cannot be read.
func (b *Builder) AppendSet(txid stream.TxID, payload []byte) error {
	n, err := SetCount(payload)
	if err != nil {
		return err
	}
	if err := b.room(len(payload)); err != nil {
		return err
	}
	b.add(FlagSet, b.sum.Position+1, txid, payload)
	if n == 0 {
		return nil
	}
	b.sum.Position += int64(n)
	b.sum.LastUser = b.sum.Records + n - 1
	b.sum.Records += n
	b.sum.User += n
	return nil
}

// AppendControl adds a control record: it moves the LAC, and no reader shows
// it. txid is the last one of a user record. It fails as Append does.
func (b *Builder) AppendControl(txid stream.TxID, payload string) error {
	return b.appendSpecial(FlagControl, txid, payload)
}

// AppendEndOfStream adds the record that seals the stream.
func (b *Builder) AppendEndOfStream() error {
	if err := b.appendSpecial(FlagEndOfStream, stream.EndOfStreamTxID, EndOfStreamPayload); err != nil {
		return err
	}
	b.sum.LastUser = b.sum.Records - 1
	b.sum.EndOfStream = true
	return nil
}

func (b *Builder) appendSpecial(f Flags, txid stream.TxID, payload string) error {
	if err := b.room(len(payload)); err != nil {
		return err
	}
	b.buf = appendHeader(b.buf, f, b.sum.Position, txid, len(payload))
	b.buf = append(b.buf, payload...)
	b.sum.LastTxID = txid
	b.sum.Records++
	return nil
}

func (b *Builder) room(payloadSize int) error {
	if payloadSize > PayloadSizeMax {
		return &stream.RecordTooLongError{Size: payloadSize, Limit: PayloadSizeMax}
	}
	if !b.Fits(payloadSize) {
		return ErrFull
	}
	return nil
}

func (b *Builder) add(f Flags, position int64, txid stream.TxID, payload []byte) {
	b.buf = appendHeader(b.buf, f, position, txid, len(payload))
	b.buf = append(b.buf, payload...)
	b.sum.LastTxID = txid
}

// Summary tells what the entry holds so far.
func (b *Builder) Summary() Summary { return b.sum }

// Bare gives the records without an envelope, for segments whose metadata is
// older than version 4. The bytes are valid until Reset.
func (b *Builder) Bare() []byte { return b.buf[EnvelopeSize:] }

// Finish gives the entry in its envelope, compressed if the codec says so and
// it gets smaller by that. The bytes are valid until Reset.
func (b *Builder) Finish() ([]byte, error) {
	raw := b.buf[EnvelopeSize:]
	if b.codec == stream.CompressionLZ4 && len(raw) > 0 {
		n, err := b.compress(raw)
		if err != nil {
			return nil, err
		}
		if n > 0 && n < len(raw) {
			putEnvelope(b.packed, stream.CompressionLZ4, len(raw), n)
			return b.packed[:EnvelopeSize+n], nil
		}
	}
	putEnvelope(b.buf, stream.CompressionNone, len(raw), len(raw))
	return b.buf, nil
}

func (b *Builder) compress(raw []byte) (int, error) {
	need := EnvelopeSize + lz4.CompressBlockBound(len(raw))
	if cap(b.packed) < need {
		b.packed = make([]byte, need)
	}
	b.packed = b.packed[:need]
	n, err := b.lz4.CompressBlock(raw, b.packed[EnvelopeSize:])
	if err != nil {
		return 0, fmt.Errorf("compress entry of %d bytes: %w", len(raw), err)
	}
	return n, nil
}

// SetBuilder packs payloads into the payload of a record set. Its zero value is
// not ready: call Reset first. It is not safe for concurrent use.
type SetBuilder struct {
	buf   []byte
	count int
	codec stream.Compression
}

// Reset starts a record set.
func (s *SetBuilder) Reset(codec stream.Compression) {
	if cap(s.buf) < SetHeaderSize {
		s.buf = make([]byte, SetHeaderSize, 4<<10)
	}
	s.buf, s.count, s.codec = s.buf[:SetHeaderSize], 0, codec
}

// Count is the number of records so far.
func (s *SetBuilder) Count() int { return s.count }

// SizeBytes is the size of the set's payload so far, before compression.
func (s *SetBuilder) SizeBytes() int { return len(s.buf) }

// Append adds a record. It fails with ErrFull, or with a
// *stream.RecordTooLongError if the record fits no set. payload is not kept.
func (s *SetBuilder) Append(payload []byte) error {
	const limit = PayloadSizeMax - SetHeaderSize - 4
	if len(payload) > limit {
		return &stream.RecordTooLongError{Size: len(payload), Limit: limit}
	}
	if len(s.buf)+4+len(payload) > PayloadSizeMax {
		return ErrFull
	}
	s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(len(payload)))
	s.buf = append(s.buf, payload...)
	s.count++
	return nil
}

// Finish gives the payload of the record set. The bytes are valid until Reset.
func (s *SetBuilder) Finish() ([]byte, error) {
	raw := s.buf[SetHeaderSize:]
	if s.codec == stream.CompressionLZ4 && len(raw) > 0 {
		packed := make([]byte, SetHeaderSize+lz4.CompressBlockBound(len(raw)))
		n, err := lz4.CompressBlock(raw, packed[SetHeaderSize:], nil)
		if err != nil {
			return nil, fmt.Errorf("compress record set of %d bytes: %w", len(raw), err)
		}
		if n > 0 && n < len(raw) {
			putSetHeader(packed, stream.CompressionLZ4, s.count, len(raw), n)
			return packed[:SetHeaderSize+n], nil
		}
	}
	putSetHeader(s.buf, stream.CompressionNone, s.count, len(raw), len(raw))
	return s.buf, nil
}
