package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// asker is a raw client of one protocol version, with what both can say.
type asker struct {
	*client
	isV3 bool
	txn  uint64
}

// eachVersion runs a test with a fresh bookie in either version.
func eachVersion(t *testing.T, test func(t *testing.T, r *rig, a *asker)) {
	for _, isV3 := range []bool{false, true} {
		t.Run(map[bool]string{false: "v2", true: "v3"}[isV3], func(t *testing.T) {
			r := newRig(t, server.Options{})
			test(t, r, &asker{client: r.dial(), isV3: isV3})
		})
	}
}

// addOf is one add. The ids of the request are those of the body unless given.
type addOf struct {
	ledger   bk.LedgerID
	entry    bk.EntryID
	lac      bk.EntryID
	payload  string
	key      []byte // nil: testKey
	body     []byte // nil: made of the above
	recovery bool
	priority bool
	deferred bool
}

var wrongKey = func() []byte { k := bk.MasterKey([]byte("other")); return k[:] }()

func (a *asker) add(q addOf) bk.Status {
	a.t.Helper()
	if q.key == nil {
		q.key = testKey[:]
	}
	if q.body == nil {
		q.body = testDigest.AppendEntry(nil, q.ledger, q.entry, q.lac, int64(len(q.payload)), []byte(q.payload))
	}
	if a.isV3 {
		m := a.request(wire.OpAdd, q.priority)
		m.AddRequest = &bkpb.AddRequest{LedgerId: (*int64)(&q.ledger), EntryId: (*int64)(&q.entry), MasterKey: q.key, Body: q.body}
		if q.recovery {
			m.AddRequest.Flag = bkpb.AddRequest_RECOVERY_ADD.Enum()
		}
		if q.deferred {
			m.AddRequest.WriteFlags = proto.Int32(1)
		}
		answer := a.askV3(m)
		require.Equal(a.t, answer.GetStatus(), answer.AddResponse.GetStatus())
		require.Equal(a.t, int64(q.ledger), answer.AddResponse.GetLedgerId())
		require.Equal(a.t, int64(q.entry), answer.AddResponse.GetEntryId())
		return statusOf(a.t, answer)
	}
	var flags wire.Flags
	if q.recovery {
		flags |= wire.FlagRecoveryAdd
	}
	if q.priority {
		flags |= wire.FlagHighPriority
	}
	answer := a.askV2(append(wire.AppendAddRequest(nil, flags, (*[bk.MasterKeySize]byte)(q.key), len(q.body)), q.body...))
	require.Equal(a.t, bk.BodyLedger(q.body), answer.Ledger)
	require.Equal(a.t, bk.BodyEntry(q.body), answer.Entry)
	return answer.Status
}

// found is the answer to a read.
type found struct {
	status bk.Status
	entry  bk.EntryID // as the answer says it
	body   []byte
	maxLAC *int64 // version 3
}

// is requires an entry of this id and payload.
func (f found) is(t testing.TB, e bk.EntryID, payload string) {
	t.Helper()
	require.Equal(t, bk.StatusOK, f.status)
	require.Equal(t, e, bk.BodyEntry(f.body))
	require.Equal(t, payload, string(f.body[testDigest.Overhead():]))
}

func (a *asker) read(l bk.LedgerID, e bk.EntryID) found {
	a.t.Helper()
	if !a.isV3 {
		return a.found2(wire.AppendReadRequest(nil, 0, l, e, nil), e)
	}
	m := a.request(wire.OpRead, false)
	m.ReadRequest = &bkpb.ReadRequest{LedgerId: (*int64)(&l), EntryId: (*int64)(&e)}
	return a.found3(m)
}

func (a *asker) fence(l bk.LedgerID, e bk.EntryID, key []byte) found {
	a.t.Helper()
	if !a.isV3 {
		return a.found2(wire.AppendReadRequest(nil, wire.FlagFence, l, e, (*[bk.MasterKeySize]byte)(key)), e)
	}
	m := a.request(wire.OpRead, true)
	m.ReadRequest = &bkpb.ReadRequest{LedgerId: (*int64)(&l), EntryId: (*int64)(&e), MasterKey: key, Flag: bkpb.ReadRequest_FENCE_LEDGER.Enum()}
	return a.found3(m)
}

func (a *asker) found2(frame []byte, e bk.EntryID) found {
	a.t.Helper()
	answer := a.askV2(frame)
	require.Equal(a.t, e, answer.Entry, "the answer's id is that of the request")
	f := found{status: answer.Status, entry: answer.Entry}
	if len(answer.Body) > 0 {
		f.body = answer.Body
	}
	return f
}

func (a *asker) found3(m *bkpb.Request) found {
	a.t.Helper()
	answer := a.askV3(m)
	q := answer.ReadResponse
	require.Equal(a.t, answer.GetStatus(), q.GetStatus())
	require.Equal(a.t, m.ReadRequest.GetLedgerId(), q.GetLedgerId())
	return found{status: statusOf(a.t, answer), entry: bk.EntryID(q.GetEntryId()), body: q.Body, maxLAC: q.MaxLac}
}

// request is a version 3 request without its sub-message.
func (a *asker) request(op wire.Op, priority bool) *bkpb.Request {
	a.txn++
	var p uint32
	if priority {
		p = wire.V3RecoveryPriority
	}
	return &bkpb.Request{Header: wire.V3Header(op, a.txn, p)}
}

// askV3 sends a request and requires the header that its answer has to have.
func (a *asker) askV3(m *bkpb.Request) *bkpb.Response {
	a.t.Helper()
	a.send(v3Request(a.t, m))
	answer := a.client.v3()
	want := wire.V3Header(wire.Op(m.Header.GetOperation()), m.Header.GetTxnId(), 0)
	require.True(a.t, proto.Equal(want, answer.Header), "header %v", answer.Header)
	return answer
}

func statusOf(t testing.TB, m *bkpb.Response) bk.Status {
	t.Helper()
	s, ok := bk.StatusFromV3(int32(m.GetStatus()))
	require.True(t, ok)
	return s
}

func (a *asker) writeLAC(l bk.LedgerID, lac bk.EntryID, key []byte) bk.Status {
	a.t.Helper()
	m := a.request(wire.OpWriteLAC, false)
	m.WriteLacRequest = &bkpb.WriteLacRequest{LedgerId: (*int64)(&l), Lac: (*int64)(&lac), MasterKey: key, Body: testDigest.AppendLAC(nil, l, lac)}
	answer := a.askV3(m)
	require.Equal(a.t, answer.GetStatus(), answer.WriteLacResponse.GetStatus())
	require.Equal(a.t, int64(l), answer.WriteLacResponse.GetLedgerId())
	return statusOf(a.t, answer)
}

func (a *asker) readLAC(l bk.LedgerID) (lacBody, last []byte, s bk.Status) {
	a.t.Helper()
	m := a.request(wire.OpReadLAC, false)
	m.ReadLacRequest = &bkpb.ReadLacRequest{LedgerId: (*int64)(&l)}
	answer := a.askV3(m)
	q := answer.ReadLacResponse
	require.Equal(a.t, answer.GetStatus(), q.GetStatus())
	require.Equal(a.t, int64(l), q.GetLedgerId())
	return q.LacBody, q.LastEntryBody, statusOf(a.t, answer)
}

func (a *asker) force(l bk.LedgerID) bk.Status {
	a.t.Helper()
	m := a.request(wire.OpForce, false)
	m.ForceLedgerRequest = &bkpb.ForceLedgerRequest{LedgerId: (*int64)(&l)}
	answer := a.askV3(m)
	require.Equal(a.t, answer.GetStatus(), answer.ForceLedgerResponse.GetStatus())
	require.Equal(a.t, int64(l), answer.ForceLedgerResponse.GetLedgerId())
	return statusOf(a.t, answer)
}

// batch is the answer to a batch read.
type batch struct {
	status  bk.Status
	entries []bk.EntryID // true ids, from the bodies
	frame   int          // bytes, without the prefix
}

func (a *asker) batchRead(q wire.BatchRead) batch {
	a.t.Helper()
	q.RequestID = int64(a.txn) + 1000
	answer := a.ask(wire.AppendBatchReadRequest(nil, q))
	require.NotNil(a.t, answer)
	var r wire.Response
	require.NoError(a.t, wire.DecodeResponse(&r, answer[wire.LengthSize:]))
	require.Equal(a.t, q.RequestID, r.RequestID)
	require.Equal(a.t, q.Ledger, r.Ledger)
	require.Equal(a.t, q.First, r.Entry)
	b := batch{status: r.Status, frame: len(answer) - wire.LengthSize}
	for rest := r.Body; len(rest) > 0; {
		body, next, err := wire.NextBatchEntry(rest)
		require.NoError(a.t, err)
		b.entries = append(b.entries, bk.BodyEntry(body))
		rest = next
	}
	return b
}
