package bk

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bytes 0 to 31, the digest over them and the payload, the payload; a digest
// of 8, 20, 4 and 0 bytes.
func TestWire8_EntryBody(t *testing.T) {
	payload := []byte("the payload")
	macKey := sha1.Sum([]byte("mac" + "secret"))
	for typ, digest := range map[DigestType]func(covered []byte) []byte{
		DigestCRC32: func(b []byte) []byte {
			return binary.BigEndian.AppendUint64(nil, uint64(crc32.ChecksumIEEE(b)))
		},
		DigestHMAC: func(b []byte) []byte {
			h := hmac.New(sha1.New, macKey[:])
			h.Write(b)
			return h.Sum(nil)
		},
		DigestCRC32C: func(b []byte) []byte {
			return binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
		},
		DigestDummy: func([]byte) []byte { return nil },
	} {
		d, err := NewDigester(typ, []byte("secret"))
		require.NoError(t, err)
		body := d.AppendEntry(nil, 7, 3, -1, 400, payload)
		require.Equal(t, int64(7), int64(binary.BigEndian.Uint64(body)))
		require.Equal(t, int64(3), int64(binary.BigEndian.Uint64(body[8:])))
		require.Equal(t, int64(-1), int64(binary.BigEndian.Uint64(body[16:])))
		require.Equal(t, int64(400), int64(binary.BigEndian.Uint64(body[24:])))
		start := map[DigestType]int{DigestCRC32: 40, DigestHMAC: 52, DigestCRC32C: 36, DigestDummy: 32}[typ]
		require.Equal(t, string(payload), string(body[start:]), typ)
		covered := append(append([]byte(nil), body[:32]...), payload...)
		require.Equal(t, string(digest(covered)), string(body[32:start]), typ)

		lac := d.AppendLAC(nil, 7, 2)
		require.Equal(t, append(append([]byte(nil), lac[:16]...), digest(lac[:16])...), lac)
		require.Len(t, lac, map[DigestType]int{DigestCRC32: 24, DigestHMAC: 36, DigestCRC32C: 20, DigestDummy: 16}[typ])
	}
}

// What a reader checks: size, digest, ledger, and the entry id unless it asked
// for the last one.
func TestWire8_Verify(t *testing.T) {
	for _, typ := range []DigestType{DigestCRC32, DigestHMAC, DigestCRC32C, DigestDummy} {
		d, err := NewDigester(typ, []byte("secret"))
		require.NoError(t, err)
		body := d.AppendEntry(nil, 7, 3, 9, 0, nil) // an empty payload, a LAC above the id
		got, err := d.Verify(body, 7, 3)
		require.NoError(t, err)
		require.Equal(t, EntryID(9), got.LAC)
		_, err = d.Verify(body, 7, InvalidEntryID)
		require.NoError(t, err)
		_, err = d.Verify(body, 7, 4)
		require.ErrorIs(t, err, ErrCorrupt)
		_, err = d.Verify(body, 8, 3)
		require.ErrorIs(t, err, ErrCorrupt)
		_, err = d.Verify(body, 8, InvalidEntryID)
		require.ErrorIs(t, err, ErrCorrupt)
		for n := range body {
			_, err = d.Verify(body[:n], 7, 3)
			require.ErrorIs(t, err, ErrCorrupt)
		}
	}
}

// The master key is SHA1("ledger" + password), for every digest type and also
// without a password.
func TestWire8_MasterKey(t *testing.T) {
	require.Equal(t, sha1.Sum([]byte("ledger")), MasterKey(nil))
	require.Equal(t, sha1.Sum([]byte("ledgersecret")), MasterKey([]byte("secret")))
}
