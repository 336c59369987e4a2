package wire

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/proxy/wire/internal/idl"
	"github.com/loglode/loglode/stream"
)

// generated encodes a bulk reply by the generated code.
func generated(t testing.TB, seq int32, b *BulkWriteResponse) []byte {
	t.Helper()
	e := &encoder{}
	at := e.frameBegin()
	e.messageHead("writeBulkWithContext", thrift.REPLY, seq)
	require.NoError(t, (&idl.DistributedLogServiceWriteBulkWithContextResult{Success: b}).Write(context.Background(), e))
	e.frameEnd(at)
	return e.b
}

// TestBulkRepliesAreThoseOfTheGeneratedCode: by hand, the same bytes, and the
// same content out of them.
func TestBulkRepliesAreThoseOfTheGeneratedCode(t *testing.T) {
	msg, dlsn := "cancelled", stream.DLSN{Segment: 1, Entry: 2, Slot: 3}
	text := dlsn.Base64()
	long := &BulkWriteResponse{Header: &ResponseHeader{Code: Success}, WriteResponses: []*WriteResponse{}}
	longItems := []Item{}
	for i := range 300 {
		d := stream.DLSN{Segment: 1 << 40, Entry: int64(i), Slot: -1}
		s := d.Base64()
		long.WriteResponses = append(long.WriteResponses, &WriteResponse{Header: &ResponseHeader{Code: Success}, Dlsn: &s})
		longItems = append(longItems, Item{Code: Success, DLSN: d})
	}
	for i, c := range []struct {
		bulk  *BulkWriteResponse
		items []Item
	}{
		{&BulkWriteResponse{Header: &ResponseHeader{Code: Success}, WriteResponses: []*WriteResponse{}}, []Item{}},
		{&BulkWriteResponse{Header: &ResponseHeader{Code: Success}, WriteResponses: []*WriteResponse{
			{Header: &ResponseHeader{Code: Success}, Dlsn: &text}, {Header: &ResponseHeader{Code: WriteCancelled, ErrMsg: &msg}}}},
			[]Item{{Code: Success, DLSN: dlsn}, {Code: WriteCancelled, Err: msg}}},
		{long, longItems},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			want := generated(t, 9, c.bulk)
			got, err := AppendReply(nil, &Call{Method: WriteBulkWithContext, Name: "writeBulkWithContext", Seq: 9}, &Reply{Items: c.items})
			require.NoError(t, err)
			require.Equal(t, want, got)
			r, _, seq, err := DecodeReply(want[4:])
			require.NoError(t, err)
			require.EqualValues(t, 9, seq)
			require.Equal(t, &Reply{Items: c.items}, r)
		})
	}
	failed := &BulkWriteResponse{Header: &ResponseHeader{Code: Found, Location: &msg}}
	r, _, _, err := DecodeReply(generated(t, 9, failed)[4:])
	require.NoError(t, err)
	require.Equal(t, &Reply{Bulk: failed}, r)
}

func TestBulkRepliesWithoutWhatTheyNeed(t *testing.T) {
	bad := "no DLSN"
	for name, b := range map[string]*BulkWriteResponse{
		"a success without DLSN": {Header: &ResponseHeader{Code: Success}, WriteResponses: []*WriteResponse{{Header: &ResponseHeader{Code: Success}}}},
		"not a DLSN": {Header: &ResponseHeader{Code: Success}, WriteResponses: []*WriteResponse{
			{Header: &ResponseHeader{Code: Success}, Dlsn: &bad}}},
	} {
		_, _, _, err := DecodeReply(generated(t, 1, b)[4:])
		require.ErrorIs(t, err, ErrProtocol, name)
	}
	// the other Base64 alphabet, and no padding, are taken as everywhere
	text := "AQAAAAAAAAABAAAAAAAAAAIAAAAAAAAAAw"
	r, _, _, err := DecodeReply(generated(t, 1, &BulkWriteResponse{Header: &ResponseHeader{Code: Success},
		WriteResponses: []*WriteResponse{{Header: &ResponseHeader{Code: Success}, Dlsn: &text}}})[4:])
	require.NoError(t, err)
	require.Equal(t, stream.DLSN{Segment: 1, Entry: 2, Slot: 3}, r.Items[0].DLSN)
}
