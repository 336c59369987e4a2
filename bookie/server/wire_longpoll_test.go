package server_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// inPolls runs a test in virtual time over a bookie whose ledger 1 has entries
// 0 to 2, confirmed up to 1.
func inPolls(t *testing.T, test func(t *testing.T, r *rig, a *asker)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, server.Options{})
		a := &asker{client: r.dial(), isV3: true}
		for e := range bk.EntryID(3) {
			require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: e, lac: e - 1, payload: "x"}))
		}
		test(t, r, a)
	})
}

// pollOf is what a long poll asks; nil: the field is left out.
type pollOf struct {
	ledger, entry     int64
	previous, timeout *int64
	piggyback         bool
}

// poll gives the answer and how long it took.
func (a *asker) poll(q pollOf) (*bkpb.ReadResponse, time.Duration) {
	a.t.Helper()
	m := a.request(1, false)
	m.ReadRequest = &bkpb.ReadRequest{LedgerId: &q.ledger, EntryId: &q.entry, PreviousLac: q.previous, TimeOut: q.timeout}
	if q.piggyback {
		m.ReadRequest.Flag = bkpb.ReadRequest_ENTRY_PIGGYBACK.Enum()
	}
	start := time.Now()
	answer := a.askV3(m)
	require.Equal(a.t, answer.GetStatus(), answer.ReadResponse.GetStatus())
	return answer.ReadResponse, time.Since(start)
}

func TestWire7_RefusedAtOnce(t *testing.T) {
	inPolls(t, func(t *testing.T, _ *rig, a *asker) {
		q, took := a.poll(pollOf{ledger: 1003, entry: -1, previous: proto.Int64(0), timeout: proto.Int64(5000), piggyback: true})
		require.Equal(t, bkpb.StatusCode_ENOLEDGER, q.GetStatus())
		require.Zero(t, took)
		q, took = a.poll(pollOf{ledger: 1, entry: 1, previous: proto.Int64(1), timeout: proto.Int64(5000), piggyback: true})
		require.Equal(t, bkpb.StatusCode_EBADREQ, q.GetStatus())
		require.Zero(t, took)
	})
}

// Behind the LAC: at once, with the entry, its id, the LAC, and no time of a
// change.
func TestWire7_BehindTheLAC(t *testing.T) {
	inPolls(t, func(t *testing.T, _ *rig, a *asker) {
		for previous := int64(-1); previous < 1; previous++ {
			q, took := a.poll(pollOf{ledger: 1, entry: -1, previous: &previous, timeout: proto.Int64(5000), piggyback: true})
			require.Zero(t, took)
			require.Equal(t, bkpb.StatusCode_EOK, q.GetStatus())
			require.Equal(t, previous+1, q.GetEntryId())
			require.Equal(t, bk.EntryID(previous+1), bk.BodyEntry(q.Body))
			require.Equal(t, int64(1), q.GetMaxLac())
			require.Nil(t, q.LacUpdateTimestamp)
		}
	})
}

// Without a time-out, or with none left, nothing waits.
func TestWire7_WithoutATimeOut(t *testing.T) {
	inPolls(t, func(t *testing.T, _ *rig, a *asker) {
		for _, timeout := range []*int64{nil, proto.Int64(0), proto.Int64(-1)} {
			q, took := a.poll(pollOf{ledger: 1, entry: -1, previous: proto.Int64(1), timeout: timeout, piggyback: true})
			require.Zero(t, took)
			require.Equal(t, int64(-1), q.GetEntryId())
			require.Equal(t, int64(1), q.GetMaxLac())
			require.Nil(t, q.Body)
		}
	})
}

// At or ahead of the LAC: the time-out, then EOK with the LAC and no entry.
func TestWire7_TimeOut(t *testing.T) {
	inPolls(t, func(t *testing.T, _ *rig, a *asker) {
		for _, previous := range []int64{1, 5} {
			q, took := a.poll(pollOf{ledger: 1, entry: -1, previous: &previous, timeout: proto.Int64(300), piggyback: true})
			require.Equal(t, 300*time.Millisecond, took)
			require.Equal(t, bkpb.StatusCode_EOK, q.GetStatus())
			require.Equal(t, int64(-1), q.GetEntryId())
			require.Equal(t, int64(1), q.GetMaxLac())
			require.Nil(t, q.Body)
			require.Nil(t, q.LacUpdateTimestamp)
		}
	})
}

// The entry behind previousLAC is on another bookie: EOK and the LAC alone.
func TestWire7_EntryIsElsewhere(t *testing.T) {
	inPolls(t, func(t *testing.T, _ *rig, a *asker) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 12, entry: 0, lac: -1}))
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 12, entry: 3, lac: 2}))
		q, took := a.poll(pollOf{ledger: 12, entry: -1, previous: proto.Int64(0), timeout: proto.Int64(5000), piggyback: true})
		require.Zero(t, took)
		require.Equal(t, bkpb.StatusCode_EOK, q.GetStatus())
		require.Equal(t, int64(-1), q.GetEntryId())
		require.Equal(t, int64(2), q.GetMaxLac())
		require.Nil(t, q.Body)
	})
}

// A later entry that carries the LAC wakes the poll, and so does an explicit
// LAC; the entry itself does not. The time of the change comes along.
func TestWire7_Woken(t *testing.T) {
	inPolls(t, func(t *testing.T, r *rig, a *asker) {
		w := &asker{client: r.dial(), isV3: true}
		for _, row := range []struct {
			move func()
			lac  int64
		}{
			{func() { require.Equal(t, bk.StatusOK, w.add(addOf{ledger: 1, entry: 3, lac: 2, payload: "y"})) }, 2},
			{func() { require.Equal(t, bk.StatusOK, w.writeLAC(1, 3, testKey[:])) }, 3},
		} {
			time.AfterFunc(time.Second, func() { // stored, and the LAC where it was
				require.Equal(t, bk.StatusOK, w.add(addOf{ledger: 1, entry: 10, lac: -1}))
			})
			moved := make(chan struct{})
			time.AfterFunc(2*time.Second, func() { defer close(moved); row.move() })
			q, took := a.poll(pollOf{ledger: 1, entry: -1, previous: proto.Int64(row.lac - 1), timeout: proto.Int64(9000), piggyback: true})
			require.Equal(t, 2*time.Second, took)
			require.Equal(t, row.lac, q.GetEntryId())
			require.Equal(t, bk.EntryID(row.lac), bk.BodyEntry(q.Body))
			require.Equal(t, row.lac, q.GetMaxLac())
			require.Equal(t, time.Now().UnixMilli(), q.GetLacUpdateTimestamp())
			<-moved
		}
	})
}

// The flag without previousLAC is a plain read of the last entry; previousLAC
// without the flag is a plain read after the wait.
func TestWire7_OneOfTheTwo(t *testing.T) {
	inPolls(t, func(t *testing.T, _ *rig, a *asker) {
		q, took := a.poll(pollOf{ledger: 1, entry: -1, timeout: proto.Int64(5000), piggyback: true})
		require.Zero(t, took)
		require.Equal(t, int64(-1), q.GetEntryId())
		require.Equal(t, bk.EntryID(2), bk.BodyEntry(q.Body))
		require.Equal(t, int64(1), q.GetMaxLac())

		q, took = a.poll(pollOf{ledger: 1, entry: 0, previous: proto.Int64(1), timeout: proto.Int64(700)})
		require.Equal(t, 700*time.Millisecond, took)
		require.Equal(t, int64(0), q.GetEntryId())
		require.Equal(t, bk.EntryID(0), bk.BodyEntry(q.Body))
		require.Equal(t, int64(1), q.GetMaxLac())

		q, took = a.poll(pollOf{ledger: 1, entry: 9, previous: proto.Int64(0), timeout: proto.Int64(700)})
		require.Zero(t, took)
		require.Equal(t, bkpb.StatusCode_ENOENTRY, q.GetStatus())
	})
}
