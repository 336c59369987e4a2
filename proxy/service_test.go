package proxy

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

func code(t *testing.T, c *wire.Conn, cl *wire.Call) wire.Code {
	t.Helper()
	return call(t, c, cl).Header().Code
}

func on(m wire.Method, name string) *wire.Call {
	return &wire.Call{Method: m, Stream: name, Context: &wire.WriteContext{}}
}

func bulk(name string, payloads ...string) *wire.Call {
	c := on(wire.WriteBulkWithContext, name)
	for _, p := range payloads {
		c.Data = append(c.Data, []byte(p))
	}
	return c
}

func TestEveryMethod(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l)
	nd := c.nodes[0]
	conn := nd.raw(t)

	r := call(t, conn, &wire.Call{Method: wire.Write, Stream: "s", Data: [][]byte{[]byte("plain")}})
	require.Equal(t, wire.Success, r.Header().Code)
	d, err := stream.ParseDLSN(r.Write.GetDlsn())
	require.NoError(t, err)
	require.Equal(t, stream.DLSN{Segment: 1}, d)

	r = call(t, conn, bulk("s", "x", "", "z"))
	require.Equal(t, wire.Success, r.Header().Code)
	require.Len(t, r.Items, 3)
	for i, it := range r.Items {
		require.NoError(t, it.Failure())
		require.Equal(t, stream.DLSN{Segment: 1, Entry: 1, Slot: int64(i)}, it.DLSN)
	}
	r = call(t, conn, bulk("s"))
	require.Equal(t, wire.Success, r.Header().Code)
	require.Empty(t, r.Items)

	set := on(wire.WriteWithContext, "s")
	yes := true
	set.Data, set.Context.IsRecordSet = [][]byte{[]byte("packed")}, &yes
	require.Equal(t, wire.Success, code(t, conn, set))
	require.Equal(t, []string{"plain", "x", "", "z", "set:packed"}, l.payloads("s"))

	require.Equal(t, wire.Success, code(t, conn, on(wire.Heartbeat, "s")))
	beat := on(wire.HeartbeatWithOptions, "s")
	beat.Options = &wire.HeartbeatOptions{SendHeartBeatToReader: &yes}
	require.Equal(t, wire.Success, code(t, conn, beat))

	cut := on(wire.Truncate, "s")
	cut.DLSN = stream.DLSN{Segment: 1, Entry: 1, Slot: 1}.Base64()
	require.Equal(t, wire.Success, code(t, conn, cut))
	require.Equal(t, stream.DLSN{Segment: 1, Entry: 1, Slot: 1}, l.streams["s"].first)
	cut.DLSN = "no DLSN"
	require.EqualValues(t, wire.TypeInternalError, call(t, conn, cut).Err.Type)

	require.Equal(t, wire.LogNotFound, code(t, conn, write("new", "a")))
	require.Equal(t, wire.Success, code(t, conn, on(wire.Create, "new")))
	require.Equal(t, wire.Success, code(t, conn, on(wire.Create, "new")), "one that exists is as good")
	require.Equal(t, wire.Success, code(t, conn, write("new", "a")))
	require.Equal(t, wire.Success, code(t, conn, on(wire.Delete, "new")))
	require.Equal(t, wire.LogNotFound, code(t, conn, write("new", "b")))
	require.Equal(t, wire.LogNotFound, code(t, conn, on(wire.Delete, "new")))
	require.Equal(t, wire.Success, code(t, conn, on(wire.Release, "s")))

	r = call(t, conn, &wire.Call{Name: "__can__finagle__trace__v3__"})
	require.EqualValues(t, wire.TypeUnknownMethod, r.Err.Type)
	require.Equal(t, "Invalid method name: '__can__finagle__trace__v3__'", r.Err.Message)
}

func TestHandshake(t *testing.T) {
	c := startCluster(t, 1, newLogs("a-1", "a-2", "b-1"))
	nd := c.nodes[0]
	conn := nd.raw(t)
	for _, s := range []string{"a-1", "a-2", "b-1"} {
		require.Equal(t, wire.Success, code(t, conn, write(s, "x")))
	}
	here := nd.Location()
	info := call(t, conn, &wire.Call{Method: wire.Handshake}).Info
	require.Equal(t, wire.WriteAndAccept, info.GetServerStatus())
	require.Equal(t, map[string]string{"a-1": here, "a-2": here, "b-1": here}, info.Ownerships)
	hello := func(re string, own *bool) *wire.ServerInfo {
		return call(t, conn, &wire.Call{Method: wire.HandshakeWithClientInfo, Client: &wire.ClientInfo{StreamNameRegex: &re, GetOwnerships: own}}).Info
	}
	yes, no := true, false
	require.Equal(t, map[string]string{"a-1": here, "a-2": here}, hello("a-.", &yes).Ownerships)
	require.Empty(t, hello("a-", nil).Ownerships, "the whole name must match")
	require.Len(t, hello(".*", nil).Ownerships, 3)
	require.Nil(t, hello(".*", &no).Ownerships)

	call(t, conn, &wire.Call{Method: wire.SetAcceptNewStream, Enabled: false})
	require.Equal(t, wire.WriteOnly, hello(".*", &no).GetServerStatus())
	require.Equal(t, wire.Success, code(t, conn, write("a-1", "y")), "owned streams go on")
	require.Equal(t, wire.ServiceUnavailable, code(t, conn, write("other", "y")))
	call(t, conn, &wire.Call{Method: wire.SetAcceptNewStream, Enabled: true})
	require.Equal(t, wire.WriteAndAccept, hello(".*", &no).GetServerStatus())
}

func TestRefusedNamesR40(t *testing.T) {
	c := startCluster(t, 1, newLogs())
	conn := c.nodes[0].raw(t)
	for _, name := range []string{"", ".", "..", "../x", "a/../../b", ".write_proxy", "<default>", "a//b", "nul\x00", strings.Repeat("a", 4096), "a b"} {
		require.Equal(t, wire.InvalidStreamName, code(t, conn, write(name, "x")), "%q", name)
		require.Equal(t, wire.InvalidStreamName, code(t, conn, on(wire.Create, name)), "%q", name)
	}
}

func TestChecksumsAreChecked(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l)
	conn := c.nodes[0].raw(t)
	w := write("s", "hello")
	sum, ok := wire.Checksum(w)
	require.True(t, ok)
	w.Context.Crc32 = &sum
	require.Equal(t, wire.Success, code(t, conn, w))
	bad := sum + 1
	w.Context.Crc32 = &bad
	require.Equal(t, wire.ChecksumFailed, code(t, conn, w))
	for _, m := range []wire.Method{wire.Heartbeat, wire.Release, wire.Delete, wire.Create} {
		x := on(m, "s")
		x.Context.Crc32 = &bad
		require.Equal(t, wire.ChecksumFailed, code(t, conn, x), "%s", m)
	}
	require.Equal(t, []string{"hello"}, l.payloads("s"))
}

// TestLongRecordSpoilsNothingR28: a bulk with a record over the limit is refused
// before any of it is written; one at the limit passes.
func TestLongRecordSpoilsNothingR28(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l)
	conn := c.nodes[0].raw(t)
	most := strings.Repeat("m", wire.PayloadBytesMax)
	require.Equal(t, wire.Success, code(t, conn, bulk("s", "a", most)))
	require.Equal(t, wire.TooLargeRecord, code(t, conn, bulk("s", "b", most+"m", "c")))
	require.Equal(t, wire.TooLargeRecord, code(t, conn, write("s", most+"m")))
	require.Equal(t, wire.Success, code(t, conn, write("s", "d")))
	require.Equal(t, []string{"a", most, "d"}, l.payloads("s"))

	w, err := c.client().Writer(context.Background(), "s")
	require.NoError(t, err)
	_, err = w.Append(context.Background(), rec(most+"m"))
	var long *stream.RecordTooLongError
	require.ErrorAs(t, err, &long)
	require.Equal(t, wire.PayloadBytesMax, long.Limit)
	_, err = w.Append(context.Background(), rec("e"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

func TestLimits(t *testing.T) {
	t.Run("streams", func(t *testing.T) {
		c := startCluster(t, 1, newLogs("a", "b"), func(o *Options) { o.Limits.Streams = 1 })
		conn := c.nodes[0].raw(t)
		require.Equal(t, wire.Success, code(t, conn, write("a", "x")))
		require.Equal(t, wire.StreamUnavailable, code(t, conn, write("b", "x")))
		require.Equal(t, wire.Success, code(t, conn, write("a", "x")))
	})
	for name, lim := range map[string]Limits{
		"calls of a stream": {StreamCalls: 2}, "calls of the service": {ServiceCalls: 2},
		"bytes of a stream": {StreamBytes: 1}, "bytes of the service": {ServiceBytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, 1, newLogs("a"), func(o *Options) { o.Limits = lim; o.Conn.FrameBytesMax = 4096 })
			conn := c.nodes[0].raw(t)
			refused := 0
			for range 3 {
				switch got := code(t, conn, write("a", strings.Repeat("x", 1500))); got {
				case wire.OverCapacity:
					refused++
				default:
					require.Equal(t, wire.Success, got)
				}
			}
			require.Equal(t, 1, refused)
			require.Equal(t, wire.Success, code(t, conn, on(wire.Heartbeat, "a")), "only appends are counted")
		})
	}
	t.Run("connections R30", func(t *testing.T) {
		c := startCluster(t, 1, newLogs("a"), func(o *Options) { o.Limits.Connections = 2 })
		first, second := c.nodes[0].raw(t), c.nodes[0].raw(t)
		require.Equal(t, wire.Success, code(t, first, write("a", "x")))
		require.Equal(t, wire.Success, code(t, second, write("a", "x")))
		nc, err := net.Dial("tcp", c.nodes[0].addr)
		require.NoError(t, err)
		third := wire.NewConn(nc, 0)
		_, err = third.Call(context.Background(), write("a", "x"))
		require.ErrorIs(t, err, wire.ErrConnClosed)
		require.NoError(t, third.Close())
		require.Equal(t, wire.Success, code(t, first, write("a", "x")))
	})
}

// TestQueueIsBounded: what does not fit into a stream's queue is refused, and a
// producer of the client library gets through all the same, in order.
func TestQueueIsBounded(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l, func(o *Options) { o.Limits.QueueBytes = 2000 })
	nd := c.nodes[0]
	nd.proc.set(func(p *process) { p.before = func(string) error { return nil } })
	cl := c.client(func(o *client.Options) { o.BatchBytes = 1500; o.CallsInFlight = 16 })
	w, err := cl.Writer(context.Background(), "s")
	require.NoError(t, err)
	p := &producer{w: w}
	p.send(1000)
	p.check(t, l, "s")
}

// TestBindings: after a refusal nothing more of a binding is carried out, and a
// new binding of the producer ends the old one.
func TestBindings(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l)
	conn, other := c.nodes[0].raw(t), c.nodes[0].raw(t)
	producer := "p"
	bind := func(c *wire.Conn) *wire.Reply {
		b := on(wire.Heartbeat, "s")
		b.Context.Producer = &producer
		r := call(t, c, b)
		require.Equal(t, wire.Success, r.Header().Code)
		return r
	}
	bound := func(token int64, payloads ...string) *wire.Call {
		b := bulk("s", payloads...)
		b.Context.Producer, b.Context.Binding = &producer, &token
		return b
	}
	r := bind(conn)
	require.Nil(t, r.Write.Dlsn, "the stream is empty")
	token := r.Header().GetBinding()
	require.Equal(t, wire.Success, code(t, conn, bound(token, "a")))
	require.Equal(t, wire.TooLargeRecord, code(t, conn, bound(token, strings.Repeat("m", wire.PayloadBytesMax+1))))
	require.Equal(t, wire.WriteCancelled, code(t, conn, bound(token, "overtakes")))

	r = bind(other)
	d, err := stream.ParseDLSN(r.Write.GetDlsn())
	require.NoError(t, err)
	require.Equal(t, stream.DLSN{Segment: 1}, d)
	second := r.Header().GetBinding()
	require.NotEqual(t, token, second)
	require.Equal(t, wire.WriteCancelled, code(t, conn, bound(token, "late")))
	require.Equal(t, wire.Success, code(t, other, bound(second, "b")))
	require.Equal(t, wire.Success, code(t, conn, bulk("s", "unbound")), "others go on")

	require.Equal(t, wire.Success, code(t, other, on(wire.Release, "s")))
	require.Equal(t, wire.WriteCancelled, code(t, other, bound(second, "of an ownership before")))
	require.Equal(t, []string{"a", "b", "unbound"}, l.payloads("s"))

	third := bind(other).Header().GetBinding()
	require.NoError(t, other.Close())
	require.Eventually(t, func() bool {
		return code(t, conn, bound(third, "of a connection that ended")) == wire.WriteCancelled
	}, 3*time.Second, time.Millisecond)
	require.NotContains(t, l.payloads("s"), "overtakes")
}

func TestProducersOfAStreamAreBounded(t *testing.T) {
	c := startCluster(t, 1, newLogs("s"), func(o *Options) { o.Limits.Producers = 3 })
	conn := c.nodes[0].raw(t)
	var tokens []int64
	for i := range 5 {
		b, name := on(wire.Heartbeat, "s"), fmt.Sprint("p", i)
		b.Context.Producer = &name
		tokens = append(tokens, call(t, conn, b).Header().GetBinding())
	}
	for i, token := range tokens {
		b, name := bulk("s", "x"), fmt.Sprint("p", i)
		b.Context.Producer, b.Context.Binding = &name, &token
		want := wire.Success
		if i < 2 {
			want = wire.WriteCancelled
		}
		require.Equal(t, want, code(t, conn, b), "producer %d", i)
	}
}

func TestIdleStreamsAreLetGo(t *testing.T) {
	released := make(chan Released, 1)
	c := startCluster(t, 1, newLogs("s"), func(o *Options) {
		o.IdleTimeout = 50 * time.Millisecond
		o.RequestTimeout = 200 * time.Millisecond // also how often idle streams are looked for, times 4
		o.Events.Released = func(r Released) { released <- r }
	})
	conn := c.nodes[0].raw(t)
	require.Equal(t, wire.Success, code(t, conn, write("s", "a")))
	r := <-released
	require.True(t, r.Clean)
	require.EqualValues(t, 1, r.Epoch)
	require.Eventually(t, func() bool { return c.nodes[0].tableSize() == 0 }, 3*time.Second, time.Millisecond)
	require.Equal(t, wire.Success, code(t, conn, write("s", "b")), "taken again")
	require.True(t, (<-released).Clean)
}

func TestSealedStreamEndsTheWriter(t *testing.T) {
	l := newLogs("s")
	l.streams["s"].sealed = true
	c := startCluster(t, 1, l)
	require.Equal(t, wire.EndOfStream, code(t, c.nodes[0].raw(t), write("s", "a")))
	w, err := c.client().Writer(context.Background(), "s")
	require.NoError(t, err)
	_, err = w.Append(context.Background(), rec("a"))
	require.ErrorIs(t, err, stream.ErrSealed)
	_, err = w.Append(context.Background(), rec("b"))
	require.ErrorIs(t, err, stream.ErrSealed)
	require.ErrorIs(t, w.Close(), stream.ErrSealed)
}

func TestClientAdmin(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 2, l)
	cl := c.client(func(o *client.Options) { o.Timeout = 2 * time.Second })
	ctx := context.Background()
	require.NoError(t, cl.Create(ctx, "made"))
	w, err := cl.Writer(ctx, "made")
	require.NoError(t, err)
	d, err := w.Append(ctx, rec("a"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, cl.Truncate(ctx, "made", d))
	require.NoError(t, cl.Release(ctx, "made"))
	require.Empty(t, cl.Owner("made"))
	require.NoError(t, cl.Delete(ctx, "made"))
	require.ErrorIs(t, cl.Delete(ctx, "made"), stream.ErrNotFound)
	require.ErrorIs(t, cl.Create(ctx, "../x"), stream.ErrInvalidName)
	_, err = cl.Writer(ctx, ".")
	require.ErrorIs(t, err, stream.ErrInvalidName)
	w, err = cl.Writer(ctx, "missing")
	require.NoError(t, err)
	_, err = w.Append(ctx, rec("x"))
	require.ErrorIs(t, err, stream.ErrNotFound)
	require.ErrorIs(t, w.Close(), stream.ErrNotFound)
	require.NoError(t, cl.SetAcceptNewStream(ctx, c.nodes[0].addr, false))
	require.False(t, c.nodes[0].accepting())
}

func TestNoProxyIsATypedErrorByTheDeadline(t *testing.T) {
	c := startCluster(t, 0, newLogs("s"))
	w, err := c.client(func(o *client.Options) { o.Timeout = 300 * time.Millisecond }).Writer(context.Background(), "s")
	require.NoError(t, err)
	began := time.Now()
	_, err = w.Append(context.Background(), rec("x"))
	require.ErrorIs(t, err, stream.ErrTimeout)
	require.ErrorIs(t, err, client.ErrNoProxy)
	require.Less(t, time.Since(began), 2*time.Second)
	require.ErrorIs(t, w.Close(), client.ErrNoProxy)
}

func TestOptionsValidate(t *testing.T) {
	require.ErrorContains(t, Options{LeaseTTL: -1}.Validate(), "LeaseTTL")
	require.ErrorContains(t, Options{Shard: -2}.Validate(), "shard -2")
	require.ErrorContains(t, Options{Addr: "nohost"}.Validate(), "nohost")
	require.ErrorContains(t, Options{Limits: Limits{StreamCalls: -1}}.Validate(), "StreamCalls")
	require.NoError(t, Options{}.Validate())
	require.ErrorContains(t, client.Options{MaxHops: -1}.Validate(), "MaxHops")
}

// TestRefusalSparesWhatCameBefore: an append that finds the queue full is
// refused with all behind it; those in the queue before it are carried out.
func TestRefusalSparesWhatCameBefore(t *testing.T) {
	l := newLogs("s")
	var refused atomic.Int32
	c := startCluster(t, 1, l, func(o *Options) {
		o.Limits.QueueBytes = 25
		o.Events.Refused = func(wire.Code) { refused.Add(1) }
	})
	nd := c.nodes[0]
	conn := nd.raw(t)
	producer := "p"
	b := on(wire.Heartbeat, "s")
	b.Context.Producer = &producer
	token := call(t, conn, b).Header().GetBinding()

	// the stream's goroutine is held up in an operation before the appends
	entered, leave := make(chan struct{}), make(chan struct{})
	nd.proc.set(func(p *process) { p.cut = func() { close(entered); <-leave } })
	type result struct {
		call int
		code wire.Code
	}
	results := make(chan result, 6)
	note := func(i int) func(*wire.Reply, error) {
		return func(r *wire.Reply, err error) {
			if err != nil {
				results <- result{i, 0}
				return
			}
			results <- result{i, r.Header().Code}
		}
	}
	cut := on(wire.Truncate, "s")
	cut.DLSN = stream.DLSN{Segment: 1}.Base64()
	conn.Go(cut, note(5))
	<-entered
	for i := range 5 {
		w := bulk("s", fmt.Sprintf("record %03d", i)) // 10 bytes: two fit
		w.Context.Producer, w.Context.Binding = &producer, &token
		conn.Go(w, note(i))
	}
	require.Eventually(t, func() bool { return refused.Load() == 3 }, 5*time.Second, time.Millisecond)
	require.Equal(t, 2, nd.queued("s"))
	close(leave)
	got := make([]wire.Code, 6)
	for range 6 {
		r := <-results
		got[r.call] = r.code
	}
	const ok, full = wire.Success, wire.OverCapacity
	require.Equal(t, []wire.Code{ok, ok, full, full, full, ok}, got)
	require.Equal(t, []string{"record 000", "record 001"}, l.payloads("s"))
}

// TestBindingWaitsForWhatIsInFlight: its answer tells of every record that was
// taken before.
func TestBindingWaitsForWhatIsInFlight(t *testing.T) {
	c := startCluster(t, 1, newLogs("s"))
	nd := c.nodes[0]
	conn, other := nd.raw(t), nd.raw(t)
	require.Equal(t, wire.Success, code(t, conn, write("s", "a")))
	entered, leave := make(chan struct{}), make(chan struct{})
	nd.proc.set(func(p *process) { p.before = func(string) error { close(entered); <-leave; return nil } })
	answer := make(chan error, 1)
	conn.Go(write("s", "slow"), func(r *wire.Reply, err error) {
		if err == nil {
			err = wire.ErrorOf(r.Header())
		}
		answer <- err
	})
	<-entered
	producer, bound := "p", make(chan string, 1)
	b := on(wire.Heartbeat, "s")
	b.Context.Producer = &producer
	other.Go(b, func(r *wire.Reply, err error) {
		if err != nil {
			bound <- err.Error()
			return
		}
		bound <- r.Write.GetDlsn()
	})
	select {
	case early := <-bound:
		require.Fail(t, "bound before the record in flight was settled", early)
	case <-time.After(20 * time.Millisecond): // a binding that does not wait is long done
	}
	close(leave)
	require.NoError(t, <-answer)
	require.Equal(t, stream.DLSN{Segment: 1, Entry: 1}.Base64(), <-bound)
}
