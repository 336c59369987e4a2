package proxy

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// TestPausedOwnerAcknowledgesNothingR19: the owner is stopped in one of several
// phases, with ten writes in flight, for three TTLs; another takes over and
// writes a hundred; the owner wakes. Nothing that it says then is an
// acknowledgement, and it redirects.
func TestPausedOwnerAcknowledgesNothingR19(t *testing.T) {
	for _, phase := range []string{"before the request is read", "before it is written", "between write and ack", "idle"} {
		t.Run(phase, func(t *testing.T) {
			l := newLogs("s")
			c := startCluster(t, 2, l)
			p1, p2 := c.nodes[0], c.nodes[1]
			conn := p1.raw(t)
			require.Equal(t, wire.Success, call(t, conn, write("s", "before")).Header().Code)
			pauseAt := func() {
				if !p1.paused.Swap(true) {
					p1.pause()
				}
			}
			switch phase {
			case "before the request is read", "idle":
				pauseAt()
			case "before it is written":
				p1.proc.set(func(p *process) { p.before = func(string) error { pauseAt(); return nil } })
			case "between write and ack":
				p1.proc.set(func(p *process) { p.after = func(string) bool { pauseAt(); p1.proc.gate.pass(); return true } })
			}
			answers := make(chan error, 100)
			sent := 0
			if phase != "idle" {
				for i := range 10 {
					sent++
					conn.Go(write("s", fmt.Sprint("in flight ", i)), func(r *wire.Reply, err error) {
						if err == nil {
							err = wire.ErrorOf(r.Header())
						}
						answers <- err
					})
				}
			}
			require.Eventually(t, p1.paused.Load, 5*time.Second, time.Millisecond)

			other := p2.raw(t)
			require.Eventually(t, func() bool {
				return call(t, other, write("s", "after takeover 0")).Header().Code == wire.Success
			}, 10*time.Second, 10*time.Millisecond)
			for i := range 99 {
				require.Equal(t, wire.Success, call(t, other, write("s", fmt.Sprint("after takeover ", i+1))).Header().Code)
			}
			written := l.payloads("s")
			p1.resume()
			for range sent {
				require.Error(t, <-answers, "acknowledged after the takeover")
			}
			require.Eventually(t, func() bool { // p1 cuts its connections once it knows: connect again
				fresh := p1.raw(t)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				r, err := fresh.Call(ctx, write("s", "from a client of p1"))
				if err != nil {
					return false
				}
				if r.Header().Code == wire.Success {
					t.Error("p1 acknowledged after the takeover")
				}
				return r.Header().Code == wire.Found && r.Header().GetLocation() == p2.Location()
			}, 10*time.Second, 10*time.Millisecond)
			require.Equal(t, written, l.payloads("s"), "the stream changed after the takeover")
			require.Equal(t, wire.Success, call(t, other, write("s", "end")).Header().Code)
		})
	}
}

// TestProducerOutlivesPausedOwnerR19: the same seen by a producer that follows.
func TestProducerOutlivesPausedOwnerR19(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 2, l)
	cl := c.client(func(o *client.Options) { o.BatchBytes = 1 << 10 })
	w, err := cl.Writer(context.Background(), "s")
	require.NoError(t, err)
	p := &producer{w: w}
	p.send(300)
	require.NoError(t, w.Flush(context.Background()))
	owner := c.owner("s")
	p.send(300)
	owner.pause()
	began := time.Now()
	p.send(300)
	require.NoError(t, w.Flush(context.Background()))
	require.Less(t, time.Since(began), 3*time.Second)
	owner.resume()
	p.send(300)
	p.check(t, l, "s")
}

// TestBusyProducerLeavesPausedOwnerR19: the producer appends all the time while
// the owner is stopped. Its own activity must not keep it from noticing that
// answers do not come.
func TestBusyProducerLeavesPausedOwnerR19(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 2, l)
	w, err := c.client().Writer(t.Context(), "s")
	require.NoError(t, err)
	p := &producer{w: w}
	p.send(10)
	require.NoError(t, w.Flush(t.Context()))
	owner := c.owner("s")
	owner.pause()
	defer owner.resume()
	flushed := make(chan error, 1)
	p.send(1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	go func() { flushed <- w.Flush(ctx) }() // of what was sent before, whatever comes after
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for busy := true; busy; {
		select {
		case err := <-flushed:
			require.NoError(t, err, "no acknowledgement while the producer goes on")
			busy = false
		case <-tick.C:
			p.send(1)
		}
	}
	p.check(t, l, "s")
}

// TestFencedOwnerTakesStreamAgain: somebody else wrote the stream without
// asking for the owner's node. The fence decides; then the owner fences back.
func TestFencedOwnerTakesStreamAgain(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l)
	conn := c.nodes[0].raw(t)
	require.Equal(t, wire.Success, call(t, conn, write("s", "a")).Header().Code)
	stranger := &process{logs: l, gate: &gate{}}
	w, _, err := stranger.open(context.Background(), "s")
	require.NoError(t, err)
	r := call(t, conn, write("s", "b"))
	require.ErrorIs(t, wire.ErrorOf(r.Header()), stream.ErrFenced)
	require.Equal(t, wire.Success, call(t, conn, write("s", "c")).Header().Code)
	require.NoError(t, w.Close())
	require.Equal(t, []string{"a", "c"}, l.payloads("s"))
}

// TestRestartAtSameAddress: the owner's node of the process before is its own.
func TestRestartAtSameAddress(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l, func(o *Options) { o.LeaseTTL = time.Hour })
	old := c.nodes[0]
	require.Equal(t, wire.Success, call(t, old.raw(t), write("s", "a")).Header().Code)
	old.kill(t)
	nd := c.add(old.addr)
	require.Equal(t, old.Location(), nd.Location(), "keeps its shard number")
	require.Equal(t, wire.Success, call(t, nd.raw(t), write("s", "b")).Header().Code)
	require.Equal(t, []string{"a", "b"}, l.payloads("s"))
}

// TestReleaseHandsOver: the segment is completed, the node gone, and any proxy
// can take the stream.
func TestReleaseHandsOver(t *testing.T) {
	var clean atomic.Int32
	c := startCluster(t, 2, newLogs("s"), func(o *Options) {
		o.Events.Released = func(r Released) {
			if r.Clean {
				clean.Add(1)
			}
		}
	})
	a, b := c.nodes[0].raw(t), c.nodes[1].raw(t)
	require.Equal(t, wire.Success, call(t, a, write("s", "a")).Header().Code)
	release := &wire.Call{Method: wire.Release, Stream: "s"}
	require.Equal(t, wire.Found, call(t, b, release).Header().Code, "not the owner")
	require.Equal(t, wire.Success, call(t, a, release).Header().Code)
	require.EqualValues(t, 1, clean.Load())
	require.Equal(t, wire.Success, call(t, b, write("s", "b")).Header().Code)
	require.Equal(t, c.nodes[1].addr, c.owner("s").addr)
	require.Equal(t, wire.Found, call(t, a, write("s", "c")).Header().Code)
}

// TestDrainHandsOver: a producer goes on through the other proxy, with nothing
// lost and nothing left to recover.
func TestDrainHandsOver(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 2, l)
	cl := c.client()
	w, err := cl.Writer(context.Background(), "s")
	require.NoError(t, err)
	p := &producer{w: w}
	p.send(200)
	require.NoError(t, w.Flush(context.Background()))
	owner := c.owner("s")
	p.send(200)
	require.NoError(t, owner.Close())
	require.NoError(t, <-owner.done)
	owner.over = true
	p.send(200)
	p.check(t, l, "s")
	st := c.tree.Open()
	defer func() { require.NoError(t, st.Close()) }()
	page, err := st.List(context.Background(), wire.MembersKey("/ns"), metadata.ListOptions{})
	require.NoError(t, err)
	require.Len(t, page.Nodes, 1)
}

// TestRedirectLoopEndsInLookUpR38: three proxies send the client in a circle;
// after MaxHops it looks the owner up, and the write goes through.
func TestRedirectLoopEndsInLookUpR38(t *testing.T) {
	for _, live := range []bool{true, false} {
		t.Run(fmt.Sprint("owner alive ", live), func(t *testing.T) {
			l := newLogs("s")
			c := startCluster(t, 1, l)
			ring := startLiars(t, c, 3)
			var hops, lookUps atomic.Int32
			cl := c.client(func(o *client.Options) {
				o.Events.Hopped = func(h client.Hopped) { hops.Store(int32(h.Hops)) }
				o.Events.LookedUp = func(client.LookedUp) { lookUps.Add(1) }
			})
			require.Equal(t, wire.Success, call(t, c.nodes[0].raw(t), write("s", "a")).Header().Code)
			if !live {
				c.nodes[0].kill(t)
			}
			w, err := cl.Writer(context.Background(), "s")
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			began := time.Now()
			_, err = w.Append(ctx, rec("b"))
			require.Less(t, time.Since(began), 2*time.Second+500*time.Millisecond)
			if live {
				require.NoError(t, err)
				require.Equal(t, []string{"a", "b"}, l.payloads("s"))
			} else {
				require.ErrorIs(t, err, stream.ErrTimeout)
				require.Equal(t, []string{"a"}, l.payloads("s"))
			}
			require.Positive(t, lookUps.Load())
			require.Positive(t, hops.Load())
			require.NoError(t, w.Abort())
			require.Positive(t, ring.asked.Load())
		})
	}
}

// TestWritesEndByTheirDeadlineR34: the writer does not answer; every call is
// answered all the same, and after healing the order holds.
func TestWritesEndByTheirDeadlineR34(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l, func(o *Options) { o.RequestTimeout = 400 * time.Millisecond })
	nd := c.nodes[0]
	conn := nd.raw(t)
	require.Equal(t, wire.Success, call(t, conn, write("s", "a")).Header().Code)
	stuck := make(chan struct{})
	nd.proc.set(func(p *process) { p.opened = func() { <-stuck } })
	// the next owner's opening hangs: as a roll or a recovery that waits on metadata
	require.Equal(t, wire.Success, call(t, conn, &wire.Call{Method: wire.Release, Stream: "s"}).Header().Code)
	codes := make(chan wire.Code, 3)
	began := time.Now()
	for i := range 3 {
		conn.Go(write("s", fmt.Sprint("late ", i)), func(r *wire.Reply, err error) {
			if err != nil {
				codes <- 0
				return
			}
			codes <- r.Header().Code
		})
	}
	require.Eventually(t, func() bool { return nd.queued("s") == 2 }, 5*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return nd.queued("s") == 0 }, 5*time.Second, time.Millisecond, "calls outlive their deadline")
	require.Less(t, time.Since(began), 2*time.Second)
	close(stuck)
	nd.proc.set(func(p *process) { p.opened = nil })
	for range 3 {
		require.NotZero(t, <-codes)
	}
	require.Eventually(t, func() bool { return call(t, conn, write("s", "b")).Header().Code == wire.Success }, 3*time.Second, 10*time.Millisecond)
	all := strings.Join(l.payloads("s"), ",")
	require.True(t, all == "a,b" || all == "a,late 0,b", all)
}

// TestCallsDoNotOutliveTheLeaseR19: a call that came by a connection of the
// lease before is not carried out under the next, though the stream is free
// again: its client may have gone to another proxy and come back.
func TestCallsDoNotOutliveTheLeaseR19(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l, func(o *Options) { o.LeaseTTL = time.Hour })
	nd := c.nodes[0]
	conn := nd.raw(t)
	require.Equal(t, wire.Success, call(t, conn, write("s", "a")).Header().Code)
	require.Equal(t, wire.Success, call(t, conn, on(wire.Release, "s")).Header().Code)
	old := nd.lease.Load()
	require.NoError(t, nd.renew(context.Background()))
	require.Equal(t, wire.WriteCancelled, call(t, conn, write("s", "late")).Header().Code)
	require.Equal(t, wire.Success, call(t, nd.raw(t), write("s", "b")).Header().Code)
	require.Equal(t, []string{"a", "b"}, l.payloads("s"))
	require.NoError(t, old.Close(context.Background()))
}

// TestConnectionMadeWithoutLeaseServesLater: a client that connects after the
// lease was lost and before there is another is served once there is.
func TestConnectionMadeWithoutLeaseServesLater(t *testing.T) {
	l := newLogs("s")
	c := startCluster(t, 1, l)
	nd := c.nodes[0]
	witness := nd.raw(t)
	require.Equal(t, wire.Success, call(t, witness, write("s", "w")).Header().Code)
	nd.store.down.Store(true) // no new session
	nd.store.mu.Lock()
	for _, s := range nd.store.sessions {
		require.NoError(t, s.Close(context.Background()))
	}
	nd.store.mu.Unlock()
	require.Eventually(t, func() bool { return witness.Err() != nil }, 5*time.Second, time.Millisecond, "connections of before are cut")
	conn := nd.raw(t)
	require.Equal(t, wire.StreamUnavailable, call(t, conn, write("s", "x")).Header().Code)
	nd.store.down.Store(false)
	require.Eventually(t, func() bool { return call(t, conn, write("s", "y")).Header().Code == wire.Success }, 5*time.Second, time.Millisecond)
	require.Equal(t, []string{"w", "y"}, l.payloads("s"))
}
