package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/loglode/loglode/bookie/bk"
)

// LSN is a position in a journal, in bytes.
type LSN uint64

// Type tells records apart.
type Type uint8

// Record types. On disk: do not renumber.
const (
	TypeAdd   Type = 1 // body of an entry
	TypeKey   Type = 2 // ledger 8B, master key
	TypeFence Type = 3 // ledger 8B
	TypeLAC   Type = 4 // body of an explicit LAC
)

// On disk: do not change.
const (
	blockSize        = 4096
	fileMagic        = 0x4c4c4a46 // "LLJF"
	groupMagic       = 0x4c4c4a47 // "LLJG"
	formatVersion    = 1
	fileHeaderSize   = 48
	groupHeaderSize  = 24
	recordHeaderSize = 20
	bodySizeMax      = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func alignUp(n LSN) LSN { return (n + blockSize - 1) &^ (blockSize - 1) }

func seal(b []byte) { binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli)) }

func sealed(b []byte) bool { return binary.BigEndian.Uint32(b) == crc32.Checksum(b[4:], castagnoli) }

// fileHeader is the first block of a file.
type fileHeader struct {
	seq     uint64
	start   LSN    // LSN of the first group
	prevSeq uint64 // the file before, 0 for none
	prevEnd LSN    // where the records of the file before end
}

func (h fileHeader) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, fileMagic)
	dst = binary.BigEndian.AppendUint32(dst, formatVersion)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, h.seq)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.start))
	dst = binary.BigEndian.AppendUint64(dst, h.prevSeq)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.prevEnd))
	seal(dst[at:])
	return dst
}

// parseFileHeader gives ok=false for anything but a whole header; err is for a
// good header of a format version that is not known.
func parseFileHeader(b []byte) (h fileHeader, ok bool, err error) {
	if len(b) < fileHeaderSize || !sealed(b[:fileHeaderSize]) || binary.BigEndian.Uint32(b[4:]) != fileMagic {
		return h, false, nil
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != formatVersion {
		return h, false, fmt.Errorf("journal format version %d: this program reads version %d", v, formatVersion)
	}
	h.seq = binary.BigEndian.Uint64(b[16:])
	h.start = LSN(binary.BigEndian.Uint64(b[24:]))
	h.prevSeq = binary.BigEndian.Uint64(b[32:])
	h.prevEnd = LSN(binary.BigEndian.Uint64(b[40:]))
	return h, true, nil
}

// groupHeader starts each group, at a multiple of 4096 bytes.
type groupHeader struct {
	lsn   LSN
	size  uint32 // bytes of header and records, without the zeros behind
	count uint32 // records
}

func (h groupHeader) put(b []byte) {
	binary.BigEndian.PutUint32(b[4:], groupMagic)
	binary.BigEndian.PutUint64(b[8:], uint64(h.lsn))
	binary.BigEndian.PutUint32(b[16:], h.size)
	binary.BigEndian.PutUint32(b[20:], h.count)
	seal(b[:groupHeaderSize])
}

func parseGroupHeader(b []byte) (h groupHeader, ok bool) {
	if len(b) < groupHeaderSize || binary.BigEndian.Uint32(b[4:]) != groupMagic || !sealed(b[:groupHeaderSize]) {
		return h, false
	}
	h.lsn = LSN(binary.BigEndian.Uint64(b[8:]))
	h.size = binary.BigEndian.Uint32(b[16:])
	h.count = binary.BigEndian.Uint32(b[20:])
	return h, h.size >= groupHeaderSize
}

// appendRecord appends a record whose first byte is at LSN lsn.
func appendRecord(dst []byte, lsn LSN, t Type, body []byte) []byte {
	at := len(dst)
	var h [recordHeaderSize]byte
	binary.BigEndian.PutUint32(h[4:], uint32(len(body)))
	binary.BigEndian.PutUint64(h[8:], uint64(lsn))
	h[16] = byte(t)
	dst = append(dst, h[:]...)
	dst = append(dst, body...)
	seal(dst[at:])
	return dst
}

// parseRecord takes the record at the start of b, which must be the one at
// LSN lsn. body points into b. ok is false for anything but a whole, good
// record.
func parseRecord(b []byte, lsn LSN) (t Type, body []byte, size int, ok bool) {
	if len(b) < recordHeaderSize {
		return 0, nil, 0, false
	}
	n := binary.BigEndian.Uint32(b[4:])
	if n > bodySizeMax || int64(n) > int64(len(b)-recordHeaderSize) || LSN(binary.BigEndian.Uint64(b[8:])) != lsn {
		return 0, nil, 0, false
	}
	size = recordHeaderSize + int(n)
	if !sealed(b[:size]) {
		return 0, nil, 0, false
	}
	return Type(b[16]), b[recordHeaderSize:size], size, true
}

// BodyLedger is the ledger that a record is about: every body starts with it.
func BodyLedger(body []byte) (bk.LedgerID, bool) {
	if len(body) < 8 {
		return bk.InvalidLedgerID, false
	}
	return bk.LedgerID(binary.BigEndian.Uint64(body)), true
}
