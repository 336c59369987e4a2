package server_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

func longPollFrame(t testing.TB, txn uint64, l bk.LedgerID, previous bk.EntryID, timeout time.Duration) []byte {
	return v3Request(t, &bkpb.Request{
		Header: wire.V3Header(wire.OpRead, txn, 0),
		ReadRequest: &bkpb.ReadRequest{
			LedgerId: proto.Int64(int64(l)), EntryId: proto.Int64(-1), PreviousLac: proto.Int64(int64(previous)),
			TimeOut: proto.Int64(timeout.Milliseconds()), Flag: bkpb.ReadRequest_ENTRY_PIGGYBACK.Enum(),
		},
	})
}

func (c *client) v3() *bkpb.Response {
	c.t.Helper()
	frame := c.frame()
	require.NotNil(c.t, frame, "connection closed")
	m, err := wire.DecodeResponseV3(frame[wire.LengthSize:])
	require.NoError(c.t, err)
	return m
}

// A waiting poll is answered when a later entry moves the LAC, with the entry,
// and costs no goroutine meanwhile.
func TestLongPollWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, server.Options{})
		w, c := r.dial(), r.dial()
		for e := range bk.EntryID(2) {
			require.Equal(t, bk.StatusOK, w.askV2(addFrame(1, e, []byte("x"))).Status)
		}
		before := runtime.NumGoroutine()
		const polls = 500
		for i := range polls {
			c.send(longPollFrame(t, uint64(i), 1, 0, time.Minute))
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), before+2)
		require.Equal(t, polls, r.srv.LongPolls())
		start := time.Now()
		require.Equal(t, bk.StatusOK, w.askV2(addFrame(1, 2, []byte("y"))).Status)
		for range polls {
			m := c.v3().ReadResponse
			require.Equal(t, int64(1), m.GetEntryId())
			require.Equal(t, int64(1), m.GetMaxLac())
			require.NotEmpty(t, m.Body)
			require.NotNil(t, m.LacUpdateTimestamp)
		}
		require.Less(t, time.Since(start), time.Second)
		require.Zero(t, r.srv.LongPolls())
	})
}

// An explicit LAC wakes pollers too.
func TestLongPollWokenByExplicitLAC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, server.Options{})
		c := r.dial()
		require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, []byte("x"))).Status)
		c.send(longPollFrame(t, 1, 1, bk.InvalidEntryID, time.Minute))
		synctest.Wait()
		c.send(v3Request(t, &bkpb.Request{
			Header: wire.V3Header(wire.OpWriteLAC, 2, 0),
			WriteLacRequest: &bkpb.WriteLacRequest{
				LedgerId: proto.Int64(1), Lac: proto.Int64(0), MasterKey: testKey[:], Body: testDigest.AppendLAC(nil, 1, 0),
			},
		}))
		seen := map[uint64]*bkpb.Response{}
		for range 2 {
			m := c.v3()
			seen[m.Header.GetTxnId()] = m
		}
		require.Equal(t, int64(0), seen[1].ReadResponse.GetEntryId())
		require.Equal(t, bkpb.StatusCode_EOK, seen[2].GetStatus())
	})
}

func TestLongPollTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, server.Options{LongPollMax: 10 * time.Second})
		c := r.dial()
		require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, []byte("x"))).Status)
		for asked, want := range map[time.Duration]time.Duration{3 * time.Second: 3 * time.Second, time.Hour: 10 * time.Second} {
			start := time.Now()
			c.send(longPollFrame(t, 1, 1, 0, asked))
			m := c.v3().ReadResponse
			require.Equal(t, want, time.Since(start))
			require.Equal(t, int64(-1), m.GetEntryId())
			require.Equal(t, int64(-1), m.GetMaxLac())
			require.Nil(t, m.Body)
		}
	})
}

// Long polls over the limit are refused; those of a connection that ends are
// forgotten; those of a server that drains are answered at once.
func TestLongPollLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, server.Options{LongPollsMax: 3})
		c, d := r.dial(), r.dial()
		require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, []byte("x"))).Status)
		for i := range 4 {
			c.send(longPollFrame(t, uint64(i), 1, 0, time.Minute))
			synctest.Wait()
		}
		m := c.v3()
		require.Equal(t, uint64(3), m.Header.GetTxnId())
		require.Equal(t, bkpb.StatusCode_ETOOMANYREQUESTS, m.GetStatus())
		c.nc.Close()
		synctest.Wait()
		require.Zero(t, r.srv.LongPolls())
		require.Equal(t, 1, r.srv.Conns())

		d.send(longPollFrame(t, 9, 1, 0, time.Minute))
		synctest.Wait()
		require.Equal(t, 1, r.srv.LongPolls())
		start := time.Now()
		require.NoError(t, r.srv.Drain(t.Context()))
		require.Zero(t, time.Since(start))
		require.Equal(t, uint64(9), d.v3().Header.GetTxnId())
		d.closed()
	})
}
