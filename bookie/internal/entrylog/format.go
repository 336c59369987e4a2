package entrylog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/loglode/loglode/bookie/bk"
)

// LogID numbers the entry logs of one ledger directory from 1.
type LogID uint32

// On disk: do not change.
const (
	headerSize       = 32
	recordHeaderSize = 8
	trailerSize      = 24
	footerRowSize    = 16
	headerMagic      = 0x4c4c454c // "LLEL"
	footerMagic      = 0x4c4c4546 // "LLEF"
	formatVersion    = 1
	bodySizeMax      = 64 << 20
)

// RecordOverhead is what a record takes beyond its body, in bytes.
const RecordOverhead = recordHeaderSize

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendHeader(dst []byte, log LogID) []byte {
	var h [headerSize]byte
	binary.BigEndian.PutUint32(h[4:], headerMagic)
	binary.BigEndian.PutUint32(h[8:], formatVersion)
	binary.BigEndian.PutUint32(h[12:], uint32(log))
	binary.BigEndian.PutUint32(h[:], crc32.Checksum(h[4:], castagnoli))
	return append(dst, h[:]...)
}

func checkHeader(b []byte, log LogID) error {
	switch {
	case len(b) < headerSize,
		binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:headerSize], castagnoli),
		binary.BigEndian.Uint32(b[4:]) != headerMagic,
		binary.BigEndian.Uint32(b[12:]) != uint32(log):
		return &bk.CorruptError{Where: fileName(log), Offset: 0, Want: fmt.Sprintf("the header of entry log %d", log),
			Got: fmt.Sprintf("%x", b)}
	case binary.BigEndian.Uint32(b[8:]) != formatVersion:
		return fmt.Errorf("%s: entry log format version %d: this program reads version %d",
			fileName(log), binary.BigEndian.Uint32(b[8:]), formatVersion)
	}
	return nil
}

// recordCRC is the crc of a record at off; rest is size and body. scratch is
// memory of the caller, so that none is allocated.
func recordCRC(scratch *[12]byte, log LogID, off int64, rest []byte) uint32 {
	binary.BigEndian.PutUint32(scratch[:], uint32(log))
	binary.BigEndian.PutUint64(scratch[4:], uint64(off))
	return crc32.Update(crc32.Checksum(scratch[:], castagnoli), castagnoli, rest)
}

// appendRecord appends the record of body that will lie at off.
func appendRecord(dst []byte, scratch *[12]byte, log LogID, off int64, body []byte) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(body)))
	dst = append(dst, body...)
	binary.BigEndian.PutUint32(dst[at:], recordCRC(scratch, log, off, dst[at+4:]))
	return dst
}

// parseRecord checks the record at the start of b, which lies at off, and
// gives its body, which points into b.
func parseRecord(b []byte, log LogID, off int64) ([]byte, error) {
	if len(b) < recordHeaderSize {
		return nil, recordCorrupt(log, off, "a record", fmt.Sprintf("%d bytes", len(b)))
	}
	n := binary.BigEndian.Uint32(b[4:])
	if n < bk.MinBodySize || n > bodySizeMax || int64(n) > int64(len(b)-recordHeaderSize) {
		return nil, recordCorrupt(log, off, fmt.Sprintf("a record within %d bytes", len(b)), fmt.Sprintf("size %d", n))
	}
	size := recordHeaderSize + int(n)
	var scratch [12]byte
	if want, got := binary.BigEndian.Uint32(b), recordCRC(&scratch, log, off, b[4:size]); want != got {
		return nil, recordCorrupt(log, off, fmt.Sprintf("crc %08x", want), fmt.Sprintf("crc %08x", got))
	}
	return b[recordHeaderSize:size], nil
}

func recordCorrupt(log LogID, off int64, want, got string) error {
	return &bk.CorruptError{Where: fileName(log), Offset: off, Want: want, Got: got}
}

// LedgerBytes says how much of an entry log belongs to a ledger.
type LedgerBytes struct {
	Ledger bk.LedgerID
	Bytes  int64
}

func appendFooter(dst []byte, off int64, rows []LedgerBytes) []byte {
	at := len(dst)
	for _, r := range rows {
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Ledger))
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Bytes))
	}
	crcAt := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, footerMagic)
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(rows)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(off))
	crc := crc32.Update(crc32.Checksum(dst[at:crcAt], castagnoli), castagnoli, dst[crcAt+4:])
	binary.BigEndian.PutUint32(dst[crcAt:], crc)
	return dst
}

// parseTrailer reads the end of a file of size bytes; ok is false if it has no
// footer.
func parseTrailer(b []byte, size int64) (off int64, count uint64, ok bool) {
	if len(b) < trailerSize || binary.BigEndian.Uint32(b[4:]) != footerMagic {
		return 0, 0, false
	}
	count, off = binary.BigEndian.Uint64(b[8:]), int64(binary.BigEndian.Uint64(b[16:]))
	if off < headerSize || count > uint64(size)/footerRowSize || off+int64(count)*footerRowSize+trailerSize != size {
		return 0, 0, false
	}
	return off, count, true
}

// parseFooter takes a whole footer, trailer included.
func parseFooter(b []byte, count uint64) ([]LedgerBytes, bool) {
	crcAt := int(count) * footerRowSize
	if len(b) != crcAt+trailerSize {
		return nil, false
	}
	crc := crc32.Update(crc32.Checksum(b[:crcAt], castagnoli), castagnoli, b[crcAt+4:])
	if binary.BigEndian.Uint32(b[crcAt:]) != crc {
		return nil, false
	}
	rows := make([]LedgerBytes, count)
	for i := range rows {
		rows[i].Ledger = bk.LedgerID(binary.BigEndian.Uint64(b[i*footerRowSize:]))
		rows[i].Bytes = int64(binary.BigEndian.Uint64(b[i*footerRowSize+8:]))
	}
	return rows, true
}
