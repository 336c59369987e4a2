package server_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// gated holds reads and adds of a real bookie back until told.
type gated struct {
	server.Store
	reads   chan struct{} // nil: not held
	mu      sync.Mutex    // guards all below
	hold    bool          // results of adds are kept
	held    []func()
	batches []int
}

func (g *gated) Read(l bk.LedgerID, e bk.EntryID, dst []byte) ([]byte, bk.Status) {
	if g.reads != nil {
		<-g.reads
	}
	return g.Store.Read(l, e, dst)
}

func (g *gated) AddBatch(sink bookie.AddSink, adds []bookie.Add) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.batches = append(g.batches, len(adds))
	results := make([]bookie.AddResult, len(adds))
	for i, a := range adds {
		results[i] = bookie.AddResult{Ledger: a.Ledger, Entry: a.Entry, Tag: a.Tag}
	}
	if g.hold {
		g.held = append(g.held, func() { sink.AddsDone(results) })
	} else {
		sink.AddsDone(results)
	}
}

func (g *gated) release() {
	g.mu.Lock()
	held := g.held
	g.held, g.hold = nil, false
	g.mu.Unlock()
	for _, f := range held {
		f()
	}
}

// gatedRig serves a gated bookie at testAddr.
func gatedRig(t testing.TB, g *gated, o server.Options) *rig {
	r := newRig(t, server.Options{})
	g.Store = r.b
	require.NoError(t, r.srv.Close())
	synctest.Wait()
	r.srv = serve(t, r.net, g, o)
	t.Cleanup(func() { require.NoError(t, r.srv.Close()) })
	return r
}

// All frames that one read brings become one batch, and the answers of one
// group come in one read of the peer.
func TestOneReadOneBatchOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{hold: true}
		r := gatedRig(t, g, server.Options{})
		c := r.dial()
		var frames [][]byte
		for e := range bk.EntryID(50) {
			frames = append(frames, addFrame(1, e, []byte("x")))
		}
		c.send(frames...)
		synctest.Wait()
		require.Equal(t, []int{50}, g.batches)
		g.release()
		synctest.Wait()
		require.NoError(t, c.fr.Fill())
		for range 50 {
			p, err := c.fr.Next()
			require.NoError(t, err)
			require.NotNil(t, p)
		}
	})
}

// Adds never wait for reads, fences or long polls on their connection.
func TestAddsOvertakeReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{reads: make(chan struct{})}
		r := gatedRig(t, g, server.Options{ReadWorkers: 1, SyncWorkers: 1})
		c := r.dial()
		for range 100 {
			c.send(wire.AppendReadRequest(nil, 0, 1, 0, nil))
			c.send(wire.AppendReadRequest(nil, wire.FlagFence, 1, 0, &testKey))
		}
		require.Equal(t, wire.OpAdd, c.askV2(addFrame(1, 0, []byte("x"))).Op)
		close(g.reads)
		for range 200 {
			require.NotNil(t, c.frame())
		}
	})
}

func TestTooManyWaitingReadsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{reads: make(chan struct{})}
		r := gatedRig(t, g, server.Options{ReadWorkers: 1, WaitingMax: 10})
		c := r.dial()
		c.send(wire.AppendReadRequest(nil, 0, 1, 0, nil))
		synctest.Wait() // the worker has it
		for range 12 {
			c.send(wire.AppendReadRequest(nil, 0, 1, 0, nil))
			synctest.Wait()
		}
		c.send(v3Request(t, &bkpb.Request{Header: wire.V3Header(wire.OpReadLAC, 7, 0), ReadLacRequest: &bkpb.ReadLacRequest{LedgerId: proto.Int64(1)}}))
		for range 2 {
			var a wire.Response
			require.NoError(t, wire.DecodeResponse(&a, c.frame()[wire.LengthSize:]))
			require.Equal(t, bk.StatusTooManyRequests, a.Status)
		}
		m, err := wire.DecodeResponseV3(c.frame()[wire.LengthSize:])
		require.NoError(t, err)
		require.Equal(t, bkpb.StatusCode_ETOOMANYREQUESTS, m.GetStatus())
		close(g.reads)
		for range 11 {
			require.NotNil(t, c.frame())
		}
	})
}

func v3Request(t testing.TB, m *bkpb.Request) []byte {
	f, err := wire.AppendV3(nil, m)
	require.NoError(t, err)
	return f
}

// A peer that does not read its answers is not given more work, and is closed
// after the stall limit; others go on.
func TestSlowReaderOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan error, 10)
		r := newRig(t, server.Options{
			OutBytesMax: 64 << 10, WriteStallMax: 20 * time.Second,
			Events: server.Events{Closed: func(_ string, err error) { closed <- err }},
		})
		slow, other := r.dial(), r.dial()
		require.Equal(t, bk.StatusOK, other.askV2(addFrame(1, 0, make([]byte, 100<<10))).Status)
		start := time.Now()
		sent := 0
		go func() {
			for ; sent < 100_000; sent++ {
				if _, err := slow.nc.Write(wire.AppendReadRequest(nil, 0, 1, 0, nil)); err != nil {
					return
				}
			}
		}()
		require.ErrorContains(t, <-closed, "does not read its answers")
		require.GreaterOrEqual(t, time.Since(start), 20*time.Second)
		require.LessOrEqual(t, time.Since(start), 30*time.Second)
		synctest.Wait()
		require.Less(t, sent, 50_000, "the server went on reading requests")
		require.Equal(t, bk.StatusOK, other.askV2(wire.AppendReadRequest(nil, 0, 1, 0, nil)).Status)
		require.Equal(t, 1, r.srv.Conns())
	})
}

// countedReads counts the entries that are read.
type countedReads struct {
	server.Store
	n atomic.Int64
}

func (c *countedReads) Read(l bk.LedgerID, e bk.EntryID, dst []byte) ([]byte, bk.Status) {
	c.n.Add(1)
	return c.Store.Read(l, e, dst)
}

// Large answers that nobody reads are not even made, beyond the limit.
func TestOutboxBoundsWorkInOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, server.Options{})
		require.Equal(t, bk.StatusOK, r.dial().askV2(addFrame(1, 0, make([]byte, 1<<20))).Status)
		counted := &countedReads{Store: r.b}
		require.NoError(t, r.srv.Close())
		synctest.Wait()
		r.srv = serve(t, r.net, counted, server.Options{OutBytesMax: 64 << 10})
		defer func() { require.NoError(t, r.srv.Close()) }()
		c := r.dial()
		const asked = 60
		for i := range asked {
			c.send(wire.AppendBatchReadRequest(nil, wire.BatchRead{Ledger: 1, RequestID: int64(i), MaxCount: 1}))
		}
		synctest.Wait()
		require.Less(t, counted.n.Load(), int64(8))
		seen := map[int64]bool{}
		for range asked {
			var a wire.Response
			require.NoError(t, wire.DecodeResponse(&a, c.frame()[wire.LengthSize:]))
			require.Equal(t, bk.StatusOK, a.Status)
			seen[a.RequestID] = true
		}
		require.Len(t, seen, asked)
	})
}

// A peer that is slow but reads gets every answer.
func TestBackPressureLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, server.Options{OutBytesMax: 32 << 10})
		c := r.dial()
		require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, make([]byte, 50<<10))).Status)
		const reads = 2000
		go func() {
			for range reads {
				c.send(wire.AppendReadRequest(nil, 0, 1, 0, nil))
			}
		}()
		for range reads {
			synctest.Wait() // all buffers are full
			require.NotNil(t, c.frame())
		}
	})
}

func TestConnectionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := make(chan string, 1)
		r := newRig(t, server.Options{ConnsMax: 2, Events: server.Events{Refused: func(a string) { refused <- a }}})
		a, b := r.dial(), r.dial()
		require.Equal(t, bk.StatusOK, a.askV2(addFrame(1, 0, nil)).Status)
		require.Equal(t, bk.StatusOK, b.askV2(addFrame(1, 1, nil)).Status)
		r.dial().closed()
		<-refused
		a.nc.Close()
		synctest.Wait()
		require.Equal(t, bk.StatusOK, r.dial().askV2(addFrame(1, 2, nil)).Status)
		require.Equal(t, bk.StatusOK, b.askV2(addFrame(1, 3, nil)).Status)
	})
}

// Drain answers what was read, then closes; what comes later is not read.
func TestDrainFinishesWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{hold: true}
		r := gatedRig(t, g, server.Options{})
		c := r.dial()
		c.send(addFrame(1, 0, []byte("x")), addFrame(1, 1, []byte("y")))
		poller := r.dial()
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- r.srv.Drain(t.Context()) }()
		synctest.Wait()
		_, err := r.net.Dial(t.Context(), testAddr)
		require.ErrorContains(t, err, "refused")
		require.Empty(t, done)
		g.release()
		require.NotNil(t, c.frame())
		require.NotNil(t, c.frame())
		c.closed()
		poller.closed()
		require.NoError(t, <-done)
	})
}

func TestDrainEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{hold: true}
		r := gatedRig(t, g, server.Options{})
		c := r.dial()
		c.send(addFrame(1, 0, []byte("x")))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, r.srv.Drain(ctx), context.DeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(start))
		c.closed()
		g.release() // late results do no harm
	})
}

// A peer that ends its side still gets the answers to what it sent.
func TestAnswersAfterEndOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{hold: true}
		r := gatedRig(t, g, server.Options{})
		c := r.dial()
		c.send(addFrame(1, 0, []byte("x")))
		synctest.Wait()
		c.nc.Close()
		synctest.Wait()
		require.Equal(t, 1, r.srv.Conns())
		g.release()
		synctest.Wait()
		require.Zero(t, r.srv.Conns())
	})
}

func TestOptionsValidate(t *testing.T) {
	_, err := server.New(nil, server.Options{WaitingMax: -1})
	require.ErrorContains(t, err, "WaitingMax is -1")
}

// Entries that are listed come back as availability bytes.
func TestListEntries(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.dial()
	for _, e := range []bk.EntryID{0, 1, 2, 5, 6, 9} {
		require.Equal(t, bk.StatusOK, c.askV2(addFrame(3, e, []byte("x"))).Status)
	}
	answer := c.ask(v3Request(t, &bkpb.Request{
		Header:                          wire.V3Header(wire.OpListEntries, 9, 0),
		GetListOfEntriesOfLedgerRequest: &bkpb.GetListOfEntriesOfLedgerRequest{LedgerId: proto.Int64(3)},
	}))
	m, err := wire.DecodeResponseV3(answer[wire.LengthSize:])
	require.NoError(t, err)
	a, err := wire.DecodeAvailability(m.GetListOfEntriesOfLedgerResponse.AvailabilityOfEntriesOfLedger)
	require.NoError(t, err)
	require.Equal(t, []bk.EntryID{0, 1, 2, 5, 6, 9}, slices.Collect(a.All()))
}

// Requests are counted by operation, and the metrics go with the server.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := newRig(t, server.Options{Registerer: reg})
	c := r.dial()
	require.Equal(t, bk.StatusOK, c.askV2(addFrame(1, 0, []byte("x"))).Status)
	require.Equal(t, bk.StatusOK, c.askV2(wire.AppendReadRequest(nil, 0, 1, 0, nil)).Status)
	_, err := server.New(r.b, server.Options{Registerer: reg})
	require.ErrorContains(t, err, "server metrics")
	require.Equal(t, 1.0, gathered(t, reg)["loglode_bookie_server_connections"])
	require.Equal(t, 2.0, gathered(t, reg)["loglode_bookie_server_requests_total"])
	require.NoError(t, r.srv.Close())
	require.Empty(t, gathered(t, reg))
}

// gathered sums each metric over its labels.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	families, err := reg.Gather()
	require.NoError(t, err)
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			sums[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sums
}
