package wire

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// The layouts of version 2 requests, byte by byte, and the flags they are seen
// with.
func TestWire3_LayoutOfRequests(t *testing.T) {
	key := bk.MasterKey(nil)
	k := hex.EncodeToString(key[:])
	ids := "00000000000000070000000000000003"
	for want, got := range map[string][]byte{
		"00000018" + "02010000" + k:                                 AppendAddRequest(nil, 0, &key, 0),
		"0000001d" + "02010006" + k:                                 AppendAddRequest(nil, FlagRecoveryAdd|FlagHighPriority, &key, 5),
		"00000014" + "02020000" + ids:                               AppendReadRequest(nil, 0, 7, 3, &key),
		"00000028" + "02020001" + ids[:16] + "ffffffffffffffff" + k: AppendReadRequest(nil, FlagFence, 7, -1, &key),
		"00000028" + "02020005" + ids + k:                           AppendReadRequest(nil, FlagFence|FlagHighPriority, 7, 3, &key),
		"00000028" + "02070000" + ids + "0000000000000055" + "00000009" + "0000000000001000": AppendBatchReadRequest(nil,
			BatchRead{Ledger: 7, First: 3, RequestID: 0x55, MaxCount: 9, MaxSize: 0x1000}),
		"0000003c" + "02070001" + ids + "0000000000000055" + "00000009" + "0000000000001000" + k: AppendBatchReadRequest(nil,
			BatchRead{Flags: FlagFence, Ledger: 7, First: 3, RequestID: 0x55, MaxCount: 9, MaxSize: 0x1000, MasterKey: &key}),
	} {
		require.Equal(t, want, hex.EncodeToString(got))
	}
	auth, err := AppendAuth(nil, V2Version, &bkpb.AuthMessage{AuthPluginName: proto.String("sasl"), Payload: []byte("x")})
	require.NoError(t, err)
	require.Equal(t, "0000000d"+"02030000"+"0a047361736c"+"120178", hex.EncodeToString(auth))
}

// The numbers of the operations and of the flags, in both versions.
func TestWire4_NumbersOfOperations(t *testing.T) {
	for op, code := range map[Op]uint32{OpAdd: 1, OpRead: 2, OpAuth: 3, OpBatchRead: 7} {
		require.Equal(t, code, op.v2Code())
	}
	for op, n := range map[Op]int{OpRead: 1, OpAdd: 2, OpRangeRead: 3, OpRangeAdd: 4, OpAuth: 5, OpWriteLAC: 6, OpReadLAC: 7,
		OpGetBookieInfo: 8, OpStartTLS: 9, OpForce: 10, OpListEntries: 11, OpBatchRead: 12} {
		require.Equal(t, n, int(op))
	}
	require.Equal(t, 1, int(bkpb.ReadRequest_FENCE_LEDGER))
	require.Equal(t, 2, int(bkpb.ReadRequest_ENTRY_PIGGYBACK))
	require.Equal(t, 1, int(bkpb.AddRequest_RECOVERY_ADD))
}

// Negative ids are varints of 10 bytes; every sub-message has its number in
// both directions.
func TestWire4_NumbersOfFields(t *testing.T) {
	frame, err := AppendV3(nil, &bkpb.Request{
		Header:      V3Header(OpRead, 1, V3RecoveryPriority),
		ReadRequest: &bkpb.ReadRequest{LedgerId: proto.Int64(7), EntryId: proto.Int64(-1)},
	})
	require.NoError(t, err)
	require.Equal(t, "0000001a"+"0a080803100118012064"+"a2060d"+"0807"+"10ffffffffffffffffff01", hex.EncodeToString(frame))
	want := map[string]int32{
		"read": 100, "add": 101, "auth": 102, "write_lac": 103, "read_lac": 104, "get_bookie_info": 105,
		"start_tls": 106, "force_ledger": 107, "get_list_of_entries_of_ledger": 108,
	}
	for _, m := range []proto.Message{new(bkpb.Request), new(bkpb.Response)} {
		numbers := map[int32]bool{}
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			numbers[int32(fields.Get(i).Number())] = true
		}
		for name, n := range want {
			require.True(t, numbers[n], "%T has no %s", m, name)
		}
	}
}

// Availability bytes: a header of 64, a group of 24 for each run; groups with
// a period are read too.
func TestWire11_Availability(t *testing.T) {
	b := AppendAvailability(nil, slices.Values([]bk.EntryID{0, 1, 3, 4, 5}))
	require.Len(t, b, 64+2*24)
	require.Equal(t, append([]byte{0, 0, 0, 0, 0, 0, 0, 2}, make([]byte, 56)...), b[:64])
	require.Equal(t, "00000000000000000000000000000000"+"00000002"+"00000000"+
		"00000000000000030000000000000003"+"00000003"+"00000000", hex.EncodeToString(b[64:]))
	periodic := make([]byte, 64, 64+24)
	periodic[7] = 1
	periodic = binary.BigEndian.AppendUint64(periodic, 2)  // first
	periodic = binary.BigEndian.AppendUint64(periodic, 12) // last start
	periodic = binary.BigEndian.AppendUint32(periodic, 2)  // size
	periodic = binary.BigEndian.AppendUint32(periodic, 5)  // period
	set, err := DecodeAvailability(periodic)
	require.NoError(t, err)
	require.Equal(t, []bk.EntryID{2, 3, 7, 8, 12, 13}, slices.Collect(set.All()))
}
