package stream

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// DLSN is the place of a record: segment sequence number, entry id in the
// segment's ledger, slot in the entry. DLSNs of a stream rise with its records;
// they are not consecutive.
type DLSN struct {
	Segment, Entry, Slot int64
}

// Special DLSNs.
var (
	// InitialDLSN is the least DLSN that a record can have.
	InitialDLSN = DLSN{Segment: 1}
	// BeforeFirstDLSN is before every record.
	BeforeFirstDLSN = DLSN{Segment: 1, Slot: -1}
	// InvalidDLSN stands for "no DLSN".
	InvalidDLSN = DLSN{Entry: -1, Slot: -1}
)

// DLSNSize is the size in bytes of MarshalBinary.
const DLSNSize = 25

const (
	dlsnVersion0     = 0   // on disk: do not renumber
	dlsnVersion1     = 1   // on disk: do not renumber
	dlsnVersion0Size = 200 // 25 bytes and 175 zeros
)

// Compare orders by segment, then entry, then slot: -1, 0 or 1.
func (d DLSN) Compare(o DLSN) int {
	return cmp.Or(cmp.Compare(d.Segment, o.Segment), cmp.Compare(d.Entry, o.Entry), cmp.Compare(d.Slot, o.Slot))
}

// Less reports whether d is before o.
func (d DLSN) Less(o DLSN) bool { return d.Compare(o) < 0 }

// Valid reports whether d can be the DLSN of a record: no number is negative
// and the segment is not 0, unless the stream is of DistributedLog's first
// layout, which has no segment numbers.
func (d DLSN) Valid() bool { return d.Segment > 0 && d.Entry >= 0 && d.Slot >= 0 }

// Next is the position just after d: the next slot.
func (d DLSN) Next() DLSN { d.Slot++; return d }

// NextSegment is the position of the first record of the next segment.
func (d DLSN) NextSegment() DLSN { return DLSN{Segment: d.Segment + 1} }

// String is the form for people, "segment:entry:slot".
func (d DLSN) String() string { return string(d.AppendText(nil)) }

// AppendText appends the form for people to dst.
func (d DLSN) AppendText(dst []byte) []byte {
	dst = strconv.AppendInt(dst, d.Segment, 10)
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, d.Entry, 10)
	dst = append(dst, ':')
	return strconv.AppendInt(dst, d.Slot, 10)
}

// MarshalText gives the form for people, "1:20:0".
func (d DLSN) MarshalText() ([]byte, error) { return d.AppendText(nil), nil }

// UnmarshalText takes what ParseDLSN takes.
func (d *DLSN) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDLSN(string(text))
	return err
}

// AppendBinary appends the DLSNSize bytes of version 1 to dst.
func (d DLSN) AppendBinary(dst []byte) ([]byte, error) {
	dst = append(dst, dlsnVersion1)
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.Segment))
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.Entry))
	return binary.BigEndian.AppendUint64(dst, uint64(d.Slot)), nil
}

// MarshalBinary gives the DLSNSize bytes of version 1.
func (d DLSN) MarshalBinary() ([]byte, error) { return d.AppendBinary(make([]byte, 0, DLSNSize)) }

// UnmarshalBinary takes version 1 (25 bytes) and version 0 (200 bytes). It
// fails with ErrInvalidDLSN.
func (d *DLSN) UnmarshalBinary(b []byte) error {
	switch {
	case len(b) == 0:
		return fmt.Errorf("no bytes: %w", ErrInvalidDLSN)
	case b[0] != dlsnVersion0 && b[0] != dlsnVersion1:
		return fmt.Errorf("version %d, want 0 or 1: %w", b[0], ErrInvalidDLSN)
	case b[0] == dlsnVersion1 && len(b) != DLSNSize:
		return fmt.Errorf("version 1 in %d bytes, want %d: %w", len(b), DLSNSize, ErrInvalidDLSN)
	case b[0] == dlsnVersion0 && len(b) != dlsnVersion0Size:
		return fmt.Errorf("version 0 in %d bytes, want %d: %w", len(b), dlsnVersion0Size, ErrInvalidDLSN)
	}
	d.Segment = int64(binary.BigEndian.Uint64(b[1:]))
	d.Entry = int64(binary.BigEndian.Uint64(b[9:]))
	d.Slot = int64(binary.BigEndian.Uint64(b[17:]))
	return nil
}

// Base64 is the form that DistributedLog stores and sends: 36 characters.
func (d DLSN) Base64() string {
	var buf [DLSNSize]byte
	b, _ := d.AppendBinary(buf[:0]) // cannot fail
	return base64.StdEncoding.EncodeToString(b)
}

// ParseDLSN takes "segment:entry:slot", and base64 of MarshalBinary in the
// standard or the URL alphabet, with or without padding. It fails with
// ErrInvalidDLSN.
func ParseDLSN(s string) (DLSN, error) {
	if strings.Contains(s, ":") {
		return parseDLSNNumbers(s)
	}
	b, err := decodeBase64(s)
	if err != nil {
		return DLSN{}, fmt.Errorf("DLSN %q: want segment:entry:slot, or base64: %w", shorten(s), ErrInvalidDLSN)
	}
	var d DLSN
	if err := d.UnmarshalBinary(b); err != nil {
		return DLSN{}, fmt.Errorf("DLSN %q: %w", shorten(s), err)
	}
	return d, nil
}

func parseDLSNNumbers(s string) (DLSN, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return DLSN{}, fmt.Errorf("DLSN %q: want three numbers segment:entry:slot: %w", shorten(s), ErrInvalidDLSN)
	}
	var n [3]int64
	for i, p := range parts {
		v, err := strconv.ParseInt(p, 10, 64)
		if err != nil || p[0] == '+' {
			return DLSN{}, fmt.Errorf("DLSN %q: %q is not a 64-bit decimal number: %w", shorten(s), shorten(p), ErrInvalidDLSN)
		}
		n[i] = v
	}
	return DLSN{n[0], n[1], n[2]}, nil
}

// decodeBase64 is lenient in the ways that DistributedLog's decoder is and that
// cannot hide a slip: both alphabets, padding optional.
func decodeBase64(s string) ([]byte, error) {
	raw := bytes.TrimRight([]byte(s), "=")
	for i, c := range raw {
		switch c {
		case '-':
			raw[i] = '+'
		case '_':
			raw[i] = '/'
		}
	}
	return base64.RawStdEncoding.DecodeString(string(raw))
}
