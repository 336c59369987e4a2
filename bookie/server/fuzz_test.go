package server_test

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// scriptConn gives the server a fixed stream of bytes, and keeps its answers.
type scriptConn struct {
	net.Conn
	in     *bytes.Reader
	closed chan struct{}

	mu  sync.Mutex // guards out until closed is closed; then nothing is written
	out bytes.Buffer
	end bool
}

func (c *scriptConn) Read(p []byte) (int, error) { return c.in.Read(p) }
func (c *scriptConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end { // the reader has ended the connection meanwhile
		return 0, net.ErrClosed
	}
	return c.out.Write(p)
}
func (c *scriptConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = true
	close(c.closed)
	return nil
}
func (c *scriptConn) RemoteAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scriptConn) SetReadDeadline(_ time.Time) error { return nil }

// scriptListener accepts what it is sent.
type scriptListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *scriptListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *scriptListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *scriptListener) Addr() net.Addr { return &net.TCPAddr{} }

// addBehaviours seeds with the requests of the golden behaviours.
func addBehaviours(f *testing.F) {
	text, err := os.ReadFile("testdata/bookie_behaviours.json")
	require.NoError(f, err)
	var all []behaviour
	require.NoError(f, json.Unmarshal(text, &all))
	for _, b := range all {
		if !strings.HasPrefix(b.RequestHex, "(") {
			f.Add(unhex(f, b.RequestHex))
		}
	}
}

// Whatever bytes come: the server does not panic, each answer is a frame, the
// connection ends once its stream has ended, and the next one is served.
func FuzzConnection(f *testing.F) {
	addBehaviours(f)
	o := bookietest.Small()
	o.FS, o.JournalDirs, o.LedgerDirs = vfs.NewMem(), []string{"/j"}, []string{"/l"}
	store, err := bookie.Open(f.Context(), o)
	require.NoError(f, err)
	srv, err := server.New(store, server.Options{LongPollMax: time.Millisecond})
	require.NoError(f, err)
	l := &scriptListener{conns: make(chan net.Conn), done: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	f.Cleanup(func() {
		require.NoError(f, srv.Close())
		require.ErrorIs(f, <-served, server.ErrClosed)
		require.NoError(f, store.Close())
	})
	play := func(stream []byte) []byte {
		c := &scriptConn{in: bytes.NewReader(stream), closed: make(chan struct{})}
		l.conns <- c
		<-c.closed
		return c.out.Bytes()
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		for rest := play(stream); len(rest) > 0; {
			fr := wire.NewFrameReader(bytes.NewReader(rest))
			require.NoError(t, fr.Fill())
			p, err := fr.Next()
			require.NoError(t, err)
			if p == nil {
				break // larger than one read, or cut by the close
			}
			rest = rest[wire.LengthSize+len(p):]
		}
		var a wire.Response
		answer := play(wire.AppendReadRequest(nil, 0, 1<<62, 0, nil))
		require.NoError(t, wire.DecodeResponse(&a, answer[wire.LengthSize:]))
		require.Equal(t, bk.StatusNoLedger, a.Status)
	})
}

// untouchable is a store that nobody may reach. Its methods panic.
type untouchable struct{ server.Store }

// never lets nobody in.
type never struct{}

func (never) Plugin() string                    { return "demo" }
func (never) Begin(string) server.AuthExchange  { return never{} }
func (never) Next([]byte) ([]byte, bool, error) { return []byte("srv1"), false, nil }

// R39: whatever bytes come from a client that is not let in, none of them
// reaches the store, and the only statuses are EUA, and the answers to AUTH and
// START_TLS.
func FuzzStranger(f *testing.F) {
	addBehaviours(f)
	for _, m := range everyV3(1) {
		f.Add(v3Request(f, m))
	}
	v2, v3 := authFrames(f, "demo", "c1")
	f.Add(append(v2, v3...))
	srv, err := server.New(untouchable{}, server.Options{Auth: never{}})
	require.NoError(f, err)
	l := &scriptListener{conns: make(chan net.Conn), done: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	f.Cleanup(func() {
		require.NoError(f, srv.Close())
		require.ErrorIs(f, <-served, server.ErrClosed)
	})
	f.Fuzz(func(t *testing.T, stream []byte) {
		c := &scriptConn{in: bytes.NewReader(stream), closed: make(chan struct{})}
		l.conns <- c
		<-c.closed
		fr := wire.NewFrameReader(&c.out)
		for fr.Fill() == nil {
			for {
				p, err := fr.Next()
				require.NoError(t, err)
				if p == nil {
					break
				}
				requireStranger(t, p)
			}
		}
	})
}

func requireStranger(t *testing.T, p []byte) {
	if !wire.IsV3(p) {
		var a wire.Response
		require.NoError(t, wire.DecodeResponse(&a, p))
		if a.Op != wire.OpAuth {
			require.Equal(t, bk.StatusUnauthorized, a.Status)
			require.Empty(t, a.Body)
		}
		return
	}
	m, err := wire.DecodeResponseV3(p)
	require.NoError(t, err)
	switch op := wire.Op(m.Header.GetOperation()); {
	case op == wire.OpStartTLS:
		require.NotEqual(t, bkpb.StatusCode_EOK, m.GetStatus())
	case op == wire.OpAuth && m.GetStatus() == bkpb.StatusCode_EOK:
		require.Equal(t, "srv1", string(m.AuthResponse.GetPayload()))
	default:
		require.Equal(t, bkpb.StatusCode_EUA, m.GetStatus())
		require.Nil(t, m.ReadResponse)
	}
}
