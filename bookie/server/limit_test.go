package server_test

import (
	"bytes"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// lastBody remembers the entry that was added last, and gives it to every
// read.
type lastBody struct {
	server.Store
	body []byte
}

func (s *lastBody) AddBatch(sink bookie.AddSink, adds []bookie.Add) {
	for _, a := range adds {
		s.body = append(s.body[:0], a.Body...)
		sink.AddsDone([]bookie.AddResult{{Ledger: a.Ledger, Entry: a.Entry, Tag: a.Tag}})
	}
}

func (s *lastBody) Read(_ bk.LedgerID, _ bk.EntryID, dst []byte) ([]byte, bk.Status) {
	return append(dst, s.body...), bk.StatusOK
}

func (s *lastBody) LAC(bk.LedgerID) (bk.EntryID, bk.Status) { return 0, bk.StatusOK }

// overhead of each request and answer around an entry body, from the layouts;
// of version 3 for ledger 1, entry 0, a transaction id below 128.
const (
	v2AddOverhead   = 4 + 4 + 20
	v2ReadOverhead  = 4 + 4 + 4 + 16
	v2BatchOverhead = 4 + 4 + 4 + 16 + 8 + 4
	v3AddOverhead   = 4 + 8 + 6 + 4 + 22 + 5    // prefix, header, message, ids, key, body
	v3ReadOverhead  = 4 + 8 + 2 + 6 + 6 + 5 + 2 // prefix, header, status, message, status and ids, body, LAC
)

// R28: requests of 64 bytes below the frame limit to 64 above it, a byte at a
// time, in both versions. Up to the limit an add is taken and what is read
// back is all of it, or a refusal with a status where the answer's frame is the
// larger one; above the limit the connection ends at once, whatever of the
// body has come. After each, an entry of a byte succeeds.
func TestR28_SizesAroundTheFrameLimit(t *testing.T) {
	r := newRig(t, server.Options{})
	r.serveInstead(&lastBody{Store: r.b})
	c := r.dial()
	for _, isV3 := range []bool{false, true} {
		overhead := v2AddOverhead
		if isV3 {
			overhead = v3AddOverhead
		}
		for size := wire.MaxFrame - 64; size <= wire.MaxFrame+64; size += frameLimitStride {
			body := bytes.Repeat([]byte{byte(size)}, size-overhead)
			frame := addBody(t, isV3, body)
			require.Equal(t, size, len(frame))
			if size > wire.MaxFrame {
				d := r.dial()
				d.send(frame[:4+size%1000])
				d.closed()
			} else {
				require.Equal(t, bk.StatusOK, addStatus(t, c.ask(frame)), "%d bytes", size)
				readAround(t, c, body)
			}
			require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, []byte{1})).Status)
		}
	}
}

// R28 with the real store: the largest frames are kept, also over a restart of
// the connection.
func TestR28_LargestFramesAreStored(t *testing.T) {
	r := newRig(t, server.Options{})
	for _, isV3 := range []bool{false, true} {
		overhead := v2AddOverhead
		if isV3 {
			overhead = v3AddOverhead
		}
		for _, size := range []int{wire.MaxFrame - 1, wire.MaxFrame} {
			body := testDigest.AppendEntry(nil, 1, 0, 0, 0, make([]byte, size-overhead-testDigest.Overhead()))
			require.Equal(t, bk.StatusOK, addStatus(t, r.dial().ask(addBody(t, isV3, body))))
			readAround(t, r.dial(), body)
		}
	}
}

func addBody(t *testing.T, isV3 bool, body []byte) []byte {
	if !isV3 {
		return append(wire.AppendAddRequest(nil, 0, &testKey, len(body)), body...)
	}
	m := &bkpb.Request{Header: wire.V3Header(wire.OpAdd, 1, 0), AddRequest: &bkpb.AddRequest{
		LedgerId: proto.Int64(1), EntryId: proto.Int64(0), MasterKey: testKey[:], Body: body,
	}}
	p, err := proto.Marshal(m)
	require.NoError(t, err)
	return prefixed(p)
}

func addStatus(t *testing.T, frame []byte) bk.Status {
	require.NotNil(t, frame, "connection closed")
	if wire.IsV3(frame[wire.LengthSize:]) {
		m, err := wire.DecodeResponseV3(frame[wire.LengthSize:])
		require.NoError(t, err)
		return statusOf(t, m)
	}
	var a wire.Response
	require.NoError(t, wire.DecodeResponse(&a, frame[wire.LengthSize:]))
	return a.Status
}

// readAround reads the entry in each way there is.
func readAround(t *testing.T, c *client, body []byte) {
	t.Helper()
	check := func(what string, overhead int, frame []byte) {
		t.Helper()
		if size := overhead + len(body); size > wire.MaxFrame {
			require.Equal(t, bk.StatusBadRequest, addStatus(t, frame), "%s: %d bytes", what, size)
			require.Less(t, len(frame), 100)
			return
		}
		require.Equal(t, bk.StatusOK, addStatus(t, frame), what)
		require.Equal(t, overhead+len(body), len(frame), what)
		require.True(t, bytes.Contains(frame[len(frame)-len(body)-2:], body), what)
	}
	check("v2 read", v2ReadOverhead, c.ask(wire.AppendReadRequest(nil, 0, 1, 0, nil)))
	check("v2 batch read", v2BatchOverhead, c.ask(wire.AppendBatchReadRequest(nil, wire.BatchRead{Ledger: 1, MaxCount: 1, MaxSize: 1 << 40})))
	check("v3 read", v3ReadOverhead, c.ask(unhex(t, "0000000f"+"0a06080310011804"+"a2060408011000")))
}

// stripes holds two of three entries of a long ledger.
type stripes struct{ server.Store }

func (stripes) Entries(bk.LedgerID) (iter.Seq[bk.EntryID], bk.Status) {
	return func(yield func(bk.EntryID) bool) {
		for e := range bk.EntryID(900_000) {
			if e%3 != 1 && !yield(e) {
				return
			}
		}
	}, bk.StatusOK
}

// The list of a ledger of 300,000 runs fits its frame all the same.
func TestWire11_ListOfALongStripedLedger(t *testing.T) {
	r := newRig(t, server.Options{})
	r.serveInstead(stripes{r.b})
	c := r.dial()
	c.send(v3Request(t, everyV3(1)["list entries"]))
	m := c.v3()
	require.Equal(t, bkpb.StatusCode_EOK, m.GetStatus())
	b := m.GetListOfEntriesOfLedgerResponse.AvailabilityOfEntriesOfLedger
	require.Less(t, len(b), 200)
	set, err := wire.DecodeAvailability(b)
	require.NoError(t, err)
	require.Equal(t, int64(600_000), set.Len())
	require.True(t, set.Contains(899_999))
	require.False(t, set.Contains(1))
}
