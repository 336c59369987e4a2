package index

import (
	"encoding/binary"
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/entrylog"
)

// On disk: do not change.
const (
	prefixExtent  = 'e'
	prefixState   = 's'
	prefixMark    = 'm'
	extentKeySize = 1 + 8 + 8 + 4 + 8
	flagEqual     = 1
	flagDense     = 2
	countMax      = 256
	spanMax       = 1024
)

const signBit = 1 << 63

func appendID[T bk.LedgerID | bk.EntryID](dst []byte, id T) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(id)^signBit)
}

// extent is a run of entries. Entry i lies at off plus what the ones before it
// take.
type extent struct {
	ledger bk.LedgerID
	log    entrylog.LogID
	off    int64
	ids    []bk.EntryID
	sizes  []uint32 // of the bodies
}

func (x *extent) appendKey(dst []byte) []byte {
	dst = append(dst, prefixExtent)
	dst = appendID(dst, x.ledger)
	dst = appendID(dst, x.ids[0])
	dst = binary.BigEndian.AppendUint32(dst, uint32(x.log))
	return binary.BigEndian.AppendUint64(dst, uint64(x.off))
}

func (x *extent) appendValue(dst []byte) []byte {
	equal, n := true, len(x.ids)
	for _, s := range x.sizes {
		equal = equal && s == x.sizes[0]
	}
	dense := int64(x.ids[n-1])-int64(x.ids[0]) == int64(n-1)
	var flags byte
	sizes := x.sizes
	if equal {
		flags |= flagEqual
		sizes = sizes[:1]
	}
	if dense {
		flags |= flagDense
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(n))
	for _, s := range sizes {
		dst = binary.AppendUvarint(dst, uint64(s))
	}
	if !dense {
		for i := 1; i < n; i++ {
			dst = binary.AppendUvarint(dst, uint64(x.ids[i]-x.ids[i-1]))
		}
	}
	return dst
}

// parse fills x from a key and a value; it keeps none of them.
func (x *extent) parse(key, value []byte) error {
	bad := func(what string) error {
		return &bk.CorruptError{Where: "index extent, " + what, Offset: -1, Want: "an extent", Got: fmt.Sprintf("key %x value %x", key, value)}
	}
	if len(key) != extentKeySize || key[0] != prefixExtent {
		return bad("key")
	}
	x.ledger = bk.LedgerID(binary.BigEndian.Uint64(key[1:]) ^ signBit)
	first := bk.EntryID(binary.BigEndian.Uint64(key[9:]) ^ signBit)
	x.log = entrylog.LogID(binary.BigEndian.Uint32(key[17:]))
	x.off = int64(binary.BigEndian.Uint64(key[21:]))
	if len(value) < 1 {
		return bad("flags")
	}
	flags, rest := value[0], value[1:]
	count, n := binary.Uvarint(rest)
	if n <= 0 || count == 0 || count > countMax {
		return bad("count")
	}
	rest = rest[n:]
	x.ids, x.sizes = append(x.ids[:0], first), x.sizes[:0]
	for i := range count {
		if flags&flagEqual != 0 && i > 0 {
			x.sizes = append(x.sizes, x.sizes[0])
			continue
		}
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > 1<<31 {
			return bad("sizes")
		}
		x.sizes, rest = append(x.sizes, uint32(v)), rest[n:]
	}
	for i := uint64(1); i < count; i++ {
		step := uint64(1)
		if flags&flagDense == 0 {
			v, n := binary.Uvarint(rest)
			if n <= 0 || v == 0 || v > spanMax {
				return bad("steps")
			}
			step, rest = v, rest[n:]
		}
		x.ids = append(x.ids, x.ids[i-1]+bk.EntryID(step))
	}
	if len(rest) != 0 {
		return bad("end")
	}
	return nil
}

// takes reports whether an entry can follow in x.
func (x *extent) takes(l bk.LedgerID, e bk.EntryID, log entrylog.LogID, off int64) bool {
	n := len(x.ids)
	return n > 0 && n < countMax && l == x.ledger && log == x.log && e > x.ids[n-1] &&
		uint64(e)-uint64(x.ids[0]) < spanMax && off == x.end()
}

func (x *extent) end() int64 {
	end := x.off
	for _, s := range x.sizes {
		end += int64(s) + entrylog.RecordOverhead
	}
	return end
}

// find gives where an entry lies, if it is in x.
func (x *extent) find(e bk.EntryID) (Place, bool) {
	off := x.off
	for i, id := range x.ids {
		if id == e {
			return Place{Log: x.log, Offset: off, Size: int(x.sizes[i])}, true
		}
		off += int64(x.sizes[i]) + entrylog.RecordOverhead
	}
	return Place{}, false
}
