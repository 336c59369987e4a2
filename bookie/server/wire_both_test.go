package server_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

func TestWire5_ReadOfWhatIsNotThere(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ *rig, a *asker) {
		for _, e := range []bk.EntryID{0, 7, bk.InvalidEntryID, -2} {
			f := a.read(1000, e)
			require.Equal(t, found{status: bk.StatusNoLedger, entry: e}, f, "ledger never seen")
		}
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 3}))
		for _, e := range []bk.EntryID{0, 4, 99, -2} {
			require.Equal(t, found{status: bk.StatusNoEntry, entry: e}, a.read(1, e), "entry absent")
		}
	})
}

// The entry with the highest id that is stored here, which is neither the last
// one added nor the LAC; the answer's id stays -1.
func TestWire5_ReadOfTheLastEntry(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ *rig, a *asker) {
		for _, e := range []bk.EntryID{0, 5, 4, 2} {
			require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: e, lac: 1, payload: "x"}))
		}
		f := a.read(1, bk.InvalidEntryID)
		f.is(t, 5, "x")
		require.Equal(t, bk.InvalidEntryID, f.entry)
	})
}

// Version 3 reads tell the highest LAC that the bookie knows.
func TestWire5_ReadTellsTheLAC(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial(), isV3: true}
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 0, lac: -1}))
	require.Equal(t, int64(-1), *a.read(1, 0).maxLAC, "-1 is sent as -1")
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 9, lac: 7}))
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 5, lac: 4}))
	require.Equal(t, int64(7), *a.read(1, 0).maxLAC, "from the headers of entries")
	require.Equal(t, bk.StatusOK, a.writeLAC(1, 8, testKey[:]))
	require.Equal(t, int64(8), *a.read(1, bk.InvalidEntryID).maxLAC, "from an explicit LAC")
	require.Nil(t, a.fence(1, 0, testKey[:]).maxLAC, "not with a fence")
}

func TestWire5_FenceWithoutTheRightKey(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ *rig, a *asker) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1}))
		require.Equal(t, bk.StatusUnauthorized, a.fence(1, -1, wrongKey).status)
		if a.isV3 {
			require.Equal(t, bk.StatusUnauthorized, a.fence(1, -1, nil).status, "none")
			require.Equal(t, bk.StatusUnauthorized, a.fence(1, -1, []byte{}).status, "empty")
		}
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 1}), "not fenced")
	})
}

// The fence comes first, then the read's answer; again and again.
func TestWire5_Fence(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ *rig, a *asker) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, payload: "x"}))
		for range 3 {
			f := a.fence(1, -1, testKey[:])
			f.is(t, 0, "x")
			require.Equal(t, bk.InvalidEntryID, f.entry)
			require.Equal(t, bk.StatusNoEntry, a.fence(1, 1, testKey[:]).status, "answer of an absent entry")
			require.Equal(t, bk.StatusFenced, a.add(addOf{ledger: 1, entry: 1}))
			require.Equal(t, bk.StatusUnauthorized, a.add(addOf{ledger: 1, entry: 1, key: wrongKey}), "checked before the fence")
			a.read(1, 0).is(t, 0, "x")
		}
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 1, payload: "y", recovery: true, priority: true}))
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 2, payload: "z", recovery: true}))
		require.Equal(t, bk.StatusUnauthorized, a.add(addOf{ledger: 1, entry: 3, recovery: true, key: wrongKey}))
		require.Equal(t, bk.StatusFenced, a.add(addOf{ledger: 1, entry: 3, priority: true}), "priority is no recovery")
		a.fence(1, -1, testKey[:]).is(t, 2, "z")
	})
}

func TestWire5_FenceOfAnUnknownLedger(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ *rig, a *asker) {
		require.Equal(t, bk.StatusNoEntry, a.fence(500, -1, testKey[:]).status, "not ENOLEDGER")
		require.Equal(t, bk.StatusNoEntry, a.read(500, 0).status)
		require.Equal(t, bk.StatusNoEntry, a.read(500, -1).status)
		require.Equal(t, bk.StatusFenced, a.add(addOf{ledger: 500}))
		require.Equal(t, bk.StatusUnauthorized, a.add(addOf{ledger: 500, key: wrongKey}))
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 500, recovery: true}))
	})
}

// fenceless cannot write a fence.
type fenceless struct{ server.Store }

func (fenceless) Fence(context.Context, bk.LedgerID, []byte) bk.Status { return bk.StatusIO }

// EIO if the fence could not be written; the read is not made then.
func TestWire5_FenceThatIsNotWritten(t *testing.T) {
	r := newRig(t, server.Options{})
	r.serveInstead(fenceless{r.b})
	for _, isV3 := range []bool{false, true} {
		a := &asker{client: r.dial(), isV3: isV3}
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1}))
		f := a.fence(1, 0, testKey[:])
		require.Equal(t, bk.StatusIO, f.status)
		require.Empty(t, f.body)
	}
}

// The first add makes the ledger, with its key for ever.
func TestWire5_AddMakesTheLedger(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ *rig, a *asker) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, key: wrongKey}))
		require.Equal(t, bk.StatusUnauthorized, a.add(addOf{ledger: 1, entry: 1}))
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 1, key: wrongKey}))
	})
}

func TestWire5_ReadOnlyGate(t *testing.T) {
	eachVersion(t, func(t *testing.T, r *rig, a *asker) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, payload: "x"}))
		r.b.SetReadOnly(true)
		require.Equal(t, bk.StatusReadOnly, a.add(addOf{ledger: 1, entry: 1}))
		require.Equal(t, bk.StatusReadOnly, a.add(addOf{ledger: 1, entry: 1, recovery: true}), "recovery alone is not enough")
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 1, priority: true}))
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 2, recovery: true, priority: true}))
	})
}

// Reads, fences and forces work on a read-only bookie; so do long polls.
func TestWire6_ReadOnlyBookieStillServes(t *testing.T) {
	eachVersion(t, func(t *testing.T, r *rig, a *asker) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, payload: "x"}))
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 1}))
		r.b.SetReadOnly(true)
		a.read(1, 0).is(t, 0, "x")
		a.fence(1, 0, testKey[:]).is(t, 0, "x")
		require.Equal(t, bk.StatusNoEntry, a.fence(77, -1, testKey[:]).status, "also of a new ledger")
		if a.isV3 {
			require.Equal(t, bk.StatusOK, a.force(1))
			a.send(longPollFrame(t, 1, 1, -1, 0))
			require.Equal(t, int64(0), a.client.v3().ReadResponse.GetEntryId())
		}
	})
}

// Priority changes nothing else: the same answers in the same headers.
func TestWire6_PriorityOfReads(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial(), isV3: true}
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, payload: "x", priority: true}))
	m := a.request(wire.OpRead, true)
	m.ReadRequest = &bkpb.ReadRequest{LedgerId: proto.Int64(1), EntryId: proto.Int64(0)}
	require.Equal(t, bkpb.StatusCode_EOK, a.askV3(m).GetStatus())
	require.Equal(t, bk.StatusOK, a.askV2(wire.AppendReadRequest(nil, wire.FlagHighPriority, 1, 0, nil)).Status)
}

func TestWire5_BodiesThatAreTooShort(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ *rig, a *asker) {
		body := testDigest.AppendEntry(nil, 1, 0, -1, 0, nil)
		for n := range bk.MinBodySize {
			if !a.isV3 && n < 16 {
				continue // no ids to answer with: the frame is malformed
			}
			require.Equal(t, bk.StatusBadRequest, a.add(addOf{ledger: 1, body: body[:n:n]}), "%d bytes", n)
		}
		require.Equal(t, bk.StatusNoLedger, a.read(1, -1).status)
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, body: body[:24]}))
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 0, body: body[:32]}))
	})
}

// Bookies check no digest; the same entry again is taken; so are any order,
// gaps, and ids below 0.
func TestWire5_WhatABookieDoesNotCheck(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ *rig, a *asker) {
		body := testDigest.AppendEntry(nil, 1, 0, -1, 1, []byte("x"))
		body[35] ^= 1
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, body: body}))
		require.Equal(t, body, a.read(1, 0).body)
		for _, e := range []bk.EntryID{9, 3, 3, 12, 0, -5, 4, 12} {
			require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: e, payload: "again"}), "%d", e)
		}
		a.read(1, 3).is(t, 3, "again")
		a.read(1, -1).is(t, 12, "again")
		require.Equal(t, bk.StatusNoEntry, a.read(1, 5).status)
	})
}

func TestWire5_KeysOfAnyLength(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial(), isV3: true}
	for n := range 40 {
		l := bk.LedgerID(100 + n)
		key := make([]byte, n)
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: l, key: key}), "%d bytes", n)
		require.Equal(t, bk.StatusUnauthorized, a.add(addOf{ledger: l, key: append(key, 0)}))
		require.Equal(t, bk.StatusOK, a.fence(l, -1, key).status)
	}
}

// The ids in the body rule; the answer has those of the request.
func TestWire5_IDsOfTheBodyRule(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial(), isV3: true}
	body := testDigest.AppendEntry(nil, 2, 8, -1, 1, []byte("x"))
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 6, body: body}))
	a.read(2, 8).is(t, 8, "x")
	require.Equal(t, bk.StatusNoLedger, a.read(1, 6).status)
}

// A fence and the adds of its ledger are in one order: what was acknowledged
// before is there for the fence's read, and nothing is acknowledged after.
func TestWire5_FenceAndAddsAreInOneOrder(t *testing.T) {
	eachVersion(t, func(t *testing.T, r *rig, a *asker) {
		for l := range bk.LedgerID(30) {
			w := &asker{client: r.dial(), isV3: a.isV3}
			require.Equal(t, bk.StatusOK, w.add(addOf{ledger: l, lac: -1}))
			last := bk.EntryID(0)
			var writer sync.WaitGroup
			writer.Go(func() {
				for e := bk.EntryID(1); ; e++ {
					switch s := w.add(addOf{ledger: l, entry: e, lac: -1}); s {
					case bk.StatusOK:
						last = e
					default:
						require.Equal(t, bk.StatusFenced, s)
						return
					}
				}
			})
			highest := bk.BodyEntry(a.fence(l, -1, testKey[:]).body)
			after := a.add(addOf{ledger: l, entry: 1 << 40})
			writer.Wait()
			require.Equal(t, bk.StatusFenced, after)
			require.LessOrEqual(t, last, highest, "acknowledged, and not seen by the fence")
			require.Equal(t, highest, bk.BodyEntry(a.read(l, -1).body), "stored after the fence")
		}
	})
}
