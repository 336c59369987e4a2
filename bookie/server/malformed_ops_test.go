package server_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// everyPayload is one good request of each operation and kind, of both
// versions, without its length prefix.
func everyPayload(t testing.TB, l bk.LedgerID) map[string][]byte {
	all := map[string][]byte{}
	for name, frame := range everyV2(l) {
		all["v2 "+name] = frame[wire.LengthSize:]
	}
	for name, m := range everyV3(l) {
		all["v3 "+name] = v3Request(t, m)[wire.LengthSize:]
	}
	v2, _ := authFrames(t, "sasl", "token")
	all["v2 auth"] = v2[wire.LengthSize:]
	return all
}

// answered says by the words of the protocol whether a bookie answers a frame,
// once; if not, it closes the connection.
func answered(p []byte) bool {
	if len(p) > 0 && p[0] == 0x0a {
		return answeredV3(p)
	}
	if len(p) < 4 {
		return false
	}
	version, op, flags := p[0], uint32(p[1]), binary.BigEndian.Uint16(p[2:])
	if version == 0 {
		op, flags = binary.BigEndian.Uint32(p), 0
	}
	fence := flags&1 != 0
	switch op {
	case 1: // header, master key, ledger and entry id of the body
		return len(p) >= 4+20+16
	case 2:
		return len(p) >= 4+16 && (!fence || version < 2 || len(p) >= 4+16+20)
	case 3:
		return proto.Unmarshal(p[4:], new(bkpb.AuthMessage)) == nil
	case 7:
		return len(p) >= 4+16+20 && (!fence || len(p) >= 4+16+20+20)
	default:
		return false
	}
}

func answeredV3(p []byte) bool {
	m := new(bkpb.Request)
	if proto.Unmarshal(p, m) != nil {
		return false
	}
	v, op := m.Header.GetVersion(), m.Header.GetOperation()
	return v >= 1 && v <= 3 && op >= 1 && op <= 12
}

// prober sends frames over one connection after another, each with a probe
// behind it, and requires what the protocol says of the frame: one answer, of
// the same version and operation, or the end of the connection.
type prober struct {
	*rig
	t      testing.TB
	c      *client
	n      int64
	closed int
}

// try sends one payload. what says what was done to it.
func (p *prober) try(what string, payload []byte) {
	p.t.Helper()
	if len(payload) == 0 {
		return // a length of 0 is no frame
	}
	if p.c == nil {
		p.c = p.dial()
	}
	p.n++
	probe := bk.LedgerID(1<<40 + p.n)
	p.c.send(prefixed(payload), wire.AppendReadRequest(nil, 0, probe, 0, nil))
	if !answered(payload) {
		// What was sent before may still be answered; the probe is not.
		for f := p.c.frame(); f != nil; f = p.c.frame() {
			require.Fail(p.t, "answered", "%s: %x got %x", what, payload, f)
		}
		p.c, p.closed = nil, p.closed+1
		return
	}
	probes := 0
	for range 2 {
		f := p.c.frame()
		require.NotNil(p.t, f, "%s: %x closed the connection", what, payload)
		if isProbe(f, probe) {
			probes++
			continue
		}
		requireAnswerTo(p.t, what, payload, f)
	}
	require.Equal(p.t, 1, probes, "%s: %x", what, payload)
}

func isProbe(frame []byte, l bk.LedgerID) bool {
	var r wire.Response
	return !wire.IsV3(frame[wire.LengthSize:]) && wire.DecodeResponse(&r, frame[wire.LengthSize:]) == nil && r.Ledger == l
}

// requireAnswerTo requires that frame is in the version of the request, and of
// its operation.
func requireAnswerTo(t testing.TB, what string, request, frame []byte) {
	t.Helper()
	a := frame[wire.LengthSize:]
	require.Equal(t, wire.IsV3(request), wire.IsV3(a), "%s: %x got %x", what, request, a)
	if !wire.IsV3(request) {
		require.Equal(t, request[:2], a[:2], "%s: version and opcode", what)
		return
	}
	q := new(bkpb.Request)
	require.NoError(t, proto.Unmarshal(request, q))
	m, err := wire.DecodeResponseV3(a)
	require.NoError(t, err, what)
	require.Equal(t, q.Header.GetTxnId(), m.Header.GetTxnId(), what)
	require.Equal(t, q.Header.GetOperation(), m.Header.GetOperation(), what)
}

// R29: every request of both versions, cut at each byte, made longer, with each
// bit turned over: each is answered once or ends its connection, as the
// protocol says; nothing large is allocated; a neighbour notices nothing.
func TestR29_EveryOperationDamaged(t *testing.T) {
	r := newRig(t, server.Options{LongPollMax: time.Millisecond})
	neighbour := r.dial()
	require.Equal(t, bk.StatusOK, neighbour.askV2(addFrame(9, 0, []byte("neighbour"))).Status)
	all := everyPayload(t, 1)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		good := all[name]
		p := &prober{rig: r, t: t}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p.try(name, good)
		for n := 1; n < len(good); n++ {
			p.try(fmt.Sprintf("%s cut to %d bytes", name, n), good[:n])
		}
		for _, tail := range [][]byte{{0}, {0xff}, {0x0a}, {0x0a, 0}, bytes.Repeat([]byte{0x55}, 100), good} {
			p.try(name+" made longer", append(bytes.Clone(good), tail...))
		}
		for bit := range 8 * len(good) {
			damaged := bytes.Clone(good)
			damaged[bit/8] ^= 1 << (bit % 8)
			p.try(fmt.Sprintf("%s with bit %d turned over", name, bit), damaged)
		}
		runtime.ReadMemStats(&after)
		// A connection costs 2 read buffers of 16 KiB, one on each side.
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(p.n+1)*(64<<10), name)
		require.NotZero(t, p.closed, name)
		require.Equal(t, bk.StatusOK, neighbour.askV2(wire.AppendReadRequest(nil, 0, 9, 0, nil)).Status, name)
	}
}

// R29: every request of both versions with the connection ending at each byte
// of it: nothing is answered, nothing is done.
func TestR29_EveryOperationCutByTheEnd(t *testing.T) {
	closed := make(chan error, 1)
	r := newRig(t, server.Options{Events: server.Events{Closed: func(_ string, err error) { closed <- err }}})
	for name, good := range everyPayload(t, 77) {
		frame := prefixed(good)
		for n := 1; n < len(frame); n++ {
			c := r.dial()
			c.send(frame[:n])
			require.NoError(t, c.nc.Close())
			require.ErrorContains(t, <-closed, "unexpected EOF", "%s cut to %d bytes", name, n)
		}
	}
	_, s := r.b.LAC(77)
	require.Equal(t, bk.StatusNoLedger, s)
}

// R29: half of any request, then silence: dropped after the idle limit, with
// nothing said; a neighbour that is only idle stays. Time is virtual.
func TestR29_EveryOperationHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 30 * time.Second
		r := newRig(t, server.Options{IdleMax: limit})
		idle := r.dial()
		require.Equal(t, bk.StatusOK, idle.askV2(addFrame(1, 0, []byte("x"))).Status)
		start := time.Now()
		var half []*client
		for _, good := range everyPayload(t, 77) {
			frame := prefixed(good)
			for _, n := range []int{1, 3, 4, 5, len(frame) / 2, len(frame) - 1} {
				c := r.dial()
				c.send(frame[:n])
				half = append(half, c)
			}
		}
		synctest.Wait()
		require.Equal(t, len(half)+1, r.srv.Conns())
		for _, c := range half {
			require.NoError(t, c.nc.SetReadDeadline(start.Add(time.Hour)))
			n, err := c.nc.Read(make([]byte, 1))
			require.Zero(t, n)
			require.Error(t, err)
			require.WithinRange(t, time.Now(), start.Add(limit), start.Add(2*limit))
		}
		synctest.Wait()
		require.Equal(t, 1, r.srv.Conns())
		require.Equal(t, bk.StatusOK, idle.askV2(wire.AppendReadRequest(nil, 0, 1, 0, nil)).Status)
		_, s := r.b.LAC(77)
		require.Equal(t, bk.StatusNoLedger, s)
	})
}

// R29: wrong lengths in front of any request.
func TestR29_EveryOperationWithAWrongLength(t *testing.T) {
	r := newRig(t, server.Options{LongPollMax: time.Millisecond})
	for name, good := range everyPayload(t, 1) {
		for _, n := range []uint32{0, wire.MaxFrame - wire.LengthSize + 1, 1 << 31, 1<<31 - 1, 1<<32 - 1} {
			c := r.dial()
			c.send(append(binary.BigEndian.AppendUint32(nil, n), good...))
			require.Nil(t, c.frame(), "%s under length %d", name, n)
		}
		for _, less := range []int{1, 2, 3} { // the rest is the start of the next length
			c := r.dial()
			c.send(append(binary.BigEndian.AppendUint32(nil, uint32(len(good)-less)), good...))
			if answered(good[:len(good)-less]) {
				requireAnswerTo(t, name, good[:len(good)-less], c.frame())
			} else {
				require.Nil(t, c.frame(), name)
			}
		}
	}
}

// R29: every version, opcode and flag of a version 2 header in front of every
// request.
func TestR29_EveryV2Header(t *testing.T) {
	r := newRig(t, server.Options{})
	for name, frame := range everyV2(1) {
		p := &prober{rig: r, t: t}
		good := frame[wire.LengthSize:]
		change := func(what string, i int, v byte) {
			damaged := bytes.Clone(good)
			damaged[i] = v
			p.try(what, damaged)
		}
		for v := range 256 {
			change(fmt.Sprintf("%s of version %d", name, v), 0, byte(v))
			change(fmt.Sprintf("%s with opcode %d", name, v), 1, byte(v))
			change(fmt.Sprintf("%s with high flags %x", name, v), 2, byte(v))
			change(fmt.Sprintf("%s with low flags %x", name, v), 3, byte(v))
		}
		for op := range uint32(300) { // version 0: the whole int is the opcode
			damaged := bytes.Clone(good)
			binary.BigEndian.PutUint32(damaged, op)
			p.try(fmt.Sprintf("%s as opcode %d of version 0", name, op), damaged)
		}
	}
}

// R29: every operation number and version of a version 3 header in front of
// every message.
func TestR29_EveryV3Header(t *testing.T) {
	r := newRig(t, server.Options{LongPollMax: time.Millisecond})
	for name, m := range everyV3(1) {
		p := &prober{rig: r, t: t}
		for _, op := range []int32{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 99, 1<<31 - 1, -1 << 31} {
			for _, version := range []int32{-1, 0, 1, 2, 3, 4, 255} {
				q := proto.CloneOf(m)
				q.Header.Operation, q.Header.Version = bkpb.OperationType(op).Enum(), bkpb.ProtocolVersion(version).Enum()
				p.try(fmt.Sprintf("%s as operation %d of version %d", name, op, version), v3Request(t, q)[wire.LengthSize:])
			}
		}
	}
}

// R29: ids that are no ids, and sizes and limits at their ends, in every field
// of every request: each is answered, and the bookie stands.
func TestR29_EveryIDAndLimit(t *testing.T) {
	r := newRig(t, server.Options{LongPollMax: time.Millisecond})
	p := &prober{rig: r, t: t}
	extremes := []int64{-1, -2, -0x1000, -0x8000, -1 << 31, -1 << 63, 0, 1<<31 - 1, 1 << 31, 1<<63 - 1}
	for name, frame := range everyV2(1) {
		offsets := []int{4, 12, 20, 28, 32} // of reads
		if strings.HasSuffix(name, "add") {
			offsets = []int{24, 32, 40, 48}
		}
		for _, v := range extremes {
			for _, off := range offsets {
				damaged := bytes.Clone(frame[wire.LengthSize:])
				if off+8 > len(damaged) {
					continue
				}
				binary.BigEndian.PutUint64(damaged[off:], uint64(v))
				p.try(fmt.Sprintf("%s with %d at byte %d", name, v, off), damaged)
			}
		}
	}
	for name, m := range everyV3(1) {
		for _, v := range extremes {
			for _, q := range withEveryInt(m, v) {
				p.try(fmt.Sprintf("%s with %d", name, v), v3Request(t, q)[wire.LengthSize:])
			}
		}
	}
	require.Zero(t, p.closed)
}

// withEveryInt gives copies of m, each with one integer field set to v.
func withEveryInt(m *bkpb.Request, v int64) (all []*bkpb.Request) {
	set := func(change func(q *bkpb.Request)) {
		q := proto.CloneOf(m)
		change(q)
		all = append(all, q)
	}
	u := uint32(v)
	set(func(q *bkpb.Request) { q.Header.Priority = &u })
	switch {
	case m.AddRequest != nil:
		flags := int32(v)
		set(func(q *bkpb.Request) { q.AddRequest.LedgerId = &v })
		set(func(q *bkpb.Request) { q.AddRequest.EntryId = &v })
		set(func(q *bkpb.Request) { q.AddRequest.WriteFlags = &flags })
		set(func(q *bkpb.Request) { q.AddRequest.Flag = bkpb.AddRequest_Flag(v).Enum() })
		for off := 0; off <= 16; off += 8 {
			set(func(q *bkpb.Request) { binary.BigEndian.PutUint64(q.AddRequest.Body[off:], uint64(v)) })
		}
	case m.ReadRequest != nil:
		set(func(q *bkpb.Request) { q.ReadRequest.LedgerId = &v })
		set(func(q *bkpb.Request) { q.ReadRequest.EntryId = &v })
		set(func(q *bkpb.Request) { q.ReadRequest.PreviousLac = &v })
		set(func(q *bkpb.Request) { q.ReadRequest.TimeOut = &v })
		set(func(q *bkpb.Request) { q.ReadRequest.Flag = bkpb.ReadRequest_Flag(v).Enum() })
	case m.WriteLacRequest != nil:
		set(func(q *bkpb.Request) { q.WriteLacRequest.LedgerId = &v })
		set(func(q *bkpb.Request) { q.WriteLacRequest.Lac = &v })
		for off := 0; off <= 8; off += 8 {
			set(func(q *bkpb.Request) { binary.BigEndian.PutUint64(q.WriteLacRequest.Body[off:], uint64(v)) })
		}
	case m.ReadLacRequest != nil:
		set(func(q *bkpb.Request) { q.ReadLacRequest.LedgerId = &v })
	case m.GetBookieInfoRequest != nil:
		set(func(q *bkpb.Request) { q.GetBookieInfoRequest.Requested = &v })
	case m.ForceLedgerRequest != nil:
		set(func(q *bkpb.Request) { q.ForceLedgerRequest.LedgerId = &v })
	case m.GetListOfEntriesOfLedgerRequest != nil:
		set(func(q *bkpb.Request) { q.GetListOfEntriesOfLedgerRequest.LedgerId = &v })
	}
	return all
}

// R29: protobuf that announces more than there is, in any field that has a
// length, nested, or as groups without end: closed, and nothing allocated.
func TestR29_ProtobufThatAnnouncesTooMuch(t *testing.T) {
	r := newRig(t, server.Options{})
	for name, m := range everyV3(1) {
		head, err := proto.Marshal(&bkpb.Request{Header: m.Header})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []uint64{200, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 40, 1<<63 - 1, 1<<64 - 1} {
			for _, field := range []protowire.Number{1, 100, 101, 102, 103, 105, 108, 200, 5000} {
				p := protowire.AppendVarint(protowire.AppendTag(bytes.Clone(head), field, protowire.BytesType), size)
				requireClosedCheaply(t, r, name, append(p, 1, 2, 3))
			}
			// The same inside an add: its key, then its body.
			inner := protowire.AppendVarint([]byte{0x08, 1, 0x10, 0, 0x1a}, size)
			requireClosedCheaply(t, r, name, append(protowire.AppendBytes(protowire.AppendTag(bytes.Clone(head), 101, protowire.BytesType), inner), 7))
		}
		requireClosedCheaply(t, r, name, append(bytes.Clone(head), bytes.Repeat([]byte{0xa3, 0x06}, 50_000)...))
	}
}

func requireClosedCheaply(t *testing.T, r *rig, name string, payload []byte) {
	t.Helper()
	require.False(t, answered(payload))
	c := r.dial()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.send(prefixed(payload))
	require.Nil(t, c.frame(), name)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20+8*len(payload)), name)
}
