package conn

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// An answer of version 3 counts if it is about what was asked for.
func TestAnswerIsAboutTheRequest(t *testing.T) {
	ok := bkpb.StatusCode_EOK.Enum()
	read := func(l, e int64) *bkpb.Response {
		return &bkpb.Response{ReadResponse: &bkpb.ReadResponse{Status: ok, LedgerId: &l, EntryId: &e}}
	}
	add := func(l, e int64) *bkpb.Response {
		return &bkpb.Response{AddResponse: &bkpb.AddResponse{Status: ok, LedgerId: &l, EntryId: &e}}
	}
	for i, c := range []struct {
		op     Op
		entry  bk.EntryID
		status bk.Status
		answer *bkpb.Response
		good   bool
	}{
		{OpFenceRead, 5, bk.StatusOK, read(1, 5), true},
		{OpFenceRead, 5, bk.StatusNoEntry, read(1, 5), true},
		{OpFenceRead, 5, bk.StatusNoEntry, read(2, 5), false},
		{OpFenceRead, 5, bk.StatusNoEntry, read(1, 6), false},
		{OpFenceRead, -1, bk.StatusOK, read(1, -1), true},
		{OpFenceRead, -1, bk.StatusOK, read(1, 7), false},
		{OpFenceRead, 5, bk.StatusUnauthorized, &bkpb.Response{}, true},
		{OpFenceRead, 5, bk.StatusOK, &bkpb.Response{}, false},
		{OpFenceRead, 5, bk.StatusOK, add(1, 5), false},
		{OpLongPoll, 5, bk.StatusOK, read(1, -1), true},
		{OpLongPoll, 5, bk.StatusOK, read(1, 6), true},
		{OpLongPoll, 5, bk.StatusOK, read(1, 5), false},
		{OpLongPoll, 5, bk.StatusOK, read(1, 7), false},
		{OpRecoveryAdd, 5, bk.StatusOK, add(1, 5), true},
		{OpRecoveryAdd, 5, bk.StatusOK, add(1, 6), false},
		{OpRecoveryAdd, 5, bk.StatusOK, &bkpb.Response{}, false},
		{OpDeferredAdd, 5, bk.StatusOK, add(3, 5), false},
		{OpReadLAC, 0, bk.StatusOK, &bkpb.Response{ReadLacResponse: &bkpb.ReadLacResponse{LedgerId: proto.Int64(1)}}, true},
		{OpReadLAC, 0, bk.StatusIO, &bkpb.Response{ReadLacResponse: &bkpb.ReadLacResponse{LedgerId: proto.Int64(2)}}, false},
		{OpReadLAC, 0, bk.StatusOK, &bkpb.Response{}, false},
		{OpWriteLAC, 5, bk.StatusOK, &bkpb.Response{WriteLacResponse: &bkpb.WriteLacResponse{LedgerId: proto.Int64(1)}}, true},
		{OpWriteLAC, 5, bk.StatusOK, &bkpb.Response{}, false},
		{OpForce, 0, bk.StatusOK, &bkpb.Response{ForceLedgerResponse: &bkpb.ForceLedgerResponse{LedgerId: proto.Int64(1)}}, true},
		{OpForce, 0, bk.StatusOK, &bkpb.Response{ForceLedgerResponse: &bkpb.ForceLedgerResponse{LedgerId: proto.Int64(0)}}, false},
		{OpForce, 0, bk.StatusOK, &bkpb.Response{}, false},
	} {
		err := checkV3(&Call{Op: c.op, Ledger: 1, Entry: c.entry, Status: c.status}, c.answer)
		if c.good {
			require.NoError(t, err, "%d", i)
		} else {
			require.ErrorIs(t, err, bk.ErrCorrupt, "%d", i)
		}
	}
}
