package sim

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/proc"
	"github.com/loglode/loglode/cmd/internal/routed"
	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/stream"
)

func pause(t *testing.T, p *proc.Process) {
	t.Helper()
	p.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { p.Signal(syscall.SIGCONT) })
}

func resume(t *testing.T, p *proc.Process) {
	t.Helper()
	p.Signal(syscall.SIGCONT)
}

// owner finds the proxy that owns the stream, by what the routing client says
// after an append of its own to another stream of the same owner's: a look-up
// in metadata.
func owner(t *testing.T, c *proc.Cluster) *proc.Process {
	t.Helper()
	ns, err := namespace.Open(t.Context(), c.Namespace)
	require.NoError(t, err)
	defer ns.Close()
	cl, err := routed.Open(t.Context(), ns, client.Options{})
	require.NoError(t, err)
	defer cl.Close()
	addr, err := cl.LookUp(t.Context(), stream.Name(streamName))
	require.NoError(t, err)
	p := c.ProxyAt(addr)
	require.NotNil(t, p, "owner %q is no proxy of ours", addr)
	return p
}

// TestOwnerKilled: kill -9 of the proxy that owns the stream. The producer's
// next acknowledgement comes within 3 s through the other proxy (lease 1 s),
// and every acknowledged line is there once and in order.
func TestOwnerKilled(t *testing.T) {
	c := start(t, 3, 2)
	newStream(t, c)
	rnd := random(t)
	p := produce(t, c, "a", "--via", "proxy")
	go p.feed(1_000_000, 20*time.Microsecond)
	p.waitAcked(within(t, 20*time.Second), t, 1)
	for range 4 {
		_, acked, _ := p.counts()
		p.waitAcked(within(t, 20*time.Second), t, acked+rnd.IntN(3000))
		victim := owner(t, c)
		victim.Kill()
		killed := time.Now()
		// What was acknowledged before the kill may still be on its way.
		<-time.After(50 * time.Millisecond)
		_, acked, _ = p.counts()
		p.waitAcked(within(t, 20*time.Second), t, acked+1)
		took := time.Since(killed)
		t.Logf("%s killed, next acknowledgement after %v", victim.Name, took)
		require.Less(t, took, 3*time.Second)
		require.NoError(t, victim.Start(t.Context()))
	}
	require.NoError(t, p.cmd.Process.Kill())
	<-p.ended
	requireOnceInOrder(t, replay(t, c), p)
}

// TestR19_OwnerPausedPastItsLease: the owner is stopped for three leases while
// writes are in flight, the other proxy takes over, and the old owner wakes:
// it acknowledges nothing more, and the stream has each acknowledged line once
// and in order.
func TestR19_OwnerPausedPastItsLease(t *testing.T) {
	c := start(t, 3, 2)
	newStream(t, c)
	rnd := random(t)
	p := produce(t, c, "a", "--via", "proxy")
	go p.feed(1_000_000, 20*time.Microsecond)
	p.waitAcked(within(t, 20*time.Second), t, 1)
	for range 3 {
		_, acked, _ := p.counts()
		p.waitAcked(within(t, 20*time.Second), t, acked+rnd.IntN(3000))
		victim := owner(t, c)
		pause(t, victim)
		paused := time.Now()
		<-time.After(3 * time.Second) // three leases
		_, acked, _ = p.counts()
		p.waitAcked(within(t, 20*time.Second), t, acked+1)
		t.Logf("%s paused; acknowledgements go on after %v at most", victim.Name, time.Since(paused))
		require.NotEqual(t, victim.Name, owner(t, c).Name, "nobody took over")
		resume(t, victim)
		_, acked, _ = p.counts()
		p.waitAcked(within(t, 20*time.Second), t, acked+1000)
		require.NotEqual(t, victim.Name, owner(t, c).Name, "the owner that woke took the stream back")
	}
	require.NoError(t, p.cmd.Process.Kill())
	<-p.ended
	requireOnceInOrder(t, replay(t, c), p)
}

// TestProxyDrains: SIGTERM hands the stream over without a failed append.
func TestProxyDrains(t *testing.T) {
	c := start(t, 3, 2)
	newStream(t, c)
	p := produce(t, c, "a", "--via", "proxy")
	go p.feed(1_000_000, 20*time.Microsecond)
	p.waitAcked(within(t, 20*time.Second), t, 1000)
	victim := owner(t, c)
	victim.Stop()
	_, acked, _ := p.counts()
	p.waitAcked(within(t, 10*time.Second), t, acked+1000)
	require.NoError(t, p.cmd.Process.Kill())
	<-p.ended
	requireOnceInOrder(t, replay(t, c), p)
}
