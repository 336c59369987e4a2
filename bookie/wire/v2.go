package wire

import (
	"encoding/binary"

	"github.com/loglode/loglode/bookie/bk"
)

// Versions of the fixed protocol. A client sends V2Version; a bookie takes 0
// to V2Version and repeats the one it was sent.
const V2Version = 2

// Flags are the flag bits of a version 2 header. On the wire: do not renumber.
type Flags uint16

const (
	FlagFence        Flags = 0x1 // READ, BATCH_READ: fence the ledger first; a master key follows
	FlagRecoveryAdd  Flags = 0x2 // ADD: allowed on a fenced ledger
	FlagHighPriority Flags = 0x4 // any: recovery traffic; ADD: passes a read-only bookie's gate
)

// Sizes in bytes of the fixed parts of version 2 payloads.
const (
	headerSize        = 4
	idsSize           = 8 + 8
	addFixedSize      = headerSize + bk.MasterKeySize
	readFixedSize     = headerSize + idsSize
	batchFixedSize    = readFixedSize + 8 + 4 + 8
	answerFixedSize   = headerSize + 4 + idsSize
	batchAnswerFixed  = answerFixedSize + 8
	batchEntryPrefix  = 4
	maxSupportedV2Ver = V2Version
)

// AddRequestOverhead is what an add adds to an entry body: length prefix,
// header and master key.
const AddRequestOverhead = LengthSize + addFixedSize

// AddAnswerSize is the size of a whole add answer in bytes.
const AddAnswerSize = LengthSize + answerFixedSize

// ReadAnswerOverhead is what a read answer adds to an entry body.
const ReadAnswerOverhead = LengthSize + answerFixedSize

// BatchAnswerOverhead is what a batch read answer adds to its entries, and
// BatchEntryOverhead what each of its entries adds to the entry body. Both
// count towards BatchRead.MaxSize.
const (
	BatchAnswerOverhead = LengthSize + batchAnswerFixed
	BatchEntryOverhead  = batchEntryPrefix
)

// MaxEntryBody is the largest entry body, in bytes, that fits all frames that
// carry one, in both protocol versions, with slack.
const MaxEntryBody = MaxFrame - 256

// IsV3 reports whether a frame's payload is a version 3 message.
func IsV3(payload []byte) bool { return len(payload) > 0 && payload[0] == v3FirstByte }

// appendHeader appends the length prefix of a payload and its header.
func appendHeader(dst []byte, payloadSize int, version uint8, op Op, flags Flags) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(payloadSize))
	code := op.v2Code()
	if version == 0 {
		return binary.BigEndian.AppendUint32(dst, code)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(version)<<24|code<<16|uint32(flags))
}

// parseHeader takes a payload of at least headerSize bytes. op is 0 if the
// opcode has no codec.
func parseHeader(payload []byte) (version uint8, op Op, flags Flags) {
	h := binary.BigEndian.Uint32(payload)
	if version = uint8(h >> 24); version == 0 {
		return 0, opFromV2(h), 0
	}
	return version, opFromV2(h >> 16 & 0xff), Flags(h)
}

func appendIDs(dst []byte, l bk.LedgerID, e bk.EntryID) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(l))
	return binary.BigEndian.AppendUint64(dst, uint64(e))
}

func parseIDs(b []byte) (bk.LedgerID, bk.EntryID) {
	return bk.LedgerID(binary.BigEndian.Uint64(b)), bk.EntryID(binary.BigEndian.Uint64(b[8:]))
}
