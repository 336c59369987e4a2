package sim

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/proc"
	"github.com/loglode/loglode/cmd/internal/routed"
	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// pause stops a process and waits until all its threads have stopped.
func pause(t *testing.T, p *proc.Process) {
	t.Helper()
	p.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { p.Signal(syscall.SIGCONT) })
	require.Eventually(t, func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
		require.NoError(t, err)
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			require.NoError(t, err)
			if !bytes.Contains(text, []byte(") T ")) {
				return false
			}
		}
		return len(tasks) > 0
	}, 5*time.Second, time.Millisecond, "%s does not stop", p.Name)
}

func resume(t *testing.T, p *proc.Process) {
	t.Helper()
	p.Signal(syscall.SIGCONT)
}

// owner finds the proxy that owns the stream.
func owner(t *testing.T, c *proc.Cluster) *proc.Process {
	t.Helper()
	p, owned := ownerIfAny(t, c)
	require.True(t, owned, "nobody owns the stream")
	return p
}

// ownerIfAny reads from metadata which proxy owns the stream.
func ownerIfAny(t *testing.T, c *proc.Cluster) (p *proc.Process, owned bool) {
	t.Helper()
	ns, err := namespace.Open(t.Context(), c.Namespace)
	require.NoError(t, err)
	defer ns.Close()
	cl, err := routed.Open(t.Context(), ns, client.Options{})
	require.NoError(t, err)
	defer cl.Close()
	addr, err := cl.LookUp(t.Context(), stream.Name(streamName))
	require.NoError(t, err)
	if addr == "" {
		return nil, false
	}
	p = c.ProxyAt(addr)
	require.NotNil(t, p, "owner %q is no proxy of ours", addr)
	return p, true
}

// lease of the proxies in these tests.
const lease = time.Second

// TestOwnerKilled: kill -9 of the proxy that owns the stream. The producer's
// next acknowledgement comes within 3 s through the other proxy (lease 1 s),
// and every acknowledged line is there once and in order.
func TestOwnerKilled(t *testing.T) {
	c := start(t, 3, 2)
	newStream(t, c)
	rnd := random(t)
	p := produce(t, c, "a", "--via", "proxy")
	go p.feed(1_000_000, 20*time.Microsecond)
	for range 4 {
		p.requireMore(t, 1+rnd.IntN(3000), 20*time.Second)
		victim := owner(t, c)
		killed := time.Now()
		victim.Kill()
		// What was acknowledged before the kill may still be on its way.
		<-time.After(50 * time.Millisecond)
		p.requireMore(t, 1, 20*time.Second)
		took := time.Since(killed)
		t.Logf("%s killed, next acknowledgement after %v", victim.Name, took)
		require.Less(t, took, 3*time.Second)
		require.NoError(t, victim.Start(t.Context()))
	}
	p.stop(t)
	requireKept(t, c, streamName, p)
}

// TestR19_OwnerPausedPastItsLease: the owner is stopped for three leases while
// writes are in flight, the other proxy takes over, and the old owner wakes:
// it acknowledges nothing of what waits at its socket, and the stream has each
// acknowledged line once and in order.
func TestR19_OwnerPausedPastItsLease(t *testing.T) {
	c := start(t, 3, 2)
	newStream(t, c)
	rnd := random(t)
	p := produce(t, c, "a", "--via", "proxy")
	go p.feed(1_000_000, 20*time.Microsecond)
	for round := range 2 {
		p.requireMore(t, 1+rnd.IntN(3000), 20*time.Second)
		victim := owner(t, c)
		client := rawConn(t, c, victim)
		paused := time.Now()
		pause(t, victim)
		stale := sendStale(client, fmt.Sprintf("stale-%d", round))
		<-time.After(100 * time.Millisecond) // acknowledgements that were on their way
		p.requireMore(t, 1, 20*time.Second)
		took := time.Since(paused)
		t.Logf("%s paused; acknowledgements go on after %v", victim.Name, took)
		require.Less(t, took, lease+3*time.Second)
		<-time.After(3*lease - time.Since(paused))
		require.NotEqual(t, victim.Name, owner(t, c).Name, "nobody took over")
		resume(t, victim)
		for range staleWrites {
			require.Error(t, <-stale, "acknowledged by the owner that woke")
		}
		p.requireMore(t, 1000, 20*time.Second)
		require.NotEqual(t, victim.Name, owner(t, c).Name, "the owner that woke took the stream back")
	}
	p.stop(t)
	requireKept(t, c, streamName, p)
}

// staleWrites are sent to an owner that is stopped.
const staleWrites = 10

// rawConn is a connection to a proxy that follows no redirect.
func rawConn(t *testing.T, c *proc.Cluster, p *proc.Process) *wire.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", c.ProxyAddr[slices.Index(c.Proxies, p)])
	require.NoError(t, err)
	conn := wire.NewConn(nc, 0)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// sendStale sends writes and gives what becomes of each: nil for a success.
func sendStale(conn *wire.Conn, payload string) <-chan error {
	answers := make(chan error, staleWrites)
	for range staleWrites {
		conn.Go(&wire.Call{Method: wire.WriteWithContext, Stream: streamName, Data: [][]byte{[]byte(payload)}, Context: &wire.WriteContext{}},
			func(r *wire.Reply, err error) {
				if err == nil {
					err = wire.ErrorOf(r.Header())
				}
				answers <- err
			})
	}
	return answers
}

// TestProxiesDrainOneAfterTheOther: SIGTERM hands the stream over without a
// failed append, round and round as in a rolling restart.
func TestProxiesDrainOneAfterTheOther(t *testing.T) {
	c := start(t, 3, 2)
	newStream(t, c)
	p := produce(t, c, "a", "--via", "proxy")
	go p.feed(1_000_000, 20*time.Microsecond)
	p.requireMore(t, 1000, 20*time.Second)
	for range 4 {
		victim := owner(t, c)
		began := time.Now()
		victim.Stop()
		t.Logf("%s drained in %v; 1000 acknowledgements more in %v", victim.Name, time.Since(began), p.requireMore(t, 1000, 10*time.Second))
		require.NoError(t, victim.Start(t.Context()))
	}
	p.stop(t)
	requireKept(t, c, streamName, p)
}
