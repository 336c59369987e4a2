package server_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
)

func prefixed(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// tlsHello is the start of a TLS 1.2 ClientHello.
var tlsHello = []byte{0x16, 0x03, 0x01, 0x00, 0xa5, 0x01, 0x00, 0x00, 0xa1, 0x03, 0x03, 1, 2, 3, 4, 5, 6, 7, 8}

// R29: garbage at the port closes its connection, allocates nothing above the
// frame limit, and leaves other clients alone.
func TestR29MalformedFramesCloseTheConnection(t *testing.T) {
	r := newRig(t, server.Options{})
	other := r.dial()
	require.Equal(t, bk.StatusOK, other.askV2(addFrame(1, 0, []byte("before"))).Status)
	for name, b := range map[string][]byte{
		"length 0":                   {0, 0, 0, 0},
		"length 3":                   {0, 0, 0, 3, 2, 1, 0},
		"length 2^31-1":              {0x7f, 0xff, 0xff, 0xff},
		"length -1":                  {0xff, 0xff, 0xff, 0xff},
		"one byte over the limit":    binary.BigEndian.AppendUint32(nil, wire.MaxFrame-wire.LengthSize+1),
		"HTTP GET":                   []byte("GET / HTTP/1.1\r\nHost: bookie\r\n\r\n"),
		"TLS hello":                  tlsHello,
		"v2 without header":          prefixed([]byte{2}),
		"v2 opcode 4":                prefixed(unhex(t, "0204000000000000000000140000000000000000")),
		"v2 fence without key":       prefixed(unhex(t, "0202000100000000000000140000000000000000")),
		"v2 auth that is no message": prefixed([]byte{2, 3, 0, 0, 0xff}),
		"v3 cut short":               prefixed([]byte{0x0a, 0x06, 0x08}),
		"v3 operation 99":            prefixed(unhex(t, "0a06080310631801")),
	} {
		c := r.dial()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c.send(b)
		require.Nil(t, c.frame(), name)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(wire.MaxFrame/2), name)
		require.Equal(t, bk.StatusOK, other.askV2(wire.AppendReadRequest(nil, 0, 1, 0, nil)).Status, name)
	}
}

// R29: frames of the right length with random bytes. The only answer that one
// may get is to an opcode that happens to exist.
func TestR29RandomFrames(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d: set it in this test to replay", seed)
	rng := rand.New(rand.NewPCG(seed, 29))
	r := newRig(t, server.Options{})
	other := r.dial()
	require.Equal(t, bk.StatusOK, other.askV2(addFrame(1, 0, []byte("before"))).Status)
	for range 300 {
		p := make([]byte, 4+rng.IntN(200))
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		c := r.dial()
		c.send(prefixed(p))
		var q wire.Request
		if !wire.IsV3(p) && wire.DecodeRequest(&q, p) == nil && q.Op != wire.OpAuth {
			require.NotNil(t, c.frame(), "%x", p)
		} else {
			require.Nil(t, c.frame(), "%x", p)
		}
		c.nc.Close()
	}
	require.Equal(t, bk.StatusOK, other.askV2(wire.AppendReadRequest(nil, 0, 1, 0, nil)).Status)
}

// R29: half a frame, then silence. The peer is dropped after the idle limit;
// a connection that is idle between frames is not. Time is virtual.
func TestR29HalfFrameThenSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, server.Options{IdleMax: 30 * time.Second})
		idle := r.dial()
		require.Equal(t, bk.StatusOK, idle.askV2(addFrame(1, 0, []byte("x"))).Status)
		half := r.dial()
		frame := addFrame(1, 1, make([]byte, 1000))
		half.send(frame[:500])
		start := time.Now()
		time.AfterFunc(20*time.Second, func() { half.send(frame[500:600]) })
		require.NoError(t, half.nc.SetReadDeadline(time.Time{}))
		_, err := half.nc.Read(make([]byte, 1))
		require.Error(t, err)
		require.GreaterOrEqual(t, time.Since(start), 50*time.Second, "bytes that come late restart the limit")
		require.LessOrEqual(t, time.Since(start), 60*time.Second)
		synctest.Wait()
		require.Equal(t, 1, r.srv.Conns())
		<-time.After(time.Hour)
		require.Equal(t, bk.StatusOK, idle.askV2(addFrame(1, 1, []byte("y"))).Status)
	})
}

// R29: many peers that announce the largest frame and send nothing cost no
// memory to speak of.
func TestR29AnnouncedLengthsAllocateNothing(t *testing.T) {
	r := newRig(t, server.Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	clients := make([]*client, 100)
	for i := range clients {
		clients[i] = r.dial()
		clients[i].send(binary.BigEndian.AppendUint32(nil, wire.MaxFrame-wire.LengthSize))
	}
	require.Equal(t, bk.StatusOK, r.dial().askV2(addFrame(1, 0, []byte("x"))).Status)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100*wire.MaxFrame/20))
}

// Frames in front of a malformed one are served.
func TestMalformedFrameAfterGoodOnes(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.dial()
	c.send(addFrame(1, 0, []byte("good")), []byte{0, 0, 0, 0})
	for c.frame() != nil {
	}
	d := r.dial()
	require.Eventually(t, func() bool {
		return d.askV2(wire.AppendReadRequest(nil, 0, 1, 0, nil)).Status == bk.StatusOK
	}, 10*time.Second, time.Millisecond)
}

// The largest frame passes in both directions; of one larger nothing is kept.
func TestLargestFrame(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.dial()
	payload := bytes.Repeat([]byte{7}, wire.MaxFrame-wire.AddRequestOverhead-testDigest.Overhead())
	require.Equal(t, bk.StatusOK, c.askV2(addFrame(5, 0, payload)).Status)
	answer := c.ask(wire.AppendReadRequest(nil, 0, 5, 0, nil))
	require.Len(t, answer, wire.MaxFrame)
	// What does not fit an answer of another kind is refused, not cut.
	batch := wire.AppendBatchReadRequest(nil, wire.BatchRead{Ledger: 5, MaxSize: wire.MaxFrame})
	require.Equal(t, bk.StatusBadRequest, c.askV2(batch).Status)
	v3, err := wire.DecodeResponseV3(c.ask(unhex(t, "0000000f0a06080310011804a2060408051000"))[wire.LengthSize:])
	require.NoError(t, err)
	require.Equal(t, bk.StatusBadRequest.V3(), int32(v3.GetStatus()))
}
