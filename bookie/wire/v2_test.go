package wire

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// v2Frame is a golden frame of version 2, made by Apache BookKeeper 4.17.2.
type v2Frame struct {
	Name         string      `json:"name"`
	Direction    string      `json:"direction"`
	Op           string      `json:"op"`
	Version      uint8       `json:"version"`
	Flags        Flags       `json:"flags"`
	LedgerID     bk.LedgerID `json:"ledgerId"`
	EntryID      bk.EntryID  `json:"entryId"`
	LAC          bk.EntryID  `json:"lac"`
	Length       int64       `json:"length"`
	PasswordUtf8 string      `json:"passwordUtf8"`
	PayloadUtf8  string      `json:"payloadUtf8"`
	MasterKeyHex string      `json:"masterKeyHex"`
	RequestID    int64       `json:"requestId"`
	MaxCount     int32       `json:"maxCount"`
	MaxSize      int64       `json:"maxSize"`
	RC           int32       `json:"rc"`
	BodyHex      string      `json:"bodyHex"`
	BodiesHex    []string    `json:"bodiesHex"`
	Plugin       string      `json:"plugin"`
	PayloadHex   string      `json:"payloadHex"`
	FrameHex     string      `json:"frameHex"`
}

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

var v2Ops = map[string]Op{"ADD": OpAdd, "READ": OpRead, "BATCH_READ": OpBatchRead, "AUTH": OpAuth}

func (f *v2Frame) key(t testing.TB) *[bk.MasterKeySize]byte {
	if f.MasterKeyHex == "" {
		return nil
	}
	return (*[bk.MasterKeySize]byte)(unhex(t, f.MasterKeyHex))
}

func (f *v2Frame) auth(t testing.TB) []byte {
	frame, err := AppendAuth(nil, f.Version, &bkpb.AuthMessage{
		AuthPluginName: &f.Plugin, Payload: unhex(t, f.PayloadHex),
	})
	require.NoError(t, err)
	return frame
}

// entryBody builds the entry body of a golden add.
func (f *v2Frame) entryBody(t testing.TB) []byte {
	d, err := bk.NewDigester(bk.DigestCRC32C, []byte(f.PasswordUtf8))
	require.NoError(t, err)
	return d.AppendEntry(nil, f.LedgerID, f.EntryID, f.LAC, f.Length, []byte(f.PayloadUtf8))
}

func (f *v2Frame) encodeRequest(t testing.TB) []byte {
	switch f.Op {
	case "ADD":
		key, body := bk.MasterKey([]byte(f.PasswordUtf8)), f.entryBody(t)
		return append(AppendAddRequest(nil, f.Flags, &key, len(body)), body...)
	case "READ":
		return AppendReadRequest(nil, f.Flags, f.LedgerID, f.EntryID, f.key(t))
	case "BATCH_READ":
		return AppendBatchReadRequest(nil, BatchRead{
			Flags: f.Flags, Ledger: f.LedgerID, First: f.EntryID, RequestID: f.RequestID,
			MaxCount: f.MaxCount, MaxSize: f.MaxSize, MasterKey: f.key(t),
		})
	default:
		return f.auth(t)
	}
}

func (f *v2Frame) encodeResponse(t testing.TB) []byte {
	status, ok := bk.StatusFromV2(f.RC)
	require.True(t, ok)
	switch f.Op {
	case "ADD":
		return AppendAddAnswer(nil, f.Version, status, f.LedgerID, f.EntryID)
	case "READ":
		body := unhex(t, f.BodyHex)
		return append(AppendReadAnswer(nil, f.Version, status, f.LedgerID, f.EntryID, len(body)), body...)
	case "BATCH_READ":
		var entries []byte
		for _, h := range f.BodiesHex {
			body := unhex(t, h)
			entries = append(AppendBatchEntry(entries, len(body)), body...)
		}
		dst := AppendBatchReadAnswer(nil, f.Version, status, f.LedgerID, f.EntryID, f.RequestID, len(entries))
		return append(dst, entries...)
	default:
		return f.auth(t)
	}
}

func TestGoldenV2Encode(t *testing.T) {
	for _, f := range readGolden[v2Frame](t, "v2_frames.json") {
		encode := f.encodeRequest
		if f.Direction == "response" {
			encode = f.encodeResponse
		}
		require.Equal(t, f.FrameHex, hex.EncodeToString(encode(t)), f.Name)
	}
}

func TestGoldenV2DecodeRequest(t *testing.T) {
	for _, f := range readGolden[v2Frame](t, "v2_frames.json") {
		if f.Direction != "request" {
			continue
		}
		payload := unhex(t, f.FrameHex)[LengthSize:]
		require.False(t, IsV3(payload), f.Name)
		var got Request
		require.NoError(t, DecodeRequest(&got, payload), f.Name)
		require.False(t, got.BadVersion(), f.Name)
		want := Request{
			Op: v2Ops[f.Op], Version: f.Version, Flags: f.Flags, Ledger: f.LedgerID, Entry: f.EntryID,
			RequestID: f.RequestID, MaxCount: f.MaxCount, MaxSize: f.MaxSize,
		}
		if key := f.key(t); key != nil {
			want.MasterKey = key[:]
		}
		switch f.Op {
		case "ADD":
			key := bk.MasterKey([]byte(f.PasswordUtf8))
			want.MasterKey, want.Body = key[:], f.entryBody(t)
		case "AUTH":
			m, err := DecodeAuth(got.Body)
			require.NoError(t, err, f.Name)
			require.Equal(t, f.Plugin, m.GetAuthPluginName(), f.Name)
			require.Equal(t, unhex(t, f.PayloadHex), m.GetPayload(), f.Name)
			got.Body = nil
		}
		require.Equal(t, want, got, f.Name)
	}
}

func TestGoldenV2DecodeResponse(t *testing.T) {
	for _, f := range readGolden[v2Frame](t, "v2_frames.json") {
		if f.Direction != "response" {
			continue
		}
		var got Response
		require.NoError(t, DecodeResponse(&got, unhex(t, f.FrameHex)[LengthSize:]), f.Name)
		require.Equal(t, v2Ops[f.Op], got.Op, f.Name)
		require.Equal(t, f.Version, got.Version, f.Name)
		if f.Op == "AUTH" {
			m, err := DecodeAuth(got.Body)
			require.NoError(t, err, f.Name)
			require.Equal(t, f.Plugin, m.GetAuthPluginName(), f.Name)
			continue
		}
		require.Equal(t, f.RC, got.Code, f.Name)
		require.Equal(t, f.RC, got.Status.V2(), f.Name)
		require.Equal(t, f.LedgerID, got.Ledger, f.Name)
		require.Equal(t, f.EntryID, got.Entry, f.Name)
		require.Equal(t, f.RequestID, got.RequestID, f.Name)
		if f.Op == "READ" {
			require.Equal(t, f.BodyHex, hex.EncodeToString(got.Body), f.Name)
			continue
		}
		var bodies []string
		for rest := got.Body; len(rest) > 0; {
			var body []byte
			var err error
			body, rest, err = NextBatchEntry(rest)
			require.NoError(t, err, f.Name)
			bodies = append(bodies, hex.EncodeToString(body))
		}
		require.Equal(t, f.BodiesHex, bodies, f.Name)
	}
}

func TestV2RefusesMalformed(t *testing.T) {
	for name, h := range map[string]string{
		"no header":                   "0201",
		"opcode 4, read LAC":          "0204000000000000000000140000000000000000",
		"opcode 0":                    "02000000",
		"version 0, opcode too large": "00000104",
		"add without ids":             "02010000" + "2aa226ba095b6969a64871977693b14671710d76" + "00000000000000140000000000000",
		"read without entry id":       "020200000000000000000014",
		"fence without key":           "0202000100000000000000140000000000000000",
		"fence with half a key":       "02020001000000000000001400000000000000002aa226ba095b6969a648",
		"batch read, 35 bytes":        "0207000000000000000000140000000000000000000000000000003700000002000000",
		"fencing batch without key":   "02070001000000000000001400000000000000000000000000000037000000020000000000002710",
	} {
		if len(h)%2 == 1 {
			h = h[:len(h)-1]
		}
		var r Request
		require.ErrorIs(t, DecodeRequest(&r, unhex(t, h)), ErrMalformed, name)
	}
	var r Response
	require.ErrorIs(t, DecodeResponse(&r, unhex(t, "0201000000000000000000000000000700000000000000")), ErrMalformed)
	require.ErrorIs(t, DecodeResponse(&r, unhex(t, "02040000")), ErrMalformed)
	_, _, err := NextBatchEntry(unhex(t, "0000000401"))
	require.ErrorIs(t, err, ErrMalformed)
	_, _, err = NextBatchEntry(unhex(t, "000000"))
	require.ErrorIs(t, err, ErrMalformed)
}

// A version 1 client has no master key field, version 0 has no flags.
func TestV2OldVersions(t *testing.T) {
	var r Request
	require.NoError(t, DecodeRequest(&r, unhex(t, "0102000100000000000000140000000000000000")))
	require.Equal(t, uint8(1), r.Version)
	require.Equal(t, FlagFence, r.Flags)
	require.Nil(t, r.MasterKey)
	require.NoError(t, DecodeRequest(&r, unhex(t, "0000000200000000000000140000000000000000")))
	require.Equal(t, Request{Op: OpRead, Ledger: 20}, r)
	require.NoError(t, DecodeRequest(&r, unhex(t, "0302000000000000000000140000000000000000")))
	require.True(t, r.BadVersion())
}

func TestV2CodecAllocatesNothing(t *testing.T) {
	key := bk.MasterKey(nil)
	buf := make([]byte, 0, 4096)
	add := append(AppendAddRequest(nil, 0, &key, 64), make([]byte, 64)...)
	answer := AppendAddAnswer(nil, V2Version, bk.StatusOK, 1, 2)
	var req Request
	var resp Response
	require.Zero(t, testing.AllocsPerRun(100, func() {
		buf = AppendAddRequest(buf[:0], 0, &key, 64)
		buf = AppendReadRequest(buf, FlagFence, 1, 2, &key)
		buf = AppendBatchReadRequest(buf, BatchRead{Ledger: 1, MaxSize: 4096})
		buf = AppendAddAnswer(buf, V2Version, bk.StatusOK, 1, 2)
		buf = AppendReadAnswer(buf, V2Version, bk.StatusOK, 1, 2, 10)
		buf = AppendBatchReadAnswer(buf, V2Version, bk.StatusOK, 1, 2, 3, 10)
		if DecodeRequest(&req, add[LengthSize:]) != nil || DecodeResponse(&resp, answer[LengthSize:]) != nil {
			panic("golden frames do not decode")
		}
	}))
}
