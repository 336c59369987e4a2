//go:build interop

package interop

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// payload is that of entry index of a test's ledger: java/Payload.java makes
// the same.
func payload(seed, index int64, size int) []byte {
	b := make([]byte, (size+7)/8*8)
	x := uint64(seed)*0x9E3779B97F4A7C15 + uint64(index)*0xBF58476D1CE4E5B9 + 1
	for i := 0; i < len(b); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(b[i:], x)
	}
	return b[:size]
}

func sum(payload []byte) string {
	s := sha256.Sum256(payload)
	return hex.EncodeToString(s[:])
}

// entry is what a client read.
type entry struct {
	ID   int64  `json:"id"`
	Size int    `json:"size"`
	Sum  string `json:"sum"` // SHA-256 of the payload
}

func wantEntry(seed, id int64, size int) entry {
	return entry{ID: id, Size: size, Sum: sum(payload(seed, id, size))}
}
