package proxy

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

func rec(s string) stream.Record { return stream.Record{Payload: []byte(s)} }

func TestAppendThroughTwoProxies(t *testing.T) {
	l := newLogs("s", "t/u")
	c := startCluster(t, 2, l)
	cl := c.client()
	ctx := context.Background()
	var want [2][]string
	for i, name := range []stream.Name{"s", "t/u"} {
		w, err := cl.Writer(ctx, name)
		require.NoError(t, err)
		var last stream.DLSN
		for k := range 20 {
			p := fmt.Sprint(name, k)
			d, err := w.Append(ctx, rec(p))
			require.NoError(t, err)
			require.True(t, last.Less(d))
			last = d
			want[i] = append(want[i], p)
		}
		ds, err := w.AppendBatch(ctx, []stream.Record{rec(""), rec("x"), rec("")})
		require.NoError(t, err)
		require.Len(t, ds, 3)
		want[i] = append(want[i], "", "x", "")
		require.NoError(t, w.Close())
		require.Equal(t, c.owner(name).addr, cl.Owner(name))
		require.Equal(t, want[i], l.payloads(name))
	}
}

// TestPipelinedAppendsKeepOrder: many records in flight, callbacks in order.
func TestPipelinedAppendsKeepOrder(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 2, l)
	cl := c.client(func(o *client.Options) { o.BytesInFlight = 64 << 10; o.BatchBytes = 4 << 10 })
	w, err := cl.Writer(context.Background(), "s")
	require.NoError(t, err)
	const n = 5000
	var got []stream.DLSN
	for i := range n {
		w.Go(context.Background(), rec(fmt.Sprintf("record %06d", i)), func(d stream.DLSN, err error) {
			require.NoError(t, err)
			got = append(got, d)
		})
	}
	require.NoError(t, w.Flush(context.Background()))
	require.NoError(t, w.Close())
	require.Len(t, got, n)
	for i := 1; i < n; i++ {
		require.True(t, got[i-1].Less(got[i]))
	}
	in := l.payloads("s")
	require.Len(t, in, n)
	for i, p := range in {
		require.Equal(t, fmt.Sprintf("record %06d", i), p)
	}
}

// TestOtherProxyRedirects: FOUND carries the owner's location and no message.
func TestOtherProxyRedirects(t *testing.T) {
	c := startCluster(t, 2, newLogs("s"))
	r := call(t, c.nodes[0].raw(t), write("s", "a"))
	require.Equal(t, wire.Success, r.Header().Code)
	r = call(t, c.nodes[1].raw(t), write("s", "b"))
	require.Equal(t, wire.Found, r.Header().Code)
	require.Equal(t, c.nodes[0].Location(), r.Header().GetLocation())
	require.Nil(t, r.Header().ErrMsg)
	loc, err := wire.ParseLocation(r.Header().GetLocation())
	require.NoError(t, err)
	require.Equal(t, c.nodes[0].addr, loc.Addr)
	require.NotEqual(t, c.nodes[0].Location(), c.nodes[1].Location())
}

// appendAll appends lines until stop, pipelined, and gives those acknowledged.
type producer struct {
	w     *client.Writer
	mu    sync.Mutex
	acked []string
	errs  []error
	sent  int
}

func (p *producer) send(n int) {
	for range n {
		line := fmt.Sprintf("line %07d", p.sent)
		p.sent++
		p.w.Go(context.Background(), rec(line), func(_ stream.DLSN, err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil {
				p.errs = append(p.errs, err)
				return
			}
			p.acked = append(p.acked, line)
		})
	}
}

func (p *producer) check(t *testing.T, l *logs, name stream.Name) {
	t.Helper()
	require.NoError(t, p.w.Flush(context.Background()))
	require.NoError(t, p.w.Close())
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.errs)
	require.Len(t, p.acked, p.sent)
	require.Equal(t, p.acked, l.payloads(name), "every acknowledged line once and in order")
}

// TestKillOwnerWhileProducing: the other proxy takes over within 3 s, nothing
// acknowledged is lost or doubled.
func TestKillOwnerWhileProducing(t *testing.T) {
	for round := range 5 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			l := newLogs("s")
			c := startCluster(t, 2, l)
			var resolved []client.Resolved
			cl := c.client(func(o *client.Options) {
				o.BatchBytes = 2 << 10
				o.Events.Resolved = func(r client.Resolved) { resolved = append(resolved, r) }
			})
			w, err := cl.Writer(context.Background(), "s")
			require.NoError(t, err)
			p := &producer{w: w}
			p.send(500)
			require.NoError(t, w.Flush(context.Background()))
			p.send(500 + 100*round)
			owner := c.owner("s")
			owner.kill(t)
			began := time.Now()
			p.send(500)
			require.NoError(t, w.Flush(context.Background()))
			require.Less(t, time.Since(began), 3*time.Second)
			require.NotEqual(t, owner.addr, cl.Owner("s"))
			p.check(t, l, "s")
		})
	}
}

// TestLostAnswersAreReadBack: records whose answer is lost are acknowledged
// once, with the place that they have.
func TestLostAnswersAreReadBack(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 2, l)
	var resolved []client.Resolved
	cl := c.client(func(o *client.Options) {
		o.Events.Resolved = func(r client.Resolved) { resolved = append(resolved, r) }
	})
	w, err := cl.Writer(context.Background(), "s")
	require.NoError(t, err)
	_, err = w.Append(context.Background(), rec("first"))
	require.NoError(t, err)
	lost := 0
	c.owner("s").proc.set(func(p *process) {
		p.after = func(string) bool { lost++; return lost > 3 }
	})
	d, err := w.Append(context.Background(), rec("second"))
	require.NoError(t, err)
	e, err := w.Append(context.Background(), rec("third"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.True(t, d.Less(e))
	require.Equal(t, []string{"first", "second", "third"}, l.payloads("s"))
	require.NotEmpty(t, resolved)
	require.Equal(t, 1, resolved[0].Landed)
}

// TestUnknownOutcomeWithoutResolve: the error says so, and the writer ends.
func TestUnknownOutcomeWithoutResolve(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l)
	cl := c.client(func(o *client.Options) { o.Resolve = nil })
	w, err := cl.Writer(context.Background(), "s")
	require.NoError(t, err)
	_, err = w.Append(context.Background(), rec("a"))
	require.NoError(t, err)
	c.nodes[0].proc.set(func(p *process) { p.after = func(string) bool { return false } })
	_, err = w.Append(context.Background(), rec("b"))
	require.ErrorIs(t, err, client.ErrUnknownOutcome)
	_, err = w.Append(context.Background(), rec("c"))
	require.ErrorIs(t, err, client.ErrUnknownOutcome)
	<-w.Done()
	require.ErrorIs(t, w.Close(), client.ErrUnknownOutcome)
	require.Equal(t, []string{"a", "b"}, l.payloads("s"))
}

// TestNothingWrittenIsKnownWithoutReading: the writer failed before anything
// was written, and the owner's last record says so.
func TestNothingWrittenIsKnownWithoutReading(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l)
	cl := c.client(func(o *client.Options) { o.Resolve = nil })
	w, err := cl.Writer(context.Background(), "s")
	require.NoError(t, err)
	_, err = w.Append(context.Background(), rec("a"))
	require.NoError(t, err)
	failed := false
	c.nodes[0].proc.set(func(p *process) {
		p.before = func(string) error {
			if !failed {
				failed = true
				return stream.ErrNotEnoughBookies
			}
			return nil
		}
	})
	_, err = w.Append(context.Background(), rec("b"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Equal(t, []string{"a", "b"}, l.payloads("s"))
}

// TestRecordsOfOthersAreNotMistaken: what another producer appended meanwhile
// is not taken for the record whose outcome is open.
func TestRecordsOfOthersAreNotMistaken(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l)
	nd := c.nodes[0]
	var resolved []client.Resolved
	cl := c.client(func(o *client.Options) {
		o.Events.Resolved = func(r client.Resolved) { resolved = append(resolved, r) }
	})
	w, err := cl.Writer(context.Background(), "s")
	require.NoError(t, err)
	_, err = w.Append(context.Background(), rec("a"))
	require.NoError(t, err)
	require.Equal(t, wire.Success, call(t, nd.raw(t), write("s", "another's")).Header().Code)
	failed := false
	nd.proc.set(func(p *process) {
		p.before = func(string) error {
			if failed {
				return nil
			}
			failed = true
			return stream.ErrNotEnoughBookies
		}
	})
	d, err := w.Append(context.Background(), rec("mine"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Equal(t, []string{"a", "another's", "mine"}, l.payloads("s"))
	require.Equal(t, d, l.streams["s"].records[2].DLSN)
	require.Len(t, resolved, 1)
	require.Equal(t, []int{1, 0}, []int{resolved[0].Maybe, resolved[0].Landed})
}
