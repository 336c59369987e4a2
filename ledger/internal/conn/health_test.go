package conn

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBuckets(t *testing.T) {
	for d := time.Duration(0); d < 3*time.Minute; d += d/50 + time.Microsecond {
		i := bucketOf(d)
		require.Less(t, d, bucketEnd(i), "%v", d)
		require.LessOrEqual(t, bucketEnd(i), d+d/4+2*time.Microsecond, "%v", d)
		if i > 0 {
			require.GreaterOrEqual(t, d, bucketEnd(i-1))
		}
	}
	require.Equal(t, latencyBuckets-1, bucketOf(time.Hour))
	require.Equal(t, 0, bucketOf(-time.Hour))
}

// The tail follows what answers take, up within some answers and down within
// some more.
func TestTailAgainstSortedSamples(t *testing.T) {
	const seed = 7
	t.Logf("seed %d; go test ./ledger/internal/conn -run %s", seed, t.Name())
	rng := rand.New(rand.NewPCG(seed, seed))
	var l latency
	now := time.Duration(0)
	for _, scale := range []float64{1, 30, 0.1, 1000, 5} {
		var all []time.Duration
		for range 3 * latencyMax {
			d := time.Duration(rng.ExpFloat64() * scale * float64(time.Millisecond))
			now += time.Millisecond
			l.add(d, now)
			all = append(all, d)
		}
		last := all[len(all)-latencyMax:]
		slices.Sort(last)
		tail := time.Duration(l.tail.Load())
		require.Greater(t, tail, last[len(last)*96/100], "scale %v", scale)
		require.Less(t, tail, 2*last[len(last)-1]+time.Microsecond, "scale %v", scale)
	}
	require.Zero(t, new(latency).tail.Load())
}

// Rule 52: a bookie that failed is avoided for some seconds, longer when it fails
// again, and one burst of failures is one.
func TestRule52_Quarantine(t *testing.T) {
	var h health
	now := time.Hour
	require.False(t, h.quarantined(now))
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 40 * time.Second} {
		for i := range 1000 {
			h.fail(now + time.Duration(i)*time.Millisecond)
		}
		require.True(t, h.quarantined(now+want-1))
		require.False(t, h.quarantined(now+want))
		now += want + time.Second
	}
	now += quarantineMemory
	h.fail(now)
	require.False(t, h.quarantined(now+quarantineMin), "old failures are forgotten")
}

func TestRanks(t *testing.T) {
	var h health
	best, now := time.Millisecond, time.Hour
	require.Equal(t, RankNear, h.rank(false, best, now))
	h.answered(false, now, now+2*time.Millisecond, true)
	require.Equal(t, RankNear, h.rank(false, best, now))
	now += time.Minute
	h.answered(false, now, now+20*time.Millisecond, true)
	require.Equal(t, RankFar, h.rank(false, best, now))
	require.Equal(t, RankNear, h.rank(true, best, now), "of batches nothing is known")
	require.Equal(t, RankNear, h.rank(false, 0, now))
	h.slowAt.Store(int64(now) + 2)
	require.Equal(t, RankSlow, h.rank(false, best, now))
	h.answered(false, now, now+30*time.Millisecond, true)
	require.Equal(t, RankSlow, h.rank(false, best, now), "an answer to what was sent before says nothing")
	h.fail(now)
	require.Equal(t, RankBad, h.rank(false, best, now+shunned-1))
	require.Equal(t, RankSlow, h.rank(false, best, now+shunned+1))
	now += time.Minute
	h.answered(false, now, now+time.Millisecond, true)
	require.Equal(t, RankNear, h.rank(false, best, now), "one good answer")
	require.True(t, h.probe(now))
	require.False(t, h.probe(now+probeEvery-1))
	require.True(t, h.probe(now+probeEvery+1))
}

// A bookie that does not know batch reads is tried rarely, and ever more so.
func TestRule45_BatchReadsAreTriedRarely(t *testing.T) {
	var tries int
	p := &Pool{start: time.Now()}
	b := &Bookie{id: "b0:1"}
	for i := range b.links {
		b.links[i] = newLink(p, b, protocol(i))
	}
	start := p.start
	for at := time.Duration(0); at < 24*time.Hour; at += 10 * time.Second {
		p.start = start.Add(-at)
		if b.BatchReads() {
			tries++
			b.NoteNoBatch()
			require.False(t, b.BatchReads())
		}
	}
	require.InDelta(t, 6, tries, 2)
	b.batchOK.Store(true)
	b.NoteNoBatch()
	require.True(t, b.BatchReads(), "what it once did it can do")
}
