package server_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// demoAuth is the plugin of session_auth.json: c1 is answered srv1, c2 srv2,
// and then the client is in.
type demoAuth struct{}

func (demoAuth) Plugin() string                   { return "demo" }
func (demoAuth) Begin(string) server.AuthExchange { return &demoExchange{} }

type demoExchange struct{ rounds int }

func (x *demoExchange) Next(token []byte) (reply []byte, in bool, err error) {
	x.rounds++
	if string(token) != fmt.Sprintf("c%d", x.rounds) {
		return nil, false, errors.New("bad token")
	}
	return fmt.Appendf(nil, "srv%d", x.rounds), x.rounds == 2, nil
}

// Every session of a Java client with Apache's bookie, with the plugin on both
// sides, on one, and rejecting, goes with our bookie byte for byte.
func TestWire10_SessionsWithAuthentication(t *testing.T) {
	var all map[string]any
	readJSON(t, "session_auth.json", &all)
	played := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		session, ok := all[name].(map[string]any)
		if !ok {
			continue // the word on the plugin
		}
		played++
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playAuth(t, name, session) })
		})
	}
	require.Equal(t, 8, played)
}

func playAuth(t *testing.T, name string, session map[string]any) {
	var o server.Options
	if !strings.Contains(name, "bookie without") {
		o.Auth = demoAuth{}
	}
	var frames []sessionFrame
	for _, f := range session["frames"].([]any) {
		m := f.(map[string]any)
		frames = append(frames, sessionFrame{Conn: int(m["conn"].(float64)), Dir: m["dir"].(string), FrameHex: m["frameHex"].(string)})
	}
	r, conns := newRig(t, o), map[int]*client{}
	play(t, r, conns, frames)
	require.Len(t, conns, 1)
	for _, c := range conns {
		if strings.Contains(name, "rejects") {
			c.closed()
			continue
		}
		c.send(v3Request(t, &bkpb.Request{Header: wire.V3Header(wire.OpStartTLS, 5, 0)}))
		require.Equal(t, bkpb.StatusCode_EBADREQ, c.v3().GetStatus(), "still open")
	}
}

func authFrames(t testing.TB, plugin, token string) (v2, v3 []byte) {
	m := &bkpb.AuthMessage{AuthPluginName: &plugin, Payload: []byte(token)}
	v2, err := wire.AppendAuth(nil, wire.V2Version, m)
	require.NoError(t, err)
	return v2, v3Request(t, &bkpb.Request{Header: wire.V3Header(wire.OpAuth, 7, 0), AuthRequest: m})
}

// everyV3 is one request of each operation that version 3 knows, all of ledger
// l, with the key where there is a field for it.
func everyV3(l bk.LedgerID) map[string]*bkpb.Request {
	id, e, body := proto.Int64(int64(l)), proto.Int64(0), testDigest.AppendEntry(nil, l, 0, -1, 1, []byte("x"))
	last := proto.Int64(-1)
	all := map[string]*bkpb.Request{
		"add":          {AddRequest: &bkpb.AddRequest{LedgerId: id, EntryId: e, MasterKey: testKey[:], Body: body}},
		"recovery add": {AddRequest: &bkpb.AddRequest{LedgerId: id, EntryId: e, MasterKey: testKey[:], Body: body, Flag: bkpb.AddRequest_RECOVERY_ADD.Enum()}},
		"deferred add": {AddRequest: &bkpb.AddRequest{LedgerId: id, EntryId: e, MasterKey: testKey[:], Body: body, WriteFlags: proto.Int32(1)}},
		"read":         {ReadRequest: &bkpb.ReadRequest{LedgerId: id, EntryId: e}},
		"fencing read": {ReadRequest: &bkpb.ReadRequest{LedgerId: id, EntryId: last, MasterKey: testKey[:], Flag: bkpb.ReadRequest_FENCE_LEDGER.Enum()}},
		"long poll":    {ReadRequest: &bkpb.ReadRequest{LedgerId: id, EntryId: last, PreviousLac: last, TimeOut: proto.Int64(10), Flag: bkpb.ReadRequest_ENTRY_PIGGYBACK.Enum()}},
		"write LAC":    {WriteLacRequest: &bkpb.WriteLacRequest{LedgerId: id, Lac: e, MasterKey: testKey[:], Body: testDigest.AppendLAC(nil, l, 0)}},
		"read LAC":     {ReadLacRequest: &bkpb.ReadLacRequest{LedgerId: id}},
		"info":         {GetBookieInfoRequest: &bkpb.GetBookieInfoRequest{Requested: proto.Int64(3)}},
		"force":        {ForceLedgerRequest: &bkpb.ForceLedgerRequest{LedgerId: id}},
		"list entries": {GetListOfEntriesOfLedgerRequest: &bkpb.GetListOfEntriesOfLedgerRequest{LedgerId: id}},
		"auth":         {AuthRequest: &bkpb.AuthMessage{AuthPluginName: proto.String("other"), Payload: []byte("c1")}},
		"start TLS":    {StartTlsRequest: &bkpb.StartTLSRequest{}},
		"range read":   {}, "range add": {}, "batch read": {},
	}
	ops := map[string]wire.Op{
		"add": wire.OpAdd, "recovery add": wire.OpAdd, "deferred add": wire.OpAdd, "read": wire.OpRead,
		"fencing read": wire.OpRead, "long poll": wire.OpRead, "write LAC": wire.OpWriteLAC, "read LAC": wire.OpReadLAC,
		"info": wire.OpGetBookieInfo, "force": wire.OpForce, "list entries": wire.OpListEntries, "auth": wire.OpAuth,
		"start TLS": wire.OpStartTLS, "range read": wire.OpRangeRead, "range add": wire.OpRangeAdd, "batch read": wire.OpBatchRead,
	}
	for name, m := range all {
		m.Header = wire.V3Header(ops[name], 9, 0)
	}
	return all
}

// everyV2 is one request of each operation of version 2, all of ledger l.
func everyV2(l bk.LedgerID) map[string][]byte {
	body := testDigest.AppendEntry(nil, l, 0, -1, 1, []byte("x"))
	add := func(f wire.Flags) []byte {
		return append(wire.AppendAddRequest(nil, f, &testKey, len(body)), body...)
	}
	batch := wire.BatchRead{Ledger: l, RequestID: 3, MaxCount: 2, MaxSize: 1000}
	fencing := batch
	fencing.Flags, fencing.MasterKey = wire.FlagFence, &testKey
	return map[string][]byte{
		"add": add(0), "recovery add": add(wire.FlagRecoveryAdd | wire.FlagHighPriority),
		"read":               wire.AppendReadRequest(nil, 0, l, 0, nil),
		"fencing read":       wire.AppendReadRequest(nil, wire.FlagFence, l, -1, &testKey),
		"recovery read":      wire.AppendReadRequest(nil, wire.FlagFence|wire.FlagHighPriority, l, 0, &testKey),
		"batch read":         wire.AppendBatchReadRequest(nil, batch),
		"fencing batch read": wire.AppendBatchReadRequest(nil, fencing),
	}
}

// R39: a client that is not let in gets no further by any operation of either
// version, before, instead of and after a failed AUTH; the bookie stores
// nothing for it.
func TestR39_NoOperationPassesWithoutAuthentication(t *testing.T) {
	r := newRig(t, server.Options{Auth: demoAuth{}})
	otherV2, otherV3 := authFrames(t, "other", "c1")
	badV2, badV3 := authFrames(t, "demo", "nonsense")
	for name, frame := range everyV2(1) {
		for range 2 { // instead of, and again
			c := r.dial()
			c.send(frame)
			if strings.Contains(name, "batch") {
				c.closed() // version 2 has no answer
				continue
			}
			var a wire.Response
			require.NoError(t, wire.DecodeResponse(&a, c.frame()[wire.LengthSize:]), name)
			require.Equal(t, bk.StatusUnauthorized, a.Status, name)
			require.Empty(t, a.Body, name)
			c.send(badV2, frame) // and after
			c.closed()
		}
	}
	for name, m := range everyV3(1) {
		c := r.dial()
		frame := v3Request(t, m)
		for range 2 {
			c.send(frame)
			want := &bkpb.Response{Header: m.Header, Status: bkpb.StatusCode_EUA.Enum()}
			if name == "start TLS" {
				want.Status = bkpb.StatusCode_EBADREQ.Enum()
			}
			require.True(t, proto.Equal(want, c.v3()), name)
			c.send(otherV3) // instead of: stays open, and out
			require.Equal(t, bkpb.StatusCode_EUA, c.v3().GetStatus(), name)
		}
		c.send(badV3, frame)
		require.Equal(t, bkpb.StatusCode_EUA, c.v3().GetStatus(), name)
		c.closed()
	}
	c := r.dial()
	c.send(otherV2)
	c.closed()
	_, s := r.b.LAC(1)
	require.Equal(t, bk.StatusNoLedger, s, "a ledger was made by someone outside")
}

// Once let in by either version, a client may use both; AUTH again does no
// harm.
func TestWire10_LetInForBothVersions(t *testing.T) {
	r := newRig(t, server.Options{Auth: demoAuth{}})
	first, _ := authFrames(t, "demo", "c1")
	_, second := authFrames(t, "demo", "c2")
	c := r.dial()
	c.send(first)
	require.Equal(t, "00000010020300000a0464656d6f120473727631", fmt.Sprintf("%x", c.frame()))
	c.send(second, addFrame(1, 0, []byte("at once")))
	require.Equal(t, bkpb.StatusCode_EOK, c.v3().GetStatus())
	var a wire.Response
	require.NoError(t, wire.DecodeResponse(&a, c.frame()[wire.LengthSize:]))
	require.Equal(t, bk.StatusOK, a.Status)
	c.send(second)
	require.Equal(t, wire.AuthDisabledPlugin, c.v3().AuthResponse.GetAuthPluginName())
}

// On a bookie without a plugin, any AUTH is answered, also one in the middle
// of other traffic.
func TestWire10_AnyPluginIsLetInWithoutAuth(t *testing.T) {
	c := newRig(t, server.Options{}).dial()
	require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, nil)).Status)
	for _, plugin := range []string{"sasl", "", "AuthDisabledPlugin"} {
		v2, v3 := authFrames(t, plugin, "token")
		require.Equal(t, "0000001a020300000a124175746844697361626c6564506c7567696e1200", fmt.Sprintf("%x", c.ask(v2)))
		require.Equal(t, "000000230a060803100518071000b206160a124175746844697361626c6564506c7567696e1200", fmt.Sprintf("%x", c.ask(v3)))
	}
}
