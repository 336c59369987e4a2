package wire

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// v3Frame is a golden frame of version 3, made by Apache BookKeeper 4.17.2.
type v3Frame struct {
	Name      string         `json:"name"`
	Direction string         `json:"direction"`
	Message   map[string]any `json:"message"`
	FrameHex  string         `json:"frameHex"`
}

// jsonKeys maps the Java names of sub-messages to those protojson wants.
var jsonKeys = map[string]string{"startTLSRequest": "startTlsRequest", "startTLSResponse": "startTlsResponse", "previousLAC": "previousLac", "maxLAC": "maxLac"}

// toProtoJSON turns "hex:…" strings to base64 ones, as protojson wants them.
func toProtoJSON(t *testing.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if n, ok := jsonKeys[k]; ok {
				k = n
			}
			out[k] = toProtoJSON(t, e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = toProtoJSON(t, v[i])
		}
		return out
	case string:
		if h, ok := strings.CutPrefix(v, "hex:"); ok {
			return unhex(t, h)
		}
	}
	return v
}

func TestGoldenV3(t *testing.T) {
	for _, f := range readGolden[v3Frame](t, "v3_frames.json") {
		frame := unhex(t, f.FrameHex)
		require.True(t, IsV3(frame[LengthSize:]), f.Name)
		var decoded, built proto.Message
		var err error
		if f.Direction == "request" {
			decoded, err = DecodeRequestV3(frame[LengthSize:])
			built = new(bkpb.Request)
		} else {
			decoded, err = DecodeResponseV3(frame[LengthSize:])
			built = new(bkpb.Response)
		}
		require.NoError(t, err, f.Name)
		js, err := json.Marshal(toProtoJSON(t, f.Message))
		require.NoError(t, err)
		require.NoError(t, protojson.Unmarshal(js, built), f.Name)
		require.True(t, proto.Equal(built, decoded), "%s: decoded %v, want %v", f.Name, decoded, built)
		encoded, err := AppendV3([]byte("before"), built)
		require.NoError(t, err, f.Name)
		require.Equal(t, f.FrameHex, hex.EncodeToString(encoded[len("before"):]), f.Name)
	}
}

func TestV3RefusesMalformed(t *testing.T) {
	for name, h := range map[string]string{
		"unknown operation 99": "0a06080310631801",
		"unknown version 4":    "0a0608041001180aa2060408011000",
		"no header":            "a2060408011000",
		"header only tag":      "0a",
		"no txn id":            "0a0408031001",
		"read without entry":   "0a0608031001180aa206020801",
		"add without body":     "0a06080310021803aa06080801100a1a020102",
		"group end":            "0a0608031001180a0c",
	} {
		_, err := DecodeRequestV3(unhex(t, h))
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	_, err := DecodeResponseV3(unhex(t, "0a06080310021803"))
	require.ErrorIs(t, err, ErrMalformed, "response without status")
}

func TestV3FrameLimit(t *testing.T) {
	r := &bkpb.Request{
		Header: V3Header(OpAdd, 1, V3RecoveryPriority),
		AddRequest: &bkpb.AddRequest{
			LedgerId: proto.Int64(1), EntryId: proto.Int64(2), MasterKey: []byte{}, Body: make([]byte, MaxFrame-100),
		},
	}
	frame, err := AppendV3(nil, r)
	require.NoError(t, err)
	r.AddRequest.Body = make([]byte, MaxFrame-100+MaxFrame-len(frame))
	frame, err = AppendV3(nil, r)
	require.NoError(t, err)
	require.Len(t, frame, MaxFrame)
	r.AddRequest.Body = append(r.AddRequest.Body, 0)
	_, err = AppendV3(nil, r)
	require.ErrorIs(t, err, ErrFrameLength)
}

// One table of operations: it names the same numbers as the generated code.
func TestOpTableMatchesMessages(t *testing.T) {
	enum := bkpb.OperationType(0).Descriptor().Values()
	for n := range int(opCount) {
		op, v := Op(n), enum.ByNumber(protoreflect.EnumNumber(n))
		require.Equal(t, v != nil, op.Known(), "%d", n)
		if v != nil && op != OpRangeRead && op != OpRangeAdd {
			require.Equal(t, string(v.Name()), op.String())
		}
		if code := opTable[n].v2; code != 0 {
			require.Equal(t, op, opFromV2(code))
			require.Equal(t, code, op.v2Code())
		}
	}
	require.False(t, opCount.Known())
	require.Equal(t, "Op(99)", Op(99).String())
	for _, op := range []Op{OpWriteLAC, OpReadLAC, OpGetBookieInfo, OpStartTLS, OpForce, OpListEntries} {
		require.True(t, op.InV3())
		require.Panics(t, func() { op.v2Code() })
	}
	require.False(t, OpBatchRead.InV3())
}
