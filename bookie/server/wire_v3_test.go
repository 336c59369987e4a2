package server_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// A header version other than 3 that parses is EBADVERSION, in a header of
// version 3, with the ids; one that does not parse ends the connection.
func TestWire4_HeaderVersion(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.dial()
	require.Equal(t, "0000001e"+"0a06080310011809"+"10f703"+"a20610"+"08f7031001"+"18ffffffffffffffffff01",
		hex.EncodeToString(c.ask(unhex(t, "00000018"+"0a06080210011809"+"a2060d"+"0801"+"10ffffffffffffffffff01"))))
	for name, m := range everyV3(1) {
		op := wire.Op(m.Header.GetOperation())
		for _, v := range []bkpb.ProtocolVersion{1, 2} {
			m.Header.Version = &v
			c.send(v3Request(t, m))
			a := c.v3()
			require.Equal(t, op, wire.Op(a.Header.GetOperation()), name)
			if !op.InV3() {
				require.Equal(t, bkpb.StatusCode_EBADREQ, a.GetStatus(), name)
				continue
			}
			require.Equal(t, bkpb.StatusCode_EBADVERSION, a.GetStatus(), name)
			require.Equal(t, bkpb.ProtocolVersion_VERSION_THREE, a.Header.GetVersion(), name)
		}
		for _, v := range []bkpb.ProtocolVersion{0, 4, 100} {
			m.Header.Version = &v
			d := r.dial()
			d.send(v3Request(t, m))
			d.closed()
		}
	}
	_, s := r.b.LAC(1)
	require.Equal(t, bk.StatusNoLedger, s, "nothing was done")
}

// Answers carry version 3, operation and transaction id, however large, and no
// priority; the status twice.
func TestWire4_HeaderOfAnswers(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.dial()
	for name, m := range everyV3(1) {
		op := wire.Op(m.Header.GetOperation())
		for _, txn := range []uint64{0, 1, 1 << 31, 1<<64 - 1} {
			m.Header = wire.V3Header(op, txn, 100)
			c.send(v3Request(t, m))
			a := c.v3()
			want := wire.V3Header(op, txn, 0)
			if !op.InV3() || op == wire.OpAuth {
				want.Priority = proto.Uint32(100) // these repeat the header as it came
			}
			require.True(t, proto.Equal(want, a.Header), "%s: %v", name, a.Header)
		}
	}
}

// Request contexts and fields from the future are passed over.
func TestWire4_UnknownFieldsAreIgnored(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial(), isV3: true}
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, payload: "x"}))
	context := protowire.AppendTag(nil, 200, protowire.BytesType)
	context = protowire.AppendBytes(context, unhex(t, "0a036b6579120576616c7565")) // key, value
	future := protowire.AppendVarint(protowire.AppendTag(nil, 4000, protowire.VarintType), 1<<50)
	for _, m := range everyV3(1) {
		p := v3Request(t, m)[wire.LengthSize:]
		plain, decorated := prefixed(p), prefixed(slices.Concat(p, context, context, future))
		require.Equal(t, a.ask(plain), a.ask(decorated))
	}
}

// Flags of the future are no flags.
func TestWire4_UnknownFlagsAreIgnored(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial(), isV3: true}
	m := a.request(wire.OpAdd, false)
	m.AddRequest = everyV3(1)["add"].AddRequest
	m.AddRequest.Flag = bkpb.AddRequest_Flag(77).Enum()
	m.AddRequest.WriteFlags = proto.Int32(-2) // all but DEFERRED_SYNC
	require.Equal(t, bkpb.StatusCode_EOK, a.askV3(m).GetStatus())
	q := a.request(wire.OpRead, false)
	q.ReadRequest = everyV3(1)["fencing read"].ReadRequest
	q.ReadRequest.Flag = bkpb.ReadRequest_Flag(77).Enum()
	require.Equal(t, bkpb.StatusCode_EOK, a.askV3(q).GetStatus())
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 1}), "not fenced by that")
}

// Operations without a handler: EBADREQ, the header as it came, nothing else.
func TestWire5_OperationsWithoutAHandler(t *testing.T) {
	c := newRig(t, server.Options{}).dial()
	for _, op := range []wire.Op{wire.OpRangeRead, wire.OpRangeAdd, wire.OpBatchRead} {
		c.send(v3Request(t, &bkpb.Request{Header: wire.V3Header(op, 5, 7)}))
		want := &bkpb.Response{Header: wire.V3Header(op, 5, 7), Status: bkpb.StatusCode_EBADREQ.Enum()}
		require.True(t, proto.Equal(want, c.v3()), op)
	}
}

// A sub-message that is not there counts as zeros.
func TestWire5_AbsentSubMessages(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial(), isV3: true}
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 0, payload: "zero"}))
	ask := func(op wire.Op) *bkpb.Response { return a.askV3(a.request(op, false)) }
	require.Equal(t, bkpb.StatusCode_EBADREQ, ask(wire.OpAdd).GetStatus())
	read := ask(wire.OpRead).ReadResponse
	require.Equal(t, "zero", string(read.Body[testDigest.Overhead():]))
	require.Equal(t, bkpb.StatusCode_EBADREQ, ask(wire.OpWriteLAC).GetStatus())
	require.NotEmpty(t, ask(wire.OpReadLAC).ReadLacResponse.LastEntryBody)
	require.Equal(t, bkpb.StatusCode_EOK, ask(wire.OpForce).GetStatus())
	info := ask(wire.OpGetBookieInfo)
	require.Equal(t, bkpb.StatusCode_EOK, info.GetStatus())
	require.Nil(t, info.GetBookieInfoResponse.TotalDiskCapacity)
	require.Equal(t, bkpb.StatusCode_EOK, ask(wire.OpListEntries).GetStatus())
	require.Equal(t, bkpb.StatusCode_EBADREQ, ask(wire.OpStartTLS).GetStatus())
	require.Equal(t, wire.AuthDisabledPlugin, ask(wire.OpAuth).AuthResponse.GetAuthPluginName())
}

func TestWire5_ExplicitLAC(t *testing.T) {
	r := newRig(t, server.Options{})
	a := &asker{client: r.dial(), isV3: true}
	body := func(l bk.LedgerID, lac bk.EntryID) []byte { return testDigest.AppendLAC(nil, l, lac) }

	_, _, s := a.readLAC(1)
	require.Equal(t, bk.StatusNoEntry, s, "unknown ledger")
	require.Equal(t, bk.StatusOK, a.writeLAC(1, 4, testKey[:]), "creates the ledger")
	lac, last, s := a.readLAC(1)
	require.Equal(t, bk.StatusIO, s, "explicit LAC only: Apache's quirk")
	require.Equal(t, body(1, 4), lac)
	require.Nil(t, last)
	require.Equal(t, bk.StatusUnauthorized, a.writeLAC(1, 9, wrongKey))
	require.Equal(t, bk.StatusUnauthorized, a.add(addOf{ledger: 1, key: wrongKey}), "its key is the ledger's")

	for e := range bk.EntryID(3) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 2, entry: e, lac: e - 1}))
	}
	lac, last, s = a.readLAC(2)
	require.Equal(t, bk.StatusOK, s)
	require.Nil(t, lac, "none was written")
	require.Equal(t, bk.EntryID(2), bk.BodyEntry(last))
	require.Equal(t, bk.StatusOK, a.writeLAC(2, 2, testKey[:]))
	require.Equal(t, int64(2), *a.read(2, 0).maxLAC)
	require.Equal(t, bk.StatusOK, a.writeLAC(2, 0, testKey[:]), "lower")
	lac, _, s = a.readLAC(2)
	require.Equal(t, bk.StatusOK, s)
	require.Equal(t, body(2, 0), lac, "the body is replaced")
	require.Equal(t, int64(2), *a.read(2, 0).maxLAC, "the LAC does not go back")

	require.Equal(t, bk.StatusOK, a.fence(2, 0, testKey[:]).status)
	require.Equal(t, bk.StatusOK, a.writeLAC(2, 2, testKey[:]), "fenced")
	require.Equal(t, bk.StatusNoEntry, a.fence(3, 0, testKey[:]).status)
	_, _, s = a.readLAC(3)
	require.Equal(t, bk.StatusNoEntry, s, "fenced and empty")

	m := a.request(wire.OpWriteLAC, true)
	m.WriteLacRequest = &bkpb.WriteLacRequest{LedgerId: proto.Int64(2), Lac: proto.Int64(99), MasterKey: testKey[:], Body: body(5, 7)}
	require.Equal(t, bkpb.StatusCode_EOK, a.askV3(m).GetStatus())
	lac, _, _ = a.readLAC(5)
	require.Equal(t, body(5, 7), lac, "ledger and LAC of the body rule")
	r.b.SetReadOnly(true)
	m.Header.TxnId = proto.Uint64(1000)
	require.Equal(t, bkpb.StatusCode_EREADONLY, a.askV3(m).GetStatus(), "priority does not help")
}

// Force is answered once what came before is durable, for any ledger.
func TestWire5_DeferredSyncAndForce(t *testing.T) {
	r := newRig(t, server.Options{})
	a := &asker{client: r.dial(), isV3: true}
	require.Equal(t, bk.StatusOK, a.force(1004), "unknown ledger")
	for e := range bk.EntryID(5) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: e, payload: "later", deferred: true}))
	}
	require.Equal(t, bk.StatusOK, a.force(1))
	a.read(1, 4).is(t, 4, "later")
	require.Equal(t, bk.StatusOK, a.fence(1, -1, testKey[:]).status)
	require.Equal(t, bk.StatusFenced, a.add(addOf{ledger: 1, entry: 5, deferred: true}))
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 5, deferred: true, recovery: true}))
	r.b.SetReadOnly(true)
	require.Equal(t, bk.StatusOK, a.force(1))
	require.Equal(t, bk.StatusReadOnly, a.add(addOf{ledger: 1, entry: 6, deferred: true}))
}

// Just the fields that were asked for.
func TestWire5_BookieInfo(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial(), isV3: true}
	for requested := range int64(8) {
		m := a.request(wire.OpGetBookieInfo, false)
		m.GetBookieInfoRequest = &bkpb.GetBookieInfoRequest{Requested: &requested}
		q := a.askV3(m).GetBookieInfoResponse
		require.Equal(t, bkpb.StatusCode_EOK, q.GetStatus())
		require.Equal(t, requested&1 != 0, q.TotalDiskCapacity != nil, "%d", requested)
		require.Equal(t, requested&2 != 0, q.FreeDiskSpace != nil, "%d", requested)
	}
}

func TestWire5_ListOfEntries(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial(), isV3: true}
	list := func(l int64) *bkpb.Response {
		m := a.request(wire.OpListEntries, false)
		m.GetListOfEntriesOfLedgerRequest = &bkpb.GetListOfEntriesOfLedgerRequest{LedgerId: &l}
		return a.askV3(m)
	}
	unknown := list(3)
	require.Equal(t, bkpb.StatusCode_ENOLEDGER, unknown.GetStatus())
	require.Nil(t, unknown.GetListOfEntriesOfLedgerResponse.AvailabilityOfEntriesOfLedger)
	want := []bk.EntryID{0, 1, 2, 5, 6, 9}
	for _, e := range slices.Backward(want) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 3, entry: e}))
	}
	got := list(3)
	require.Equal(t, int64(3), got.GetListOfEntriesOfLedgerResponse.GetLedgerId())
	b := got.GetListOfEntriesOfLedgerResponse.AvailabilityOfEntriesOfLedger
	require.Len(t, b, 64+3*24)
	set, err := wire.DecodeAvailability(b)
	require.NoError(t, err)
	require.Equal(t, want, slices.Collect(set.All()))
	a.fence(4, -1, testKey[:])
	require.Equal(t, bkpb.StatusCode_EOK, list(4).GetStatus(), "fenced and empty")
}

// START_TLS on a bookie without TLS: EBADREQ, no sub-message, and the
// connection goes on in clear, in both versions.
func TestWire10_StartTLSIsRefused(t *testing.T) {
	c := newRig(t, server.Options{}).dial()
	require.Equal(t, "0000000b"+"0a06080310091801"+"109403", hex.EncodeToString(c.ask(unhex(t, "0000000b"+"0a06080310091801"+"d20600"))))
	for _, isV3 := range []bool{false, true} {
		a := &asker{client: c, isV3: isV3}
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, payload: fmt.Sprint(isV3)}))
	}
}
