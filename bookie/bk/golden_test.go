package bk

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func readGolden[T any](t testing.TB, name string) []T {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var rows []T
	require.NoError(t, json.Unmarshal(b, &rows))
	require.NotEmpty(t, rows)
	return rows
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestGoldenMasterKeys(t *testing.T) {
	type row struct {
		Name, PasswordHex, MasterKeyHex, MacKeyHex string
	}
	for _, r := range readGolden[row](t, "master_keys.json") {
		password := unhex(t, r.PasswordHex)
		key := MasterKey(password)
		require.Equal(t, r.MasterKeyHex, hex.EncodeToString(key[:]), r.Name)
		d, err := NewDigester(DigestHMAC, password)
		require.NoError(t, err)
		require.Equal(t, r.MacKeyHex, hex.EncodeToString(d.macKey[:]), r.Name)
	}
}

type goldenEntry struct {
	Name               string
	DigestType         string
	LedgerID           LedgerID
	EntryID            EntryID
	LAC                EntryID
	Length             int64
	PasswordUtf8       string
	PayloadHex         string
	BodyHex            string
	ExplicitLacBodyHex string
}

func (g goldenEntry) digester(t testing.TB) *Digester {
	name := strings.ToLower(g.DigestType)
	if name == "dummy" {
		name = "none"
	}
	typ, err := ParseDigestType(name)
	require.NoError(t, err)
	d, err := NewDigester(typ, []byte(g.PasswordUtf8))
	require.NoError(t, err)
	return d
}

func TestGoldenEntryBodies(t *testing.T) {
	for _, g := range readGolden[goldenEntry](t, "entry_bodies.json") {
		d, payload := g.digester(t), unhex(t, g.PayloadHex)
		body := d.AppendEntry(nil, g.LedgerID, g.EntryID, g.LAC, g.Length, payload)
		require.Equal(t, g.BodyHex, hex.EncodeToString(body), g.Name)
		require.Equal(t, d.Overhead(), len(body)-len(payload), g.Name)

		got, err := d.Verify(unhex(t, g.BodyHex), g.LedgerID, g.EntryID)
		require.NoError(t, err, g.Name)
		want := Entry{Ledger: g.LedgerID, ID: g.EntryID, LAC: g.LAC, Length: g.Length, Payload: payload}
		require.Equal(t, want, got, g.Name)
		_, err = d.Verify(body, g.LedgerID, InvalidEntryID) // last-entry read
		require.NoError(t, err, g.Name)
		require.Equal(t, g.LedgerID, BodyLedger(body))
		require.Equal(t, g.EntryID, BodyEntry(body))
		require.Equal(t, g.LAC, BodyLAC(body))

		lac := d.AppendLAC(nil, g.LedgerID, g.LAC)
		require.Equal(t, g.ExplicitLacBodyHex, hex.EncodeToString(lac), g.Name)
		gotLAC, err := d.VerifyLAC(lac, g.LedgerID)
		require.NoError(t, err, g.Name)
		require.Equal(t, g.LAC, gotLAC, g.Name)
	}
}

// Each flipped bit of an entry is found, wherever a digest can find it.
func TestVerifyFindsDamage(t *testing.T) {
	for _, g := range readGolden[goldenEntry](t, "entry_bodies.json") {
		d, body := g.digester(t), unhex(t, g.BodyHex)
		if len(body) > 200 {
			continue // the others show it
		}
		for i := range body {
			body[i] ^= 1
			_, err := d.Verify(body, g.LedgerID, g.EntryID)
			if d.Type() == DigestDummy && i >= 16 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrCorrupt, "%s, byte %d", g.Name, i)
			}
			body[i] ^= 1
		}
		_, err := d.Verify(body, g.LedgerID+1, g.EntryID)
		require.ErrorIs(t, err, ErrCorrupt)
		_, err = d.Verify(body, g.LedgerID, g.EntryID+1)
		require.ErrorIs(t, err, ErrCorrupt)
		_, err = d.Verify(body[:d.Overhead()-1], g.LedgerID, g.EntryID)
		require.ErrorIs(t, err, ErrCorrupt)
		_, err = d.VerifyLAC(unhex(t, g.ExplicitLacBodyHex), g.LedgerID+1)
		require.ErrorIs(t, err, ErrCorrupt)
	}
}

// Wire codes and errors are one table; a code of either version leads back.
func TestStatusTableBothWays(t *testing.T) {
	for s := range statusCount {
		got, ok := StatusFromV3(s.V3())
		require.True(t, ok)
		require.Equal(t, s, got)
		got, ok = StatusFromV2(s.V2())
		require.True(t, ok)
		if s == StatusUnknownLedgerState {
			require.Equal(t, StatusIO, got, "a v2 client never sees 107")
		} else {
			require.Equal(t, s, got)
		}
		require.Equal(t, s == StatusOK, s.Err() == nil, s.String())
		require.Equal(t, s == StatusNoLedger || s == StatusNoEntry, s.Missing())
	}
	got, ok := StatusFromV2(107)
	require.True(t, ok)
	require.Equal(t, StatusUnknownLedgerState, got)
	_, ok = StatusFromV2(77)
	require.False(t, ok)
	_, ok = StatusFromV3(77)
	require.False(t, ok)
}
