package bk

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// What verifies as an entry is what the digester itself would have written
// about it; a digest of another type or password does not verify.
func FuzzVerifyEntry(f *testing.F) {
	for _, g := range readGolden[goldenEntry](f, "entry_bodies.json") {
		f.Add(uint8(g.digester(f).Type()-1), unhex(f, g.BodyHex), int64(g.LedgerID), int64(g.EntryID))
	}
	f.Fuzz(func(t *testing.T, typ uint8, body []byte, l, e int64) {
		d, err := NewDigester(DigestType(typ%4+1), []byte("secret"))
		require.NoError(t, err)
		before := bytes.Clone(body)
		got, err := d.Verify(body, LedgerID(l), EntryID(e))
		require.Equal(t, before, body, "the body was written to")
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		if got.Ledger != LedgerID(l) || EntryID(e) != InvalidEntryID && got.ID != EntryID(e) {
			t.Fatalf("asked for %d %d, got %+v", l, e, got)
		}
		if again := d.AppendEntry(nil, got.Ledger, got.ID, got.LAC, got.Length, got.Payload); !bytes.Equal(again, body) {
			t.Fatalf("%x verifies, and would be written as %x", body, again)
		}
	})
}

func FuzzVerifyLAC(f *testing.F) {
	for _, g := range readGolden[goldenEntry](f, "entry_bodies.json") {
		f.Add(uint8(g.digester(f).Type()-1), unhex(f, g.ExplicitLacBodyHex), int64(g.LedgerID))
	}
	f.Fuzz(func(t *testing.T, typ uint8, body []byte, l int64) {
		d, err := NewDigester(DigestType(typ%4+1), []byte("secret"))
		require.NoError(t, err)
		lac, err := d.VerifyLAC(body, LedgerID(l))
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		if again := d.AppendLAC(nil, LedgerID(l), lac); !bytes.Equal(again, body) {
			t.Fatalf("%x verifies, and would be written as %x", body, again)
		}
	})
}
