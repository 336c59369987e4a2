package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers each call on a goroutine of its own, after a while or at once.
type echo struct {
	wg   sync.WaitGroup
	hung chan *Peer
	hold func(c *Call)
}

func (e *echo) Hangup(p *Peer) { e.hung <- p }

func (e *echo) Call(c *Call) {
	e.wg.Go(func() {
		if e.hold != nil {
			e.hold(c)
		}
		dlsn := c.Stream
		c.Reply(&Reply{Write: &WriteResponse{Header: &ResponseHeader{Code: Success}, Dlsn: &dlsn}})
		c.Reply(&Reply{}) // only the first counts
	})
}

type served struct {
	echo   *echo
	addr   string
	cancel context.CancelFunc
	errs   chan error
}

func serve(t *testing.T, o ConnOptions, hold func(*Call)) *served {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{echo: &echo{hung: make(chan *Peer, 64), hold: hold}, addr: ln.Addr().String(), cancel: cancel, errs: make(chan error, 64)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.errs <- ServeConn(ctx, nc, s.echo, o) })
		}
	})
	t.Cleanup(func() {
		cancel()
		require.NoError(t, ln.Close())
		wg.Wait()
		s.echo.wg.Wait()
	})
	return s
}

func (s *served) dial(t *testing.T) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	return nc
}

func heartbeat(name string) *Call { return &Call{Method: Heartbeat, Stream: name} }

// TestRepliesAreToldByNumber: calls of a connection are carried out at once and
// replied to as they end; each caller gets its own.
func TestRepliesAreToldByNumber(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	s := serve(t, ConnOptions{CallsMax: 16}, func(*Call) {
		mu.Lock()
		d := time.Duration(rng.IntN(1000)) * time.Microsecond
		mu.Unlock()
		<-time.After(d)
	})
	c := NewConn(s.dial(t), 0)
	const n = 200
	got := make(chan [2]string, n)
	for i := range n {
		want := fmt.Sprint(i)
		c.Go(heartbeat(want), func(r *Reply, err error) {
			if err != nil {
				got <- [2]string{want, err.Error()}
				return
			}
			got <- [2]string{want, r.Write.GetDlsn()}
		})
	}
	for range n {
		pair := <-got
		require.Equal(t, pair[0], pair[1])
	}
	require.NoError(t, c.Close())
	require.NotNil(t, <-s.echo.hung)
	require.ErrorIs(t, c.Err(), ErrConnClosed)
	_, err := c.Call(context.Background(), heartbeat("x"))
	require.ErrorIs(t, err, ErrConnClosed)
}

// TestSlowCallHoldsUpNobody: another call of the same connection is answered
// meanwhile.
func TestSlowCallHoldsUpNobody(t *testing.T) {
	leave := make(chan struct{})
	s := serve(t, ConnOptions{}, func(c *Call) {
		if c.Stream == "slow" {
			<-leave
		}
	})
	c := NewConn(s.dial(t), 0)
	slow := make(chan error, 1)
	c.Go(heartbeat("slow"), func(_ *Reply, err error) { slow <- err })
	for range 10 {
		r, err := c.Call(context.Background(), heartbeat("fast"))
		require.NoError(t, err)
		require.Equal(t, "fast", r.Write.GetDlsn())
	}
	close(leave)
	require.NoError(t, <-slow)
	require.NoError(t, c.Close())
}

// TestEndOfServingAnswersWhatIsOutstanding: the end of ctx stops the reading,
// not the replies.
func TestEndOfServingAnswersWhatIsOutstanding(t *testing.T) {
	release := make(chan struct{})
	taken := make(chan struct{}, 8)
	s := serve(t, ConnOptions{}, func(*Call) { taken <- struct{}{}; <-release })
	c := NewConn(s.dial(t), 0)
	answers := make(chan error, 3)
	for range 3 {
		c.Go(heartbeat("a"), func(_ *Reply, err error) { answers <- err })
	}
	for range 3 {
		<-taken
	}
	s.cancel()
	close(release)
	for range 3 {
		require.NoError(t, <-answers)
	}
	require.ErrorIs(t, <-s.errs, context.Canceled)
	require.NoError(t, c.Close())
}

func TestLostConnectionFailsCalls(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, ConnOptions{}, func(*Call) { <-release })
	nc := s.dial(t)
	c := NewConn(nc, 0)
	answers := make(chan error, 2)
	for range 2 {
		c.Go(heartbeat("a"), func(_ *Reply, err error) { answers <- err })
	}
	require.NoError(t, nc.Close())
	for range 2 {
		require.ErrorIs(t, <-answers, ErrConnClosed)
	}
	close(release)
	require.NoError(t, c.Close())
}

func frame(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...)
}

// badFrames are what R29 sends, and more: each must close the connection.
func badFrames(t testing.TB) map[string][]byte {
	call := func(method, args string) []byte {
		b := unhex(t, "80010001")
		b = binary.BigEndian.AppendUint32(b, uint32(len(method)))
		b = append(b, method...)
		return frame(append(b, unhex(t, "00000001"+args)...))
	}
	return map[string][]byte{
		"length 0":           unhex(t, "00000000"),
		"length 3":           unhex(t, "00000003ffffff"),
		"length 2^31-1":      unhex(t, "7fffffff"),
		"length -1":          unhex(t, "ffffffff"),
		"HTTP GET":           []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS hello":          unhex(t, "16030100c8010000c40303"),
		"string size 2^30":   call("write", "0b000140000000"),
		"string size -1":     call("write", "0b0001ffffffff"),
		"container 2^30":     call("writeBulkWithContext", "0b000100000001730f00020b40000000"),
		"container -1":       call("writeBulkWithContext", "0b000100000001730f00020bffffffff"),
		"set of 2^30":        call("heartbeat", "0b000100000001730c00020e00010b40000000"),
		"skipped map 2^30":   call("write", "0d00630b0b40000000"),
		"skipped list 2^30":  call("write", "0f00630240000000"),
		"unknown field type": call("write", "ff0063"),
		"nested too deep":    call("write", "0c0063"+string(bytes.Repeat([]byte("0c0001"), 100))),
		"no stop":            call("write", "0b00010000000173"),
		"bytes behind":       call("handshake", "0000"),
		"reply type":         frame(unhex(t, "800100020000000968616e647368616b650000000100")),
		"version 2":          frame(unhex(t, "800200010000000968616e647368616b650000000100")),
		"name of 2^30":       frame(unhex(t, "8001000140000000")),
		"old style, 2^30":    frame(unhex(t, "40000000")),
	}
}

// TestGarbageClosesTheConnectionR29: nothing is allocated for what a frame only
// claims, and others are served meanwhile.
func TestGarbageClosesTheConnectionR29(t *testing.T) {
	s := serve(t, ConnOptions{FrameBytesMax: 1 << 20}, nil)
	good := NewConn(s.dial(t), 0)
	var before, after runtime.MemStats
	for name, garbage := range badFrames(t) {
		t.Run(name, func(t *testing.T) {
			nc := s.dial(t)
			runtime.ReadMemStats(&before)
			_, err := nc.Write(garbage)
			require.NoError(t, err)
			require.NoError(t, nc.SetReadDeadline(time.Now().Add(5*time.Second)))
			n, err := io.Copy(io.Discard, nc)
			require.Zero(t, n, "an answer to garbage")
			require.False(t, timedOut(err), "the connection stays open") // a reset is as good as an end
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20))
			r, err := good.Call(context.Background(), heartbeat("a"))
			require.NoError(t, err)
			require.Equal(t, Success, r.Header().Code)
		})
	}
	require.NoError(t, good.Close())
}

// TestHalfFrameIsDroppedR29: a peer that stops in the middle of a frame, and
// one that says nothing, are dropped after their limits; one that was accepted for a large
// frame got memory only for what it sent.
func TestHalfFrameIsDroppedR29(t *testing.T) {
	s := serve(t, ConnOptions{FrameBytesMax: 64 << 20, FrameTimeout: 50 * time.Millisecond, IdleTimeout: 100 * time.Millisecond}, nil)
	for _, half := range [][]byte{unhex(t, "03ffffff8001"), unhex(t, "00"), nil} {
		nc := s.dial(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := nc.Write(half)
		require.NoError(t, err)
		require.NoError(t, nc.SetReadDeadline(time.Now().Add(5*time.Second)))
		_, err = nc.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		require.Error(t, <-s.errs)
	}
}

// TestPeerThatDoesNotReadIsDropped: replies are not piled up for it.
func TestPeerThatDoesNotReadIsDropped(t *testing.T) {
	s := serve(t, ConnOptions{CallsMax: 8, WriteTimeout: 100 * time.Millisecond}, nil)
	nc := s.dial(t)
	long := string(bytes.Repeat([]byte("n"), 1<<20))
	buf, err := AppendCall(nil, heartbeat(long))
	require.NoError(t, err)
	require.NoError(t, nc.SetWriteDeadline(time.Now().Add(10*time.Second)))
	for {
		if _, err = nc.Write(buf); err != nil {
			break
		}
	}
	require.False(t, timedOut(err), "the server neither reads nor ends")
	require.Error(t, <-s.errs)
}

func TestWrongRepliesEndTheConnection(t *testing.T) {
	for name, hexes := range map[string]string{
		"other number": "800100020000000968656172746265617400000063" + "0c00000c0001080001000000c8000000",
		"other method": "800100020000000968616e647368616b6500000001" + "0c000000",
		"no result":    "800100020000000968656172746265617400000001" + "00",
		"no header":    "800100020000000968656172746265617400000001" + "0c00000000",
		"a call":       "800100010000000968656172746265617400000001" + "00",
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			c := NewConn(here, 0)
			answer := make(chan error, 1)
			c.Go(heartbeat("a"), func(_ *Reply, err error) { answer <- err })
			_, err := NewFrameReader(there, 0).Next()
			require.NoError(t, err)
			_, err = there.Write(frame(unhex(t, hexes)))
			require.NoError(t, err)
			require.ErrorIs(t, <-answer, ErrProtocol)
			require.NoError(t, c.Close())
			require.NoError(t, there.Close())
		})
	}
}
