package wire

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type vectors struct {
	Messages []struct {
		What    string `json:"what"`
		Message string `json:"message_hex"`
		Frame   string `json:"frame_hex"`
	} `json:"messages"`
	CRC32 []struct {
		Op  string `json:"op"`
		Sum int64  `json:"crc32"`
	} `json:"crc32"`
}

func loadVectors(t testing.TB) vectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/proxy_wire.json")
	require.NoError(t, err)
	var v vectors
	require.NoError(t, json.Unmarshal(raw, &v))
	require.Len(t, v.Messages, 23)
	return v
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestGoldenMessagesBothDirections(t *testing.T) {
	calls, replies := 0, 0
	for _, m := range loadVectors(t).Messages {
		t.Run(m.What, func(t *testing.T) {
			msg := unhex(t, m.Message)
			fr := NewFrameReader(strings.NewReader(string(unhex(t, m.Frame))), 0)
			got, err := fr.Next()
			require.NoError(t, err)
			require.Equal(t, msg, got)
			var again []byte
			if msg[3] == 1 {
				calls++
				c, err := DecodeCall(msg)
				require.NoError(t, err)
				again, err = AppendCall(nil, c)
				require.NoError(t, err)
			} else {
				replies++
				r, name, seq, err := DecodeReply(msg)
				require.NoError(t, err)
				again, err = AppendReply(nil, &Call{Method: methodOf(name), Name: name, Seq: seq}, r)
				require.NoError(t, err)
			}
			require.Equal(t, m.Frame, hex.EncodeToString(again))
		})
	}
	require.Equal(t, 14, calls)
	require.Equal(t, 9, replies)
}

func TestGoldenCallFields(t *testing.T) {
	byWhat := map[string]string{}
	for _, m := range loadVectors(t).Messages {
		byWhat[m.What] = m.Message
	}
	c, err := DecodeCall(unhex(t, byWhat["call, record set, crc"]))
	require.NoError(t, err)
	require.Equal(t, WriteWithContext, c.Method)
	require.Equal(t, "stream-1", c.Stream)
	require.Equal(t, [][]byte{[]byte("hello")}, c.Data)
	require.Equal(t, []string{"/10.0.0.1:8000"}, c.Context.TriedHosts)
	require.True(t, c.Context.GetIsRecordSet())
	require.EqualValues(t, 789460231, c.Context.GetCrc32())
	require.NoError(t, ChecksumError(c))
	require.True(t, c.Tried("10.0.0.1:8000"))
	require.False(t, c.Tried("10.0.0.2:8000"))

	r, _, seq, err := DecodeReply(unhex(t, byWhat["reply FOUND, location"]))
	require.NoError(t, err)
	require.EqualValues(t, 7, seq)
	require.Equal(t, Found, r.Header().Code)
	l, err := ParseLocation(r.Header().GetLocation())
	require.NoError(t, err)
	require.Equal(t, Location{Shard: 3, Addr: "10.0.0.2:8000"}, l)
	require.Equal(t, r.Header().GetLocation(), l.String())

	r, _, _, err = DecodeReply(unhex(t, byWhat["plain thrift answer to the probe: unknown method"]))
	require.NoError(t, err)
	require.EqualValues(t, TypeUnknownMethod, r.Err.Type)
}

func TestGoldenOldStyleMessage(t *testing.T) {
	// handshake() without a version word: name, type, sequence id, empty struct
	c, err := DecodeCall(unhex(t, "00000009"+hex.EncodeToString([]byte("handshake"))+"01"+"00000007"+"00"))
	require.NoError(t, err)
	require.Equal(t, Handshake, c.Method)
	require.EqualValues(t, 7, c.Seq)
}

func TestGoldenChecksums(t *testing.T) {
	const dlsn = "AQAAAAAAAAABAAAAAAAAAAIAAAAAAAAAAw=="
	sums := map[string][]*Call{
		"write stream-1 + hello": {
			{Method: Write, Stream: "stream-1", Data: [][]byte{[]byte("hello")}},
			{Method: WriteWithContext, Stream: "stream-1", Data: [][]byte{[]byte("hello")}}},
		"heartbeat, release, create, delete stream-1": {
			{Method: Heartbeat, Stream: "stream-1"}, {Method: HeartbeatWithOptions, Stream: "stream-1"},
			{Method: Release, Stream: "stream-1"}, {Method: Create, Stream: "stream-1"}, {Method: Delete, Stream: "stream-1"}},
		"truncate stream-1 to (1,2,3)": {{Method: Truncate, Stream: "stream-1", DLSN: dlsn}},
		"write stream-1 + empty":       {{Method: Write, Stream: "stream-1", Data: [][]byte{{}}}},
	}
	for _, v := range loadVectors(t).CRC32 {
		require.NotEmpty(t, sums[v.Op], v.Op)
		for _, c := range sums[v.Op] {
			sum, ok := Checksum(c)
			require.True(t, ok)
			require.Equal(t, v.Sum, sum, "%s by %s", v.Op, c.Method)
			c.Context = &WriteContext{Crc32: &sum}
			require.NoError(t, ChecksumError(c))
			bad := sum ^ 1
			c.Context.Crc32 = &bad
			require.Equal(t, ChecksumFailed, CodeOf(ChecksumError(c)))
		}
	}
	one := int64(1)
	require.NoError(t, ChecksumError(&Call{Method: WriteBulkWithContext, Stream: "s", Context: &WriteContext{Crc32: &one}}))
}
