package zkstore

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// frame puts a length in front.
func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// connectRequest is what the client library writes first.
func connectRequest() []byte {
	b := make([]byte, 44)
	binary.BigEndian.PutUint32(b[12:], 6000)
	binary.BigEndian.PutUint32(b[24:], passwordBytes)
	return frame(b)
}

// granted is the server's answer to it.
func granted(session int64, timeout time.Duration, password string) []byte {
	b := make([]byte, 4, 37)
	b = binary.BigEndian.AppendUint32(b, uint32(timeout/time.Millisecond))
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, passwordBytes)
	p := [passwordBytes]byte{}
	copy(p[:], password)
	return frame(append(append(b, p[:]...), 0))
}

// answerTo is the head of an answer and n bytes of body.
func answerTo(xid int32, zxid int64, n int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	b = binary.BigEndian.AppendUint64(b, uint64(zxid))
	return frame(append(b, make([]byte, 4+n)...))
}

func requestOf(xid, op int32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	return frame(binary.BigEndian.AppendUint32(b, uint32(op)))
}

// The session to continue goes into the connect request, and what the server
// grants is learnt, however the bytes are cut into reads.
func TestWireCarriesTheSession(t *testing.T) {
	for size := 1; size < 100; size += 7 {
		client, server := net.Pipe()
		id := identity{session: 0x1234, zxid: 99}
		copy(id.password[:], "0123456789abcdef")
		w := newWire(client, id)
		sent := make(chan []byte, 1)
		go func() {
			b := make([]byte, 48)
			_, err := io.ReadFull(server, b)
			if err == nil {
				sent <- b
				_, err = server.Write(append(granted(0x1234, 4*time.Second, "fedcba9876543210"), answerTo(1, 120, 5000)...))
			}
			if err == nil {
				_, err = server.Write(append(answerTo(xidEvent, -1, 30), answerTo(2, 110, 0)...))
			}
			if err != nil {
				close(sent)
			}
		}()
		before := time.Now()
		_, err := w.Write(connectRequest())
		require.NoError(t, err)
		b := <-sent
		require.Len(t, b, 48)
		require.EqualValues(t, 99, binary.BigEndian.Uint64(b[8:]))
		require.EqualValues(t, 6000, binary.BigEndian.Uint32(b[16:]))
		require.EqualValues(t, 0x1234, binary.BigEndian.Uint64(b[20:]))
		require.Equal(t, "0123456789abcdef", string(b[32:]))
		for n, total := 0, 41+5020+50+20; n < total; {
			buf := make([]byte, size)
			m, err := w.Read(buf)
			require.NoError(t, err)
			n += m
		}
		got, timeout, alive := w.state()
		require.EqualValues(t, 0x1234, got.session)
		require.Equal(t, "fedcba9876543210", string(got.password[:]))
		require.EqualValues(t, 120, got.zxid)
		require.Equal(t, 4*time.Second, timeout)
		require.False(t, alive.Before(before))
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
	}
}

// alive is when the request was sent that the last answer belongs to, not when
// the answer came; an event answers nothing.
func TestWireCountsFromTheRequest(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	w := newWire(client, identity{})
	go io.Copy(io.Discard, server) // ends with the pipe
	write := func(b []byte) time.Time {
		_, err := w.Write(b)
		require.NoError(t, err)
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.pending[len(w.pending)-1].sent
	}
	read := func(b []byte) time.Time {
		w.mu.Lock()
		w.observe(b)
		w.mu.Unlock()
		_, _, alive := w.state()
		return alive
	}
	hello := write(connectRequest())
	require.Equal(t, hello, read(granted(7, time.Second, "p")))
	one, two, end := write(requestOf(1, 4)), write(requestOf(-2, 11)), write(requestOf(3, opCloseSession))
	require.Equal(t, hello, read(answerTo(xidEvent, -1, 10)))
	require.Equal(t, one, read(answerTo(1, 5, 100)))
	require.Equal(t, two, read(answerTo(-2, 5, 0)))
	require.False(t, w.over())
	require.Equal(t, end, read(answerTo(3, 6, 0)))
	require.True(t, w.over())
	w.cut()
	_, err := w.Write(requestOf(4, 4))
	require.ErrorIs(t, err, net.ErrClosed)
}

// FuzzWire: whatever a server sends is counted without a panic, in any pieces
// with the same result.
func FuzzWire(f *testing.F) {
	f.Add(append(granted(1, time.Second, "p"), answerTo(1, 2, 3)...), 5)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 9}, 1)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0}, 2)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		whole, parts := newWire(nil, identity{}), newWire(nil, identity{})
		whole.observe(b)
		if size <= 0 {
			size = 1
		}
		for rest := b; len(rest) > 0; {
			n := min(size, len(rest))
			parts.observe(rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, whole.id, parts.id)
		require.Equal(t, whole.skip, parts.skip)
		require.Equal(t, whole.granted, parts.granted)
	})
}
