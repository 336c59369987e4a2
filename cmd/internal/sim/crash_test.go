package sim

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/proc"
)

// TestR11_OnlyCopyOutlivesKills: streams with one copy only, on one bookie with
// two journal and two ledger directories. It dies by kill -9 at random moments,
// while some directories are being flushed and others are not: what it has
// acknowledged is all there. It writes so much that the disk is its alone: it
// does not run beside tests whose leases are short.
func TestR11_OnlyCopyOutlivesKills(t *testing.T) {
	c := startAlone(t, proc.Options{Bookies: 1, JournalDirs: 2, LedgerDirs: 2, BookieLease: restartLease})
	rnd := random(t)
	const streams = 3
	of := make([][]*producer, streams)
	for i := range of {
		require.NoError(t, c.Client(t.Context(), "stream", "create", fmt.Sprint("s", i), "--ensemble", "1", "--write-quorum", "1", "--ack-quorum", "1"))
	}
	for round := range 2 {
		var ps []*producer
		for i := range of {
			p := produceTo(t, c, fmt.Sprint("s", i), fmt.Sprint("r", round), "--write-timeout", "10s")
			p.pad = 4 << 10 // several write caches of 16 MiB in all
			go p.feed(1_000_000, 0)
			of[i] = append(of[i], p)
			ps = append(ps, p)
		}
		for _, p := range ps {
			p.requireMore(t, 1+rnd.IntN(3000), 30*time.Second)
		}
		c.Bookies[0].Kill()
		began := time.Now()
		require.NoError(t, c.Bookies[0].Start(t.Context()))
		t.Logf("restart in %v", time.Since(began))
		for _, p := range ps {
			p.stop(t)
		}
	}
	for i, ps := range of {
		requireKept(t, c, fmt.Sprint("s", i), ps...)
	}
}

// TestEverythingKilledAtOnce: all servers and the producers die by kill -9 in
// the same moment, as in a power cut of one rack. What was acknowledged is there
// after the restart, and the stream takes more.
func TestEverythingKilledAtOnce(t *testing.T) {
	c := startWith(t, proc.Options{Bookies: 3, Proxies: 2, BookieLease: restartLease})
	newStream(t, c)
	rnd := random(t)
	var all []*producer
	for round, via := range []string{"proxy", "library", "proxy"} {
		p := produce(t, c, string(rune('a'+round)), "--via", via)
		go p.feed(1_000_000, 0)
		p.requireMore(t, 1+rnd.IntN(20_000), 30*time.Second)
		c.KillAll()
		p.stop(t)
		all = append(all, p)
		began := time.Now()
		require.NoError(t, c.StartAll(t.Context()))
		t.Logf("everything restarted in %v", time.Since(began))
	}
	requireKept(t, c, streamName, all...)
}

// TestDevKilled: `loglode dev` dies by kill -9 and starts again on its data,
// with all that was acknowledged.
func TestDevKilled(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	c, dev, err := proc.Dev(binary, dataDir(t))
	require.NoError(t, err)
	require.NoError(t, dev.Start(t.Context()))
	t.Cleanup(dev.Stop)
	newStream(t, c)
	var all []*producer
	for round, via := range []string{"library", "proxy"} {
		p := produce(t, c, string(rune('a'+round)), "--via", via)
		go p.feed(1_000_000, 0)
		p.requireMore(t, 1+rnd.IntN(20_000), 30*time.Second)
		dev.Kill()
		p.stop(t)
		all = append(all, p)
		began := time.Now()
		require.NoError(t, dev.Start(t.Context()))
		took := time.Since(began)
		t.Logf("dev restarted in %v", took)
		require.Less(t, took, 15*time.Second)
	}
	requireKept(t, c, streamName, all...)
}

// TestWriterKilledWhileBookieIsDown: one bookie is down, the writer dies, the
// next one recovers with those that are left; then the bookie comes back and
// another one goes. There are four, for a new segment needs three.
func TestWriterKilledWhileBookieIsDown(t *testing.T) {
	c := startWith(t, proc.Options{Bookies: 4, BookieLease: restartLease})
	newStream(t, c)
	rnd := random(t)
	var all []*producer
	for round := range 3 {
		p := produce(t, c, string(rune('a'+round)))
		go p.feed(1_000_000, 20*time.Microsecond)
		p.requireMore(t, 1+rnd.IntN(1000), 20*time.Second)
		down := c.Bookies[(round+rnd.IntN(2))%4]
		down.Kill()
		p.requireMore(t, rnd.IntN(1000), 20*time.Second)
		p.stop(t)
		q := produce(t, c, string(rune('A'+round)))
		began := time.Now()
		q.feed(10, 0)
		q.waitAcked(within(t, 10*time.Second), t, 10)
		t.Logf("%s down: writer replaced in %v", down.Name, time.Since(began))
		require.NoError(t, q.finish(), "%s", q.errs.Bytes())
		all = append(all, p, q)
		require.NoError(t, down.Start(t.Context()))
	}
	requireKept(t, c, streamName, all...)
}

// TestMetadataDown: the metadata server is down for 10 s under load. A writer
// goes on, for it needs bookies alone; new operations end by their deadline with
// exit code 5; after the restart everything works, proxies included.
func TestMetadataDown(t *testing.T) {
	c := start(t, 3, 2)
	newStream(t, c)
	require.NoError(t, c.Client(t.Context(), "stream", "create", "p"))
	w := produce(t, c, "w")
	go w.feed(1_000_000, 50*time.Microsecond)
	viaProxy := produceTo(t, c, "p", "v", "--via", "proxy")
	go viaProxy.feed(1_000_000, time.Millisecond)
	w.requireMore(t, 100, 20*time.Second)
	viaProxy.requireMore(t, 100, 20*time.Second)
	c.Etcd.Kill()
	down := time.Now()
	for time.Since(down) < 10*time.Second {
		for _, args := range [][]string{{"stream", "create", "new"}, {"stream", "show", streamName}, {"replay", streamName}} {
			began := time.Now()
			err := c.Command(context.WithoutCancel(t.Context()), append(args, "--timeout", "1s")...).Run()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%v", args)
			require.Equal(t, 5, exit.ExitCode(), "%v", args)
			require.Less(t, time.Since(began), 5*time.Second, "%v", args)
		}
		w.requireMore(t, 100, 3*time.Second)
	}
	require.NoError(t, c.Etcd.Start(t.Context()))
	began := time.Now()
	require.NoError(t, c.Client(t.Context(), "stream", "create", "new"))
	viaProxy.requireMore(t, 100, 20*time.Second)
	t.Logf("all well %v after the restart of the metadata server", time.Since(began))
	w.requireMore(t, 100, 5*time.Second)
	w.stop(t)
	viaProxy.stop(t)
	requireKept(t, c, streamName, w)
	requireKept(t, c, "p", viaProxy)
}
