package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
)

// Response is a decoded version 2 answer. Its slices point into the frame.
type Response struct {
	Op      Op
	Version uint8
	Code    int32     // as sent; AUTH has none
	Status  bk.Status // what Code means; StatusIO for a code nobody knows
	Ledger  bk.LedgerID
	Entry   bk.EntryID // as in the request: of a last-entry read it is bk.InvalidEntryID

	RequestID int64  // BATCH_READ
	Body      []byte // READ: entry body; BATCH_READ: for NextBatchEntry; AUTH: the AuthMessage
}

// DecodeResponse decodes the payload of a version 2 answer in place into r,
// overwriting all of it. It fails with ErrMalformed.
func DecodeResponse(r *Response, payload []byte) error {
	if len(payload) < headerSize {
		return fmt.Errorf("answer of %d bytes has no header: %w", len(payload), ErrMalformed)
	}
	*r = Response{}
	r.Version, r.Op, _ = parseHeader(payload)
	fixed := answerFixedSize
	switch r.Op {
	case OpAdd, OpRead:
	case OpBatchRead:
		fixed = batchAnswerFixed
	case OpAuth:
		r.Body = payload[headerSize:]
		return nil
	default:
		return fmt.Errorf("answer with header %x: no such operation: %w", payload[:headerSize], ErrMalformed)
	}
	if len(payload) < fixed {
		return fmt.Errorf("%s answer of %d bytes, want at least %d: %w", r.Op, len(payload), fixed, ErrMalformed)
	}
	r.Code = int32(binary.BigEndian.Uint32(payload[headerSize:]))
	r.Status, _ = bk.StatusFromV2(r.Code)
	r.Ledger, r.Entry = parseIDs(payload[headerSize+4:])
	if r.Op == OpBatchRead {
		r.RequestID = int64(binary.BigEndian.Uint64(payload[answerFixedSize:]))
	}
	r.Body = payload[fixed:]
	return nil
}

// NextBatchEntry takes the next entry body off the Body of a batch read
// answer. rest is empty after the last one.
func NextBatchEntry(b []byte) (body, rest []byte, err error) {
	if len(b) < batchEntryPrefix {
		return nil, nil, fmt.Errorf("batch entry with a size field of %d bytes: %w", len(b), ErrMalformed)
	}
	n := binary.BigEndian.Uint32(b)
	b = b[batchEntryPrefix:]
	if uint64(n) > uint64(len(b)) {
		return nil, nil, fmt.Errorf("batch entry of %d bytes with %d left: %w", n, len(b), ErrMalformed)
	}
	return b[:n:n], b[n:], nil
}

// AppendAddAnswer appends a whole add answer.
func AppendAddAnswer(dst []byte, version uint8, s bk.Status, l bk.LedgerID, e bk.EntryID) []byte {
	return appendAnswer(dst, answerFixedSize, version, OpAdd, s, l, e)
}

// AppendReadAnswer appends the front of a read answer. An entry body of
// bodySize bytes must follow; bodySize is 0 unless s is StatusOK.
func AppendReadAnswer(dst []byte, version uint8, s bk.Status, l bk.LedgerID, e bk.EntryID, bodySize int) []byte {
	return appendAnswer(dst, answerFixedSize+bodySize, version, OpRead, s, l, e)
}

// AppendBatchReadAnswer appends the front of a batch read answer, whose
// entries take bodiesSize bytes, their size fields included.
func AppendBatchReadAnswer(dst []byte, version uint8, s bk.Status, l bk.LedgerID, e bk.EntryID, requestID int64, bodiesSize int) []byte {
	dst = appendAnswer(dst, batchAnswerFixed+bodiesSize, version, OpBatchRead, s, l, e)
	return binary.BigEndian.AppendUint64(dst, uint64(requestID))
}

// AppendBatchEntry appends the size field of one entry of a batch read answer;
// its body must follow.
func AppendBatchEntry(dst []byte, bodySize int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(bodySize))
}

func appendAnswer(dst []byte, payloadSize int, version uint8, op Op, s bk.Status, l bk.LedgerID, e bk.EntryID) []byte {
	dst = appendHeader(dst, payloadSize, version, op, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.V2()))
	return appendIDs(dst, l, e)
}
