package bk

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// HeaderSize is the size in bytes of an entry body in front of its digest.
const HeaderSize = 32

// MinBodySize is the least a bookie accepts as an entry body: ledger id, entry
// id and LAC.
const MinBodySize = 24

// lacHeaderSize is the size in bytes of an explicit-LAC body in front of its
// digest: ledger id and LAC.
const lacHeaderSize = 16

// MasterKeySize is the size in bytes of a ledger's master key.
const MasterKeySize = sha1.Size

// MasterKey derives the key that adds and fencing reads carry, the same for
// every digest type. The password itself never goes to a bookie.
func MasterKey(password []byte) [MasterKeySize]byte {
	return sha1.Sum(append([]byte("ledger"), password...))
}

// DigestType says how an entry proves its content.
type DigestType uint8

// Digest types, numbered as in BookKeeper's ledger metadata: do not renumber.
const (
	DigestCRC32  DigestType = 1
	DigestHMAC   DigestType = 2
	DigestCRC32C DigestType = 3
	DigestDummy  DigestType = 4
)

var digestNames = map[DigestType]string{
	DigestCRC32: "crc32", DigestHMAC: "hmac", DigestCRC32C: "crc32c", DigestDummy: "none",
}

func (t DigestType) String() string {
	if n, ok := digestNames[t]; ok {
		return n
	}
	return fmt.Sprintf("DigestType(%d)", uint8(t))
}

// ParseDigestType takes crc32c, crc32, hmac or none.
func ParseDigestType(s string) (DigestType, error) {
	for t, n := range digestNames {
		if n == s {
			return t, nil
		}
	}
	return 0, fmt.Errorf("digest %q: want crc32c, crc32, hmac or none: %w", s, ErrInvalidDigest)
}

// Size is the number of digest bytes in an entry.
func (t DigestType) Size() int {
	switch t {
	case DigestCRC32:
		return 8
	case DigestHMAC:
		return sha1.Size
	case DigestCRC32C:
		return 4
	default:
		return 0
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Digester frames and verifies the entries of ledgers with one digest type and
// password. It has no state that changes: any number of goroutines may use it.
type Digester struct {
	typ    DigestType
	macKey [sha1.Size]byte
}

// NewDigester refuses an unknown digest type with ErrInvalidDigest. The
// password matters to DigestHMAC alone; it is not kept.
func NewDigester(t DigestType, password []byte) (*Digester, error) {
	if _, ok := digestNames[t]; !ok {
		return nil, fmt.Errorf("digest type %d: %w", t, ErrInvalidDigest)
	}
	return &Digester{typ: t, macKey: sha1.Sum(append([]byte("mac"), password...))}, nil
}

// Type is the digest type.
func (d *Digester) Type() DigestType { return d.typ }

// Overhead is the number of bytes in an entry body that are not payload.
func (d *Digester) Overhead() int { return HeaderSize + d.typ.Size() }

// AppendEntry appends the body of an entry to dst. length counts the payload
// bytes of the ledger up to and including this entry. payload is not kept.
func (d *Digester) AppendEntry(dst []byte, l LedgerID, e, lac EntryID, length int64, payload []byte) []byte {
	dst = d.AppendEntryHeader(dst, l, e, lac, length, payload)
	return append(dst, payload...)
}

// AppendEntryHeader appends all of an entry body but the payload, for callers
// that send the payload from where it lies.
func (d *Digester) AppendEntryHeader(dst []byte, l LedgerID, e, lac EntryID, length int64, payload []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(l))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e))
	dst = binary.BigEndian.AppendUint64(dst, uint64(lac))
	dst = binary.BigEndian.AppendUint64(dst, uint64(length))
	return d.appendDigest(dst, dst[start:], payload)
}

// AppendLAC appends the body of an explicit LAC: ledger, LAC and their digest.
func (d *Digester) AppendLAC(dst []byte, l LedgerID, lac EntryID) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(l))
	dst = binary.BigEndian.AppendUint64(dst, uint64(lac))
	return d.appendDigest(dst, dst[start:], nil)
}

func (d *Digester) appendDigest(dst, header, payload []byte) []byte {
	switch d.typ {
	case DigestCRC32C:
		sum := crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, payload)
		return binary.BigEndian.AppendUint32(dst, sum)
	case DigestCRC32:
		sum := crc32.Update(crc32.ChecksumIEEE(header), crc32.IEEETable, payload)
		return binary.BigEndian.AppendUint64(dst, uint64(sum))
	case DigestHMAC:
		mac := hmac.New(sha1.New, d.macKey[:])
		mac.Write(header)
		mac.Write(payload)
		return mac.Sum(dst)
	default:
		return dst
	}
}

// Entry is a verified entry body. Payload points into the body.
type Entry struct {
	Ledger  LedgerID
	ID      EntryID
	LAC     EntryID // last add confirmed when the writer built the entry; copies may differ in it
	Length  int64   // payload bytes of entries 0 to this one
	Payload []byte
}

// Verify checks an entry body that was asked for as (l, e) and gives its
// parts. e is InvalidEntryID for a last-entry read, which takes any id. Every
// failure is a *CorruptError.
func (d *Digester) Verify(body []byte, l LedgerID, e EntryID) (Entry, error) {
	over := d.Overhead()
	if len(body) < over {
		return Entry{}, entryCorrupt(l, e, "size", fmt.Sprintf("at least %d bytes", over), fmt.Sprint(len(body)))
	}
	header, payload := body[:HeaderSize], body[over:]
	if !d.matches(header, payload, body[HeaderSize:over]) {
		want := d.appendDigest(nil, header, payload)
		return Entry{}, entryCorrupt(l, e, "digest", fmt.Sprintf("%x", want), fmt.Sprintf("%x", body[HeaderSize:over]))
	}
	ent := Entry{
		Ledger:  LedgerID(binary.BigEndian.Uint64(header)),
		ID:      EntryID(binary.BigEndian.Uint64(header[8:])),
		LAC:     EntryID(binary.BigEndian.Uint64(header[16:])),
		Length:  int64(binary.BigEndian.Uint64(header[24:])),
		Payload: payload,
	}
	if ent.Ledger != l {
		return Entry{}, entryCorrupt(l, e, "ledger id", l.String(), ent.Ledger.String())
	}
	if e != InvalidEntryID && ent.ID != e {
		return Entry{}, entryCorrupt(l, e, "entry id", e.String(), ent.ID.String())
	}
	return ent, nil
}

// matches reports whether digest is that of header and payload. It allocates
// nothing for the checksums.
func (d *Digester) matches(header, payload, digest []byte) bool {
	switch d.typ {
	case DigestCRC32C:
		sum := crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, payload)
		return binary.BigEndian.Uint32(digest) == sum
	case DigestCRC32:
		sum := crc32.Update(crc32.ChecksumIEEE(header), crc32.IEEETable, payload)
		return binary.BigEndian.Uint64(digest) == uint64(sum)
	default:
		return subtle.ConstantTimeCompare(d.appendDigest(nil, header, payload), digest) == 1
	}
}

// VerifyLAC checks the body of an explicit LAC and gives the LAC.
func (d *Digester) VerifyLAC(body []byte, l LedgerID) (EntryID, error) {
	if len(body) != lacHeaderSize+d.typ.Size() {
		return InvalidEntryID, entryCorrupt(l, InvalidEntryID, "LAC size",
			fmt.Sprintf("%d bytes", lacHeaderSize+d.typ.Size()), fmt.Sprint(len(body)))
	}
	var buf [sha1.Size]byte
	want := d.appendDigest(buf[:0], body[:lacHeaderSize], nil)
	if subtle.ConstantTimeCompare(want, body[lacHeaderSize:]) != 1 {
		return InvalidEntryID, entryCorrupt(l, InvalidEntryID, "LAC digest",
			fmt.Sprintf("%x", want), fmt.Sprintf("%x", body[lacHeaderSize:]))
	}
	if got := LedgerID(binary.BigEndian.Uint64(body)); got != l {
		return InvalidEntryID, entryCorrupt(l, InvalidEntryID, "LAC ledger id", l.String(), got.String())
	}
	return EntryID(binary.BigEndian.Uint64(body[8:])), nil
}

func entryCorrupt(l LedgerID, e EntryID, field, want, got string) error {
	return &CorruptError{Where: fmt.Sprintf("ledger %d entry %d, %s", l, e, field), Offset: -1, Want: want, Got: got}
}

// BodyLedger, BodyEntry and BodyLAC read the three fields a bookie looks at in
// an entry body of at least MinBodySize bytes.
func BodyLedger(body []byte) LedgerID { return LedgerID(binary.BigEndian.Uint64(body)) }

// BodyEntry is the entry id in an entry body.
func BodyEntry(body []byte) EntryID { return EntryID(binary.BigEndian.Uint64(body[8:])) }

// BodyLAC is the LAC in an entry body.
func BodyLAC(body []byte) EntryID { return EntryID(binary.BigEndian.Uint64(body[16:])) }
