package layout

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// hexBytes is a hex string in a vector.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

func vectors(t testing.TB, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

type ledgerVector struct {
	Name   string
	Hex    hexBytes
	Fields struct {
		FormatVersion, EnsembleSize, WriteQuorumSize, AckQuorumSize int
		State                                                       string
		LastEntryID                                                 bk.EntryID `json:"lastEntryId"`
		Length                                                      int64
		HasPassword                                                 bool
		PasswordHex                                                 hexBytes
		DigestType                                                  string
		CTime                                                       int64
		CToken                                                      int64
		CustomMetadataHex                                           map[string]hexBytes
		Segments                                                    []struct {
			FirstEntryID bk.EntryID `json:"firstEntryId"`
			Ensemble     []bk.BookieID
		}
	}
}

func (v ledgerVector) metadata() *LedgerMetadata {
	f := v.Fields
	m := &LedgerMetadata{
		FormatVersion: f.FormatVersion,
		Quorum:        bk.Quorum{Ensemble: f.EnsembleSize, Write: f.WriteQuorumSize, Ack: f.AckQuorumSize},
		State:         map[string]State{"OPEN": StateOpen, "IN_RECOVERY": StateInRecovery, "CLOSED": StateClosed}[f.State],
		LastEntry:     f.LastEntryID,
		Length:        f.Length,
		HasPassword:   f.HasPassword,
		Digest: map[string]bk.DigestType{
			"CRC32": bk.DigestCRC32, "MAC": bk.DigestHMAC, "CRC32C": bk.DigestCRC32C, "DUMMY": bk.DigestDummy,
		}[f.DigestType],
		CToken: f.CToken,
	}
	if len(f.PasswordHex) > 0 {
		m.Password = f.PasswordHex
	}
	if f.CTime >= 0 {
		m.CTime = time.UnixMilli(f.CTime)
	}
	for k, b := range f.CustomMetadataHex {
		if m.Custom == nil {
			m.Custom = map[string][]byte{}
		}
		m.Custom[k] = b
	}
	for _, s := range f.Segments {
		m.Segments = append(m.Segments, Segment{First: s.FirstEntryID, Ensemble: s.Ensemble})
	}
	return m
}

func TestGoldenLedgerMetadata(t *testing.T) {
	var vs []ledgerVector
	vectors(t, "ledger_metadata.json", &vs)
	require.Len(t, vs, 29)
	for _, v := range vs {
		t.Run(v.Name, func(t *testing.T) {
			want := v.metadata()
			got, err := ParseLedgerMetadata(v.Hex)
			require.NoError(t, err)
			if len(got.Password) == 0 {
				got.Password = nil
			}
			require.Equal(t, want, got)
			b, err := want.Marshal()
			require.NoError(t, err)
			require.Equal(t, string(v.Hex), string(b))
			require.Equal(t, want, want.Clone())
		})
	}
}

func TestGoldenCookies(t *testing.T) {
	var vs []struct {
		Name, BookieHost, JournalDir, LedgerDirs, InstanceID, IndexDirs string
		Hex                                                             hexBytes
	}
	vectors(t, "cookies.json", &vs)
	require.NotEmpty(t, vs)
	for _, v := range vs {
		c := Cookie{
			LayoutVersion: 5, BookieID: v.BookieHost, JournalDirs: v.JournalDir,
			LedgerDirs: v.LedgerDirs, InstanceID: v.InstanceID, IndexDirs: v.IndexDirs,
		}
		require.Equal(t, string(v.Hex), string(c.Marshal()), v.Name)
		got, err := ParseCookie(v.Hex)
		require.NoError(t, err, v.Name)
		require.Equal(t, c, got, v.Name)
		dirs, err := SplitDirs(c.LedgerDirs)
		require.NoError(t, err)
		require.Equal(t, c.LedgerDirs, JoinDirs(dirs))
	}
}

func TestGoldenServiceInfo(t *testing.T) {
	var vs []struct {
		Name string
		Hex  hexBytes
	}
	vectors(t, "bookie_service_info.json", &vs)
	want := map[string]ServiceInfo{
		"plain": {Endpoints: []Endpoint{{ID: "bookie", Host: "10.0.0.1", Port: 3181, Protocol: ProtocolBookie}}},
		"with http": {Endpoints: []Endpoint{
			{ID: "bookie", Host: "10.0.0.1", Port: 3181, Protocol: ProtocolBookie},
			{ID: "httpserver", Host: "0.0.0.0", Port: 8080, Protocol: "http"},
		}},
		"tls+auth+properties": {
			Endpoints: []Endpoint{{
				ID: "bookie", Host: "b1.example", Port: 3181, Protocol: ProtocolBookie,
				Auth: []string{"sasl"}, Extensions: []string{"tls"},
			}},
			Properties: map[string]string{"k": "v"},
		},
		"no info": {},
	}
	require.Len(t, vs, len(want))
	for _, v := range vs {
		got, err := ParseServiceInfo(v.Hex)
		require.NoError(t, err, v.Name)
		require.Equal(t, want[v.Name], got, v.Name)
		b, err := want[v.Name].Marshal()
		require.NoError(t, err, v.Name)
		require.Equal(t, hex.EncodeToString(v.Hex), hex.EncodeToString(b), v.Name)
	}
}

func TestGoldenEtcdLayoutText(t *testing.T) {
	var vs []struct{ Name, Text string }
	vectors(t, "layout.json", &vs)
	found := false
	for _, v := range vs {
		if v.Name == "LAYOUT etcd driver" {
			found = true
			require.Equal(t, v.Text, etcdLayout)
		}
	}
	require.True(t, found)
}

func TestGoldenLedgerKeys(t *testing.T) {
	var vs []struct {
		Name     string
		LedgerID bk.LedgerID `json:"ledgerId"`
		Etcd     string
	}
	vectors(t, "ledger_paths.json", &vs)
	require.NotEmpty(t, vs)
	f := newEtcdForm("/bk")
	for _, v := range vs {
		require.Equal(t, v.Etcd, f.key(v.LedgerID), v.Name)
		id, ok := etcdLedgerID(v.Etcd[strings.LastIndexByte(v.Etcd, '/')+1:])
		require.True(t, ok, v.Name)
		require.Equal(t, v.LedgerID, id, v.Name)
	}
	for _, name := range []string{
		"", "x", "00000000-0000-0000-8000-000000000000", "00000000-0000-0001-0000-000000000000",
		"00000000-0000-0000-0000-00000000000G", "00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-0000000000000",
	} {
		_, ok := etcdLedgerID(name)
		require.False(t, ok, name)
	}
}
