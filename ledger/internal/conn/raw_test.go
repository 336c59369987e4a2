package conn_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
	"github.com/loglode/loglode/ledger/internal/conn"
)

// rawPeer is a bookie played by the test, byte by byte.
type rawPeer struct {
	*testing.T
	pool  *conn.Pool
	conns chan net.Conn // those dialled
}

func newRawPeer(t *testing.T) *rawPeer {
	p := &rawPeer{T: t, conns: make(chan net.Conn, 8)}
	p.pool = conn.NewPool(conn.Options{
		Dial: func(context.Context, string) (net.Conn, error) {
			client, server := net.Pipe()
			p.conns <- server
			return client, nil
		},
		Resolve:     func(context.Context, bk.BookieID) (string, error) { return "b0:1", nil },
		DialTimeout: 10 * time.Second, Tick: 10 * time.Millisecond, QueueBytes: 1 << 20,
		StallTimeout: 10 * time.Second, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond,
	})
	t.Cleanup(p.pool.Close)
	return p
}

// start sends a call; its end comes on the channel.
func (p *rawPeer) start(c conn.Call) <-chan *conn.Call {
	done := make(chan *conn.Call, 1)
	c.Timeout, c.Done = 20*time.Second, func(c *conn.Call) { done <- c }
	p.pool.Bookie("b0:1").Start(&c)
	return done
}

// accept gives the next connection and the first frame on it, prefix included.
func (p *rawPeer) accept() (net.Conn, []byte) {
	p.Helper()
	nc := <-p.conns
	p.Cleanup(func() { nc.Close() })
	return nc, p.read(nc)
}

func (p *rawPeer) read(nc net.Conn) []byte {
	p.Helper()
	require.NoError(p, nc.SetReadDeadline(time.Now().Add(20*time.Second)))
	prefix := make([]byte, wire.LengthSize)
	_, err := io.ReadFull(nc, prefix)
	require.NoError(p, err)
	frame := append(prefix, make([]byte, binary.BigEndian.Uint32(prefix))...)
	_, err = io.ReadFull(nc, frame[wire.LengthSize:])
	require.NoError(p, err)
	return frame
}

func (p *rawPeer) send(nc net.Conn, frames ...[]byte) {
	p.Helper()
	_, err := nc.Write(bytes.Join(frames, nil))
	require.NoError(p, err)
}

func v3Answer(t testing.TB, m *bkpb.Response) []byte {
	t.Helper()
	f, err := wire.AppendV3(nil, m)
	require.NoError(t, err)
	return f
}

// There is no banner, and a client without an authentication plugin has
// nothing to say before its first request, in either version.
func TestWire10_ClientWithoutPluginStartsWithItsRequest(t *testing.T) {
	p := newRawPeer(t)
	p.start(conn.Call{Op: conn.OpRead, Ledger: 1000, Entry: 0})
	nc, first := p.accept()
	require.Equal(t, "000000140202000000000000000003e80000000000000000", hex.EncodeToString(first))
	nc.Close()
	p.start(conn.Call{Op: conn.OpForce, Ledger: 1004})
	_, first = p.accept()
	require.Equal(t, "0000000e0a060803100a1802da060308ec07", hex.EncodeToString(first))
}

// A bookie with a plugin answers a client without one by EUA: in version 3
// without a sub-message, in version 2 by rc 102. The connection stays.
func TestWire10_ClientWithoutPluginIsRefused(t *testing.T) {
	p := newRawPeer(t)
	done := p.start(conn.Call{Op: conn.OpForce, Ledger: 1})
	nc, _ := p.accept()
	p.send(nc, unhex(t, "0000000b0a060803100a180110f603"))
	require.ErrorIs(t, (<-done).Failure(), bk.ErrUnauthorized)
	done = p.start(conn.Call{Op: conn.OpForce, Ledger: 1})
	p.read(nc)
	p.send(nc, v3Answer(t, &bkpb.Response{
		Header: wire.V3Header(wire.OpForce, 2, 0), Status: bkpb.StatusCode_EOK.Enum(),
		ForceLedgerResponse: &bkpb.ForceLedgerResponse{Status: bkpb.StatusCode_EOK.Enum(), LedgerId: proto.Int64(1)},
	}))
	require.NoError(t, (<-done).Failure())

	done = p.start(conn.Call{Op: conn.OpRead, Ledger: 5, Entry: 0})
	nc, _ = p.accept()
	p.send(nc, wire.AppendReadAnswer(nil, wire.V2Version, bk.StatusUnauthorized, 5, 0, 0))
	require.ErrorIs(t, (<-done).Failure(), bk.ErrUnauthorized)
	require.Empty(t, p.conns)
}

// Nobody here asked to authenticate: an AUTH answer is passed over, like any
// answer without a request.
func TestWire3_UnmatchedAnswersArePassedOver(t *testing.T) {
	p := newRawPeer(t)
	done := p.start(conn.Call{Op: conn.OpRead, Ledger: 1, Entry: 7})
	nc, _ := p.accept()
	p.send(nc,
		unhex(t, "0000001a020300000a124175746844697361626c6564506c7567696e1200"),
		wire.AppendReadAnswer(nil, wire.V2Version, bk.StatusNoEntry, 1, 8, 0),
		wire.AppendReadAnswer(nil, wire.V2Version, bk.StatusNoEntry, 2, 7, 0),
		wire.AppendAddAnswer(nil, wire.V2Version, bk.StatusOK, 1, 7),
		wire.AppendBatchReadAnswer(nil, wire.V2Version, bk.StatusOK, 1, 7, 1, 0),
		wire.AppendReadAnswer(nil, wire.V2Version, bk.StatusOK, 1, 7, 3), []byte("abc"))
	c := <-done
	require.NoError(t, c.Failure())
	require.Equal(t, "abc", string(c.Body))

	done = p.start(conn.Call{Op: conn.OpForce, Ledger: 1})
	nc, _ = p.accept()
	ok := bkpb.StatusCode_EOK.Enum()
	for id := range uint64(2) { // 2 is the call's
		p.send(nc, v3Answer(t, &bkpb.Response{Header: wire.V3Header(wire.OpForce, id, 0), Status: bkpb.StatusCode_EIO.Enum()}),
			v3Answer(t, &bkpb.Response{Header: wire.V3Header(wire.OpAuth, id, 0), Status: ok}))
	}
	p.send(nc, v3Answer(t, &bkpb.Response{
		Header: wire.V3Header(wire.OpForce, 2, 0), Status: ok,
		ForceLedgerResponse: &bkpb.ForceLedgerResponse{Status: ok, LedgerId: proto.Int64(1)},
	}))
	require.NoError(t, (<-done).Failure())
}

// A version 3 answer whose operation is not that of its transaction id ends
// the connection, and with it the call.
func TestWire4_AnswerOfAnotherOperation(t *testing.T) {
	p := newRawPeer(t)
	done := p.start(conn.Call{Op: conn.OpForce, Ledger: 1})
	nc, _ := p.accept()
	p.send(nc, v3Answer(t, &bkpb.Response{Header: wire.V3Header(wire.OpReadLAC, 1, 0), Status: bkpb.StatusCode_EOK.Enum()}))
	c := <-done
	require.ErrorIs(t, c.Failure(), bk.ErrBookieUnavailable)
	require.ErrorIs(t, c.Failure(), wire.ErrMalformed)
}

// The envelope's status comes first, then that of the message in it.
func TestWire4_StatusOfEnvelopeThenOfMessage(t *testing.T) {
	p := newRawPeer(t)
	done := p.start(conn.Call{Op: conn.OpForce, Ledger: 1})
	nc, _ := p.accept()
	for i, row := range []struct{ envelope, message bkpb.StatusCode }{
		{bkpb.StatusCode_EUA, bkpb.StatusCode_EOK}, {bkpb.StatusCode_EOK, bkpb.StatusCode_EUA},
	} {
		if i > 0 {
			done = p.start(conn.Call{Op: conn.OpForce, Ledger: 1})
			p.read(nc)
		}
		p.send(nc, v3Answer(t, &bkpb.Response{
			Header: wire.V3Header(wire.OpForce, uint64(i+1), 0), Status: &row.envelope,
			ForceLedgerResponse: &bkpb.ForceLedgerResponse{Status: &row.message, LedgerId: proto.Int64(1)},
		}))
		require.ErrorIs(t, (<-done).Failure(), bk.ErrUnauthorized)
	}
}

// Codes that nobody knows, of either version, are errors of that bookie, and
// never "no entry".
func TestWire3_UnknownCodesAreErrors(t *testing.T) {
	p := newRawPeer(t)
	var nc net.Conn
	for i, code := range []uint32{3, 99, 107, 108, 999, 1 << 31, 403} {
		done := p.start(conn.Call{Op: conn.OpRead, Ledger: 1, Entry: bk.EntryID(i)})
		if nc == nil {
			nc, _ = p.accept()
		} else {
			p.read(nc)
		}
		frame := wire.AppendReadAnswer(nil, wire.V2Version, bk.StatusOK, 1, bk.EntryID(i), 0)
		binary.BigEndian.PutUint32(frame[8:], code)
		p.send(nc, frame)
		c := <-done
		require.Error(t, c.Failure(), "%d", code)
		require.False(t, c.Status.Missing(), "%d", code)
	}
}

// Frames that a bookie may not send end the connection at once, and what was
// outstanding on it; the next request gets another.
func TestR29_MalformedAnswersEndTheConnection(t *testing.T) {
	p := newRawPeer(t)
	for name, b := range map[string][]byte{
		"length 0":              {0, 0, 0, 0},
		"length 2^31-1":         {0x7f, 0xff, 0xff, 0xff},
		"length -1":             {0xff, 0xff, 0xff, 0xff},
		"over the limit":        binary.BigEndian.AppendUint32(nil, wire.MaxFrame-wire.LengthSize+1),
		"no header":             {0, 0, 0, 2, 2, 2},
		"v2 opcode 4":           unhex(t, "00000018020400000000000000000000000000010000000000000000"),
		"v2 read cut short":     unhex(t, "0000000c020200000000000000000000"),
		"v2 add cut short":      unhex(t, "000000170201000000000000000000000000000100000000000000"),
		"v2 batch without id":   unhex(t, "00000018020700000000000000000000000000010000000000000000"),
		"v3 answer on a v2 one": unhex(t, "0000000b0a060803100a180110f603"),
		"HTTP":                  []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
	} {
		done := p.start(conn.Call{Op: conn.OpRead, Ledger: 1, Entry: 0})
		nc, _ := p.accept()
		p.send(nc, b)
		require.ErrorIs(t, (<-done).Failure(), bk.ErrBookieUnavailable, name)
		_, err := nc.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, name)
	}
	for name, b := range map[string][]byte{
		"v2 answer on a v3 one":  wire.AppendReadAnswer(nil, wire.V2Version, bk.StatusOK, 1, 0, 0),
		"cut short":              unhex(t, "000000030a0608"),
		"no status":              unhex(t, "000000080a060803100a1801"),
		"unknown operation":      unhex(t, "0000000b0a0608031063180110f603"),
		"unknown header version": unhex(t, "0000000b0a060804100a180110f603"),
		"sub-message too long":   unhex(t, "0000000e0a060803100a18011000da06ff7f"),
		"sub-message of 2^63":    unhex(t, "000000160a060803100a18011000da06ffffffffffffffff7f00"),
	} {
		done := p.start(conn.Call{Op: conn.OpForce, Ledger: 1})
		nc, _ := p.accept()
		p.send(nc, b)
		require.ErrorIs(t, (<-done).Failure(), bk.ErrBookieUnavailable, name)
		_, err := nc.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, name)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}
