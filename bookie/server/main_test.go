package server_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testAddr = "bookie:3181"

// rig is a real bookie behind a server in memory.
type rig struct {
	t   testing.TB
	b   *bookie.Bookie
	srv *server.Server
	net *bookietest.Network
}

func newRig(t testing.TB, o server.Options) *rig {
	t.Helper()
	bo := bookietest.Small()
	bo.WriteCacheBytes = 16 << 20 // holds the largest frame
	bo.JournalGroupBytes = 16 << 20
	bo.FS, bo.JournalDirs, bo.LedgerDirs = vfs.NewMem(), []string{"/j"}, []string{"/l"}
	b, err := bookie.Open(t.Context(), bo)
	require.NoError(t, err)
	r := &rig{t: t, b: b, net: bookietest.NewNetwork()}
	r.srv = serve(t, r.net, b, o)
	t.Cleanup(func() {
		require.NoError(t, r.srv.Close())
		require.NoError(t, b.Close())
	})
	return r
}

func serve(t testing.TB, n *bookietest.Network, store server.Store, o server.Options) *server.Server {
	t.Helper()
	srv, err := server.New(store, o)
	require.NoError(t, err)
	l, err := n.Listen(testAddr)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() { require.ErrorIs(t, <-served, server.ErrClosed) })
	return srv
}

// serveInstead puts another store behind a new server.
func (r *rig) serveInstead(store server.Store) {
	r.t.Helper()
	require.NoError(r.t, r.srv.Close())
	r.net = bookietest.NewNetwork()
	r.srv = serve(r.t, r.net, store, server.Options{})
	r.t.Cleanup(func() { require.NoError(r.t, r.srv.Close()) })
}

// client is one raw connection.
type client struct {
	t  testing.TB
	nc net.Conn
	fr *wire.FrameReader
}

func dial(t testing.TB, n *bookietest.Network) *client {
	t.Helper()
	nc, err := n.Dial(t.Context(), testAddr)
	require.NoError(t, err)
	return newClient(t, nc)
}

func newClient(t testing.TB, nc net.Conn) *client {
	t.Cleanup(func() { nc.Close() })
	return &client{t, nc, wire.NewFrameReader(nc)}
}

func (r *rig) dial() *client { r.t.Helper(); return dial(r.t, r.net) }

func (c *client) send(frames ...[]byte) {
	c.t.Helper()
	_, err := c.nc.Write(bytes.Join(frames, nil))
	require.NoError(c.t, err)
}

// frame gives the next frame with its prefix, nil at the end of the connection.
func (c *client) frame() []byte {
	c.t.Helper()
	require.NoError(c.t, c.nc.SetReadDeadline(time.Now().Add(20*time.Second)))
	for {
		p, err := c.fr.Next()
		require.NoError(c.t, err)
		if p != nil {
			return append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)
		}
		switch err := c.fr.Fill(); {
		case err == io.EOF:
			return nil
		case err != nil:
			require.NoError(c.t, err)
		}
	}
}

func (c *client) ask(frame []byte) []byte {
	c.t.Helper()
	c.send(frame)
	return c.frame()
}

func (c *client) askV2(frame []byte) wire.Response {
	c.t.Helper()
	var r wire.Response
	answer := c.ask(frame)
	require.NotNil(c.t, answer, "connection closed")
	require.NoError(c.t, wire.DecodeResponse(&r, answer[wire.LengthSize:]))
	return r
}

// closed requires that the connection ends with no answer.
func (c *client) closed() {
	c.t.Helper()
	require.Nil(c.t, c.frame())
}

var (
	testKey    = bk.MasterKey([]byte("pw"))
	testDigest = func() *bk.Digester {
		d, err := bk.NewDigester(bk.DigestCRC32C, []byte("pw"))
		if err != nil {
			panic(err)
		}
		return d
	}()
)

func addFrame(l bk.LedgerID, e bk.EntryID, payload []byte) []byte {
	body := testDigest.AppendEntry(nil, l, e, e-1, int64(len(payload))*int64(e+1), payload)
	return append(wire.AppendAddRequest(nil, 0, &testKey, len(body)), body...)
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.TrimSpace(s))
	require.NoError(t, err)
	return b
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}
