package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/proc"
)

// TestWriterKilledAndReplaced: a writer dies by kill -9 in the middle and a
// second one takes over: every acknowledged line is there once and in order,
// and the next writer's first acknowledgement comes within 2 s of its start, as
// a rule: the process starts, recovers, fences and writes.
func TestWriterKilledAndReplaced(t *testing.T) {
	c := start(t, 3, 0)
	newStream(t, c)
	rnd := random(t)
	var all []*producer
	var took []time.Duration
	for round := range 5 {
		p := produce(t, c, string(rune('a'+round)))
		begin := time.Now()
		p.feed(1, 0)
		p.waitAcked(within(t, 20*time.Second), t, 1)
		took = append(took, time.Since(begin))
		t.Logf("round %d: first acknowledgement after %v", round, took[round])
		require.Less(t, took[round], 5*time.Second)
		all = append(all, p)
		go p.feed(50_000, 0)
		p.waitAcked(within(t, 20*time.Second), t, 1+rnd.IntN(5000))
		p.stop(t)
	}
	slices.Sort(took)
	require.Less(t, took[len(took)/2], 2*time.Second, "median")
	requireKept(t, c, streamName, all...)
}

// TestBookiesKilledUnderLoad: bookies die by kill -9 one after the other while
// a writer goes on; nothing is lost, and nothing waits long.
func TestBookiesKilledUnderLoad(t *testing.T) {
	c := startWith(t, proc.Options{Bookies: 4, BookieLease: restartLease})
	newStream(t, c)
	rnd := random(t)
	p := produce(t, c, "a")
	go p.feed(1_000_000, 20*time.Microsecond)
	for range 4 {
		b := c.Bookies[rnd.IntN(len(c.Bookies))]
		p.requireMore(t, 1+rnd.IntN(3000), 20*time.Second)
		b.Kill()
		t.Logf("%s killed; 1000 acknowledgements more in %v", b.Name, p.requireMore(t, 1000, 10*time.Second))
		require.NoError(t, b.Start(t.Context()))
	}
	p.stop(t)
	requireKept(t, c, streamName, p)
}

// TestR04_PausedBookieDoesNotHoldUpTakeover: one bookie of three is stopped
// (it accepts and never answers) when the writer dies. The next writer recovers
// in less than two read timeouts.
func TestR04_PausedBookieDoesNotHoldUpTakeover(t *testing.T) {
	// A new segment needs three bookies that are registered: no lease ends here.
	c := startWith(t, proc.Options{Bookies: 3, BookieLease: time.Minute})
	newStream(t, c)
	p := produce(t, c, "a")
	p.feed(10, 0)
	p.waitAcked(within(t, 20*time.Second), t, 10)
	pause(t, c.Bookies[2])
	p.stop(t)
	q := produce(t, c, "b")
	begin := time.Now()
	q.feed(10, 0)
	q.waitAcked(within(t, 30*time.Second), t, 10)
	took := time.Since(begin)
	t.Logf("first acknowledgements after %v", took)
	require.Less(t, took, 10*time.Second, "two read timeouts of 5 s")
	resume(t, c.Bookies[2])
	require.NoError(t, q.finish())
	requireKept(t, c, streamName, p, q)
}

// TestR02_FenceSurvivesKill: all bookies die by kill -9 right after a second
// writer fenced the first; after their restart the first is still refused.
func TestR02_FenceSurvivesKill(t *testing.T) {
	c := startWith(t, proc.Options{Bookies: 3, BookieLease: restartLease})
	newStream(t, c)
	old := produce(t, c, "a")
	old.feed(5, 0)
	old.waitAcked(within(t, 20*time.Second), t, 5)
	next := produce(t, c, "b")
	next.feed(1, 0)
	next.waitAcked(within(t, 20*time.Second), t, 1) // old is fenced by now
	for _, b := range c.Bookies {
		b.Kill()
	}
	for _, b := range c.Bookies {
		require.NoError(t, b.Start(t.Context()))
	}
	old.feed(1, 0)
	select {
	case err := <-old.ended:
		require.ErrorContains(t, err, "exit status 4", "%s", old.errs.Bytes())
	case <-time.After(30 * time.Second):
		t.Fatal("the fenced writer did not end")
	}
	next.stop(t)
	_, acked, _ := old.counts()
	require.Equal(t, 5, acked, "the fenced writer got an acknowledgement")
	old.mu.Lock()
	old.sent = 5 // the sixth line was refused: it must not be there
	old.mu.Unlock()
	requireKept(t, c, streamName, old, next)
}
