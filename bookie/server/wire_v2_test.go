package server_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// The tests TestWire<n>_… are named after section n of the page of the
// protocol; docs/wire-tests.md says which line each is for.

func TestWire1_EmptyFrameCloses(t *testing.T) {
	c := newRig(t, server.Options{}).dial()
	c.send(make([]byte, 4))
	c.closed()
}

func TestWire1_FrameOfExactlyTheLimit(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.dial()
	payload := make([]byte, wire.MaxFrame-wire.AddRequestOverhead-testDigest.Overhead())
	frame := addFrame(1, 0, payload)
	require.Len(t, frame, 5_242_880)
	require.Equal(t, bk.StatusOK, c.askV2(frame).Status)
	c.send(addFrame(1, 1, append(payload, 0))[:1000]) // the length is enough
	c.closed()
	require.Equal(t, bk.StatusNoEntry, r.dial().askV2(wire.AppendReadRequest(nil, 0, 1, 1, nil)).Status)
}

// There is no banner: the bookie waits for the first request.
func TestWire1_BookieSaysNothingFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, server.Options{})
		c := r.dial()
		require.NoError(t, c.nc.SetReadDeadline(time.Now().Add(time.Hour)))
		_, err := c.nc.Read(make([]byte, 1))
		require.ErrorContains(t, err, "timeout")
		require.Equal(t, 1, r.srv.Conns())
		require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, nil)).Status)
	})
}

// Requests are pipelined without limit; a read that was sent after a long poll
// overtakes it; ledgers share the connection.
func TestWire1_PipelinedAndOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRig(t, server.Options{}).dial()
		require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, nil)).Status)
		c.send(longPollFrame(t, 9, 1, 0, 15*time.Second))
		c.send(wire.AppendReadRequest(nil, 0, 1, 0, nil))
		var a wire.Response
		require.NoError(t, wire.DecodeResponse(&a, c.frame()[wire.LengthSize:]))
		require.Equal(t, wire.OpRead, a.Op)
		const adds = 20_000
		go func() {
			for e := range bk.EntryID(adds) {
				c.send(addFrame(bk.LedgerID(2+e%7), e, []byte("x")))
			}
		}()
		seen := map[bk.EntryID]bool{}
		for range adds {
			require.NoError(t, wire.DecodeResponse(&a, c.frame()[wire.LengthSize:]))
			require.Equal(t, bk.StatusOK, a.Status)
			require.Equal(t, bk.LedgerID(2+a.Entry%7), a.Ledger)
			seen[a.Entry] = true
		}
		require.Len(t, seen, adds)
		require.Equal(t, uint64(9), c.v3().Header.GetTxnId())
	})
}

// Each request is answered in its own version, in any mix on one connection.
func TestWire2_AnswerInTheVersionOfTheRequest(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.dial()
	v2, v3 := &asker{client: c}, &asker{client: c, isV3: true}
	for e := range bk.EntryID(4) {
		require.Equal(t, bk.StatusOK, v3.add(addOf{ledger: 1, entry: e, payload: "a"}))
		v2.read(1, e).is(t, e, "a")
		require.Equal(t, bk.StatusOK, v2.add(addOf{ledger: 2, entry: e, payload: "b"}))
		v3.read(2, e).is(t, e, "b")
	}
}

// What each version alone can say, the other refuses in its way.
func TestWire2_OperationsOfOneVersion(t *testing.T) {
	r := newRig(t, server.Options{})
	v3 := &asker{client: r.dial(), isV3: true}
	require.Equal(t, bk.StatusBadRequest, statusOf(t, v3.askV3(v3.request(wire.OpBatchRead, false))))
	for _, opcode := range []byte{4, 5, 6} { // read LAC, write LAC, info: numbers without a codec
		c := r.dial()
		c.send(prefixed(append([]byte{2, opcode, 0, 0}, make([]byte, 60)...)))
		c.closed()
	}
}

// A version 2 client learns the LAC from the entry with the highest id.
func TestWire2_LACByReadingTheLastEntry(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial()}
	for e := range bk.EntryID(3) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: e, lac: e - 1}))
	}
	last := a.read(1, bk.InvalidEntryID)
	require.Equal(t, bk.EntryID(2), bk.BodyEntry(last.body))
	require.Equal(t, bk.EntryID(1), bk.BodyLAC(last.body))
}

// Versions 0, 1 and 2 are taken and repeated; above that is rc 103.
func TestWire3_VersionsOfTheHeader(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.dial()
	require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, []byte("x"))).Status)
	frames := everyV2(1)
	for _, name := range []string{"add", "read", "batch read"} {
		for version := range 6 {
			frame := append([]byte(nil), frames[name]...)
			opcode := frame[5]
			if frame[4] = byte(version); version == 0 {
				binary.BigEndian.PutUint32(frame[4:], uint32(opcode))
			}
			answer := c.ask(frame)
			require.Equal(t, frame[4:8], answer[4:8], "version and opcode come back, flags are 0")
			var a wire.Response
			require.NoError(t, wire.DecodeResponse(&a, answer[wire.LengthSize:]))
			if version <= 2 {
				require.Zero(t, a.Code, "%s %d", name, version)
			} else {
				require.Equal(t, int32(103), a.Code, "%s %d", name, version)
				require.Empty(t, a.Body)
			}
		}
	}
}

// Flags never come back.
func TestWire3_FlagsOfAnswersAreZero(t *testing.T) {
	c := newRig(t, server.Options{}).dial()
	for name, frame := range everyV2(1) {
		require.Equal(t, []byte{2, frame[5], 0, 0}, c.ask(frame)[4:8], name)
	}
}

// DO_FENCING brings the key, except in versions that had none.
func TestWire3_FencingNeedsItsKey(t *testing.T) {
	r := newRig(t, server.Options{})
	require.Equal(t, bk.StatusOK, r.dial().askV2(addFrame(1, 0, nil)).Status)
	for _, name := range []string{"fencing read", "recovery read", "fencing batch read"} {
		frame := everyV2(1)[name][wire.LengthSize:]
		for n := 1; n <= bk.MasterKeySize; n++ {
			c := r.dial()
			c.send(prefixed(frame[:len(frame)-n]))
			c.closed()
		}
	}
	c := r.dial()
	old := wire.AppendReadRequest(nil, wire.FlagFence, 1, 0, &testKey)[:24]
	binary.BigEndian.PutUint32(old, 20)
	old[4] = 1
	require.Equal(t, bk.StatusUnauthorized, c.askV2(old).Status)
	require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 1, nil)).Status, "not fenced by any of these")
}

// The layouts of the answers, byte by byte.
func TestWire3_LayoutOfAnswers(t *testing.T) {
	c := newRig(t, server.Options{}).dial()
	body := testDigest.AppendEntry(nil, 7, 3, 2, 4, []byte("data"))
	add := append(wire.AppendAddRequest(nil, 0, &testKey, len(body)), body...)
	ids := "00000000000000070000000000000003"
	require.Equal(t, "00000018"+"02010000"+"00000000"+ids, hex.EncodeToString(c.ask(add)))
	require.Equal(t, fmt.Sprintf("%08x", 24+len(body))+"02020000"+"00000000"+ids+hex.EncodeToString(body),
		hex.EncodeToString(c.ask(wire.AppendReadRequest(nil, 0, 7, 3, nil))))
	require.Equal(t, "00000018"+"02020000"+"00000002"+"00000000000000070000000000000009",
		hex.EncodeToString(c.ask(wire.AppendReadRequest(nil, 0, 7, 9, nil))))
	require.Equal(t, fmt.Sprintf("%08x", 24+len(body))+"02020000"+"00000000"+"0000000000000007ffffffffffffffff"+hex.EncodeToString(body),
		hex.EncodeToString(c.ask(wire.AppendReadRequest(nil, 0, 7, -1, nil))))
	batch := wire.BatchRead{Ledger: 7, First: 3, RequestID: 0x55, MaxCount: 5, MaxSize: 1000}
	require.Equal(t, fmt.Sprintf("%08x", 36+len(body))+"02070000"+"00000000"+ids+"0000000000000055"+fmt.Sprintf("%08x", len(body))+hex.EncodeToString(body),
		hex.EncodeToString(c.ask(wire.AppendBatchReadRequest(nil, batch))))
	batch.First = 9
	require.Equal(t, "00000020"+"02070000"+"00000002"+"00000000000000070000000000000009"+"0000000000000055",
		hex.EncodeToString(c.ask(wire.AppendBatchReadRequest(nil, batch))), "errors: nothing after the request id")
}

// Equal requests that are outstanding together get one answer each.
func TestWire3_EqualRequestsAreAnsweredEach(t *testing.T) {
	c := newRig(t, server.Options{}).dial()
	const n = 50
	for range n {
		c.send(addFrame(1, 0, []byte("x")), wire.AppendReadRequest(nil, 0, 1, 0, nil))
	}
	got := map[wire.Op]int{}
	for range 2 * n {
		var a wire.Response
		require.NoError(t, wire.DecodeResponse(&a, c.frame()[wire.LengthSize:]))
		require.Equal(t, bk.LedgerID(1), a.Ledger)
		got[a.Op]++
	}
	require.Equal(t, map[wire.Op]int{wire.OpAdd: n, wire.OpRead: n}, got)
}

// Batch reads: from the first on, without a gap, up to count and size.
func TestWire3_BatchRead(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial()}
	for _, e := range []bk.EntryID{0, 1, 2, 3, 5} {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: e, payload: "0123456789"}))
	}
	size := int64(4 + testDigest.Overhead() + 10) // of one entry in the answer
	ids := func(n ...bk.EntryID) []bk.EntryID { return n }
	for _, row := range []struct {
		what  string
		first bk.EntryID
		count int32
		size  int64
		want  []bk.EntryID
	}{
		{"stops at a gap, no error", 1, 10, 1 << 20, ids(1, 2, 3)},
		{"stops at the count", 0, 2, 1 << 20, ids(0, 1)},
		{"count 0: no limit", 0, 0, 1 << 20, ids(0, 1, 2, 3)},
		{"count below 0: no limit", 0, -7, 1 << 20, ids(0, 1, 2, 3)},
		{"equal to the size", 0, 10, 36 + 2*size, ids(0, 1)},
		{"one byte less", 0, 10, 36 + 2*size - 1, ids(0)},
		{"size 0: the first all the same", 2, 10, 0, ids(2)},
		{"size below 0", 2, 10, -1 << 63, ids(2)},
		{"size without limit", 0, 10, 1<<63 - 1, ids(0, 1, 2, 3)},
		{"behind the gap", 5, 10, 1 << 20, ids(5)},
	} {
		b := a.batchRead(wire.BatchRead{Ledger: 1, First: row.first, MaxCount: row.count, MaxSize: row.size})
		require.Equal(t, batch{bk.StatusOK, row.want, 32 + len(row.want)*int(size)}, b, row.what)
	}
	require.Equal(t, bk.StatusNoEntry, a.batchRead(wire.BatchRead{Ledger: 1, First: 4, MaxSize: 1 << 20}).status)
	require.Equal(t, bk.StatusNoLedger, a.batchRead(wire.BatchRead{Ledger: 2, First: 0, MaxSize: 1 << 20}).status)
	wrong := wire.BatchRead{Flags: wire.FlagFence, Ledger: 1, MasterKey: (*[bk.MasterKeySize]byte)(wrongKey)}
	require.Equal(t, bk.StatusUnauthorized, a.batchRead(wrong).status)
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: 6}), "not fenced by that")
	right := wire.BatchRead{Flags: wire.FlagFence, Ledger: 1, First: 5, MaxSize: 1 << 20, MasterKey: &testKey}
	require.Equal(t, ids(5, 6), a.batchRead(right).entries)
	require.Equal(t, bk.StatusFenced, a.add(addOf{ledger: 1, entry: 7}))
}

// The server's cap on a batch is the frame.
func TestWire3_BatchReadStopsAtTheFrame(t *testing.T) {
	a := &asker{client: newRig(t, server.Options{}).dial()}
	for e := range bk.EntryID(7) {
		require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, entry: e, payload: string(make([]byte, 1<<20))}))
	}
	b := a.batchRead(wire.BatchRead{Ledger: 1, MaxSize: 1 << 40})
	require.Equal(t, []bk.EntryID{0, 1, 2, 3}, b.entries)
}

// statusStore answers every add and read with one status.
type statusStore struct {
	server.Store
	s bk.Status
}

func (s *statusStore) AddBatch(sink bookie.AddSink, adds []bookie.Add) {
	results := make([]bookie.AddResult, len(adds))
	for i, a := range adds {
		results[i] = bookie.AddResult{Ledger: a.Ledger, Entry: a.Entry, Tag: a.Tag, Status: s.s}
	}
	sink.AddsDone(results)
}

func (s *statusStore) Read(_ bk.LedgerID, _ bk.EntryID, dst []byte) ([]byte, bk.Status) {
	return dst, s.s
}

// The numbers of the statuses in both versions; 107 is never sent.
func TestWire3_ReturnCodes(t *testing.T) {
	v2 := map[bk.Status]int32{
		bk.StatusOK: 0, bk.StatusNoLedger: 1, bk.StatusNoEntry: 2, bk.StatusBadRequest: 100, bk.StatusIO: 101,
		bk.StatusUnauthorized: 102, bk.StatusBadVersion: 103, bk.StatusFenced: 104, bk.StatusReadOnly: 105,
		bk.StatusTooManyRequests: 106, bk.StatusUnknownLedgerState: 101,
	}
	v3 := map[bk.Status]bkpb.StatusCode{
		bk.StatusOK: 0, bk.StatusNoLedger: 402, bk.StatusNoEntry: 403, bk.StatusBadRequest: 404, bk.StatusIO: 501,
		bk.StatusUnauthorized: 502, bk.StatusBadVersion: 503, bk.StatusFenced: 504, bk.StatusReadOnly: 505,
		bk.StatusTooManyRequests: 506, bk.StatusUnknownLedgerState: 507,
	}
	store := &statusStore{}
	r := newRig(t, server.Options{})
	store.Store = r.b
	r.serveInstead(store)
	c := r.dial()
	a := &asker{client: c, isV3: true}
	for s, code := range v2 {
		store.s = s
		require.Equal(t, code, c.askV2(addFrame(1, 0, nil)).Code, s)
		answer := c.askV2(wire.AppendReadRequest(nil, 0, 1, 0, nil))
		require.Equal(t, code, answer.Code, s)
		require.Equal(t, code, c.askV2(everyV2(1)["batch read"]).Code, s)
		require.Equal(t, s, a.add(addOf{ledger: 1}))
		m := a.request(wire.OpAdd, false)
		m.AddRequest = everyV3(1)["add"].AddRequest
		require.Equal(t, v3[s], a.askV3(m).GetStatus())
	}
}
