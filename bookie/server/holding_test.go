package server_test

import (
	"bytes"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// R29: requests that wait hold no more memory than what they ask, whatever
// else their frames had in them.
func TestR29_WaitingRequestsHoldLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{reads: make(chan struct{})}
		r := gatedRig(t, g, server.Options{ReadWorkers: 1})
		c := r.dial()
		const requests, padding = 100, 256 << 10
		pad := bytes.Repeat([]byte{7}, padding)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range requests {
			m := everyV3(1)["read"]
			m.Header.TxnId = proto.Uint64(uint64(i))
			p := v3Request(t, m)[wire.LengthSize:]
			for _, field := range []protowire.Number{200, 4000} { // a context that is none of ours, and a field from the future
				p = protowire.AppendTag(p, field, protowire.BytesType)
				if field == 200 {
					p = protowire.AppendBytes(p, protowire.AppendBytes([]byte{0x0a, 1, 'k', 0x12}, pad))
				} else {
					p = protowire.AppendBytes(p, pad)
				}
			}
			c.send(prefixed(p))
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		close(g.reads)
		require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(requests*padding/10))
		for range requests {
			require.Equal(t, bkpb.StatusCode_ENOLEDGER, c.v3().GetStatus())
		}
	})
}

// Keys and explicit LACs that no client of anyone's sends are refused: a bookie
// would carry them for as long as the ledger lives.
func TestR29_HugeKeysAreRefused(t *testing.T) {
	r := newRig(t, server.Options{})
	a := &asker{client: r.dial(), isV3: true}
	most := bytes.Repeat([]byte{1}, 1024)
	huge := append(most, 1)
	require.Equal(t, bk.StatusOK, a.add(addOf{ledger: 1, key: most}))
	require.Equal(t, bk.StatusBadRequest, a.add(addOf{ledger: 2, key: huge}))
	require.Equal(t, bk.StatusBadRequest, a.fence(2, -1, huge).status)
	require.Equal(t, bk.StatusBadRequest, a.writeLAC(2, 0, huge))
	m := a.request(wire.OpWriteLAC, false)
	m.WriteLacRequest = &bkpb.WriteLacRequest{LedgerId: proto.Int64(2), Lac: proto.Int64(0), MasterKey: testKey[:], Body: huge}
	require.Equal(t, bkpb.StatusCode_EBADREQ, a.askV3(m).GetStatus())
	require.Equal(t, bk.StatusNoLedger, a.read(2, -1).status)
	require.Equal(t, bk.StatusOK, a.fence(1, 0, most).status)
}
