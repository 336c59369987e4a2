package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
)

// Request is a decoded version 2 request. Its slices point into the frame.
type Request struct {
	Op        Op    // OpAdd, OpRead, OpBatchRead or OpAuth
	Version   uint8 // to be repeated in the answer; above V2Version the request must be refused
	Flags     Flags
	Ledger    bk.LedgerID
	Entry     bk.EntryID // of a batch read: the first one
	MasterKey []byte     // ADD; READ and BATCH_READ if fencing; nil if the request has none
	Body      []byte     // ADD: entry body; AUTH: the AuthMessage

	RequestID int64 // BATCH_READ, as are the two below
	MaxCount  int32 // entries; <= 0: no limit
	MaxSize   int64 // bytes of the answer frame
}

// BadVersion reports whether the request is of a version that a bookie refuses
// with StatusBadVersion.
func (r *Request) BadVersion() bool { return r.Version > maxSupportedV2Ver }

// DecodeRequest decodes the payload of a version 2 request in place into r,
// overwriting all of it. It fails with ErrMalformed, and then the connection
// has to be closed: without the opcode there is no way to answer.
func DecodeRequest(r *Request, payload []byte) error {
	if len(payload) < headerSize {
		return fmt.Errorf("request of %d bytes has no header: %w", len(payload), ErrMalformed)
	}
	*r = Request{}
	r.Version, r.Op, r.Flags = parseHeader(payload)
	switch r.Op {
	case OpAdd:
		return r.decodeAdd(payload)
	case OpRead:
		return r.decodeRead(payload)
	case OpBatchRead:
		return r.decodeBatchRead(payload)
	case OpAuth:
		r.Body = payload[headerSize:]
		return nil
	default:
		return fmt.Errorf("request with header %x: no such operation: %w", payload[:headerSize], ErrMalformed)
	}
}

func (r *Request) decodeAdd(payload []byte) error {
	if len(payload) < addFixedSize+idsSize {
		return r.short(payload, addFixedSize+idsSize)
	}
	r.MasterKey = payload[headerSize:addFixedSize:addFixedSize]
	r.Body = payload[addFixedSize:]
	r.Ledger, r.Entry = parseIDs(r.Body)
	return nil
}

func (r *Request) decodeRead(payload []byte) error {
	if len(payload) < readFixedSize {
		return r.short(payload, readFixedSize)
	}
	r.Ledger, r.Entry = parseIDs(payload[headerSize:])
	if r.Flags&FlagFence == 0 || r.Version < 2 {
		return nil
	}
	return r.decodeKey(payload, readFixedSize)
}

func (r *Request) decodeBatchRead(payload []byte) error {
	if len(payload) < batchFixedSize {
		return r.short(payload, batchFixedSize)
	}
	r.Ledger, r.Entry = parseIDs(payload[headerSize:])
	r.RequestID = int64(binary.BigEndian.Uint64(payload[readFixedSize:]))
	r.MaxCount = int32(binary.BigEndian.Uint32(payload[readFixedSize+8:]))
	r.MaxSize = int64(binary.BigEndian.Uint64(payload[readFixedSize+12:]))
	if r.Flags&FlagFence == 0 {
		return nil
	}
	return r.decodeKey(payload, batchFixedSize)
}

// decodeKey takes the master key that a fencing read carries at off.
func (r *Request) decodeKey(payload []byte, off int) error {
	if len(payload) < off+bk.MasterKeySize {
		return r.short(payload, off+bk.MasterKeySize)
	}
	r.MasterKey = payload[off : off+bk.MasterKeySize : off+bk.MasterKeySize]
	return nil
}

func (r *Request) short(payload []byte, want int) error {
	return fmt.Errorf("%s request of %d bytes, want at least %d: %w", r.Op, len(payload), want, ErrMalformed)
}

// AppendAddRequest appends the front of an add frame: length, header and
// master key. An entry body of bodySize bytes must follow, for example by
// bk.Digester.AppendEntry.
func AppendAddRequest(dst []byte, flags Flags, masterKey *[bk.MasterKeySize]byte, bodySize int) []byte {
	dst = appendHeader(dst, addFixedSize+bodySize, V2Version, OpAdd, flags)
	return append(dst, masterKey[:]...)
}

// AppendReadRequest appends a read of one entry; of the last one the bookie
// has if e is bk.InvalidEntryID. masterKey is sent if flags hold FlagFence,
// and must not be nil then.
func AppendReadRequest(dst []byte, flags Flags, l bk.LedgerID, e bk.EntryID, masterKey *[bk.MasterKeySize]byte) []byte {
	size := readFixedSize
	if flags&FlagFence != 0 {
		size += bk.MasterKeySize
	}
	dst = appendHeader(dst, size, V2Version, OpRead, flags)
	dst = appendIDs(dst, l, e)
	if flags&FlagFence != 0 {
		dst = append(dst, masterKey[:]...)
	}
	return dst
}

// BatchRead asks for a run of entries in one answer.
type BatchRead struct {
	Flags     Flags
	Ledger    bk.LedgerID
	First     bk.EntryID
	RequestID int64                   // repeated in the answer
	MaxCount  int32                   // entries; <= 0: no limit
	MaxSize   int64                   // bytes of the answer frame; the first entry comes whatever its size
	MasterKey *[bk.MasterKeySize]byte // for FlagFence, otherwise not sent
}

// AppendBatchReadRequest appends a batch read.
func AppendBatchReadRequest(dst []byte, r BatchRead) []byte {
	size := batchFixedSize
	if r.Flags&FlagFence != 0 {
		size += bk.MasterKeySize
	}
	dst = appendHeader(dst, size, V2Version, OpBatchRead, r.Flags)
	dst = appendIDs(dst, r.Ledger, r.First)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.RequestID))
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.MaxCount))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.MaxSize))
	if r.Flags&FlagFence != 0 {
		dst = append(dst, r.MasterKey[:]...)
	}
	return dst
}
