package namespace

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/writers"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "first seed of TestRandomFaults")
	seedsFlag = flag.Uint64("seeds", 12, "number of seeds of TestRandomFaults")
)

// Writers take the stream from each other, bookies crash and stall, segments
// roll, and a tail follows: I3, I4 and I5 hold. Time is virtual.
func TestRandomFaults(t *testing.T) {
	for seed := *seedFlag; seed < *seedFlag+*seedsFlag; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("replay: go test ./namespace -run TestRandomFaults -seed %d -seeds 1", seed)
			synctest.Test(t, func(t *testing.T) { randomFaults(t, seed) })
		})
	}
}

// chaos is one run of TestRandomFaults.
type chaos struct {
	*system
	t       *testing.T
	rng     *rand.Rand
	h       *history
	writers []*writers.Writer // the last one has the stream; the others may not know yet
	clients []*Namespace
	down    int // bookie that is crashed, -1 if none
	n       int // records sent
}

func randomFaults(t *testing.T, seed uint64) {
	c := &chaos{system: startSystem(t, 4), t: t, rng: rand.New(rand.NewPCG(seed, 3)), h: newHistory(), down: -1}
	c.clients = []*Namespace{c.ns, c.open(), c.open()}
	c.create("a", stream.Config{Roll: stream.Roll{SizeBytes: int64(2+c.rng.IntN(30)) << 10, Every: -1}})
	tailed := make(chan []stream.Record, 1)
	go func() { tailed <- tailAll(t, c.stream(c.open(), "a")) }()
	c.takeOver()
	for range 40 {
		c.step()
	}
	c.heal()
	c.takeOver()
	last := c.writers[len(c.writers)-1]
	require.NoError(t, last.Flush(bg(c.t)))
	require.NoError(t, last.Seal(bg(c.t)))
	for _, w := range c.writers[:len(c.writers)-1] {
		_ = w.Abort() // most have failed
	}
	got := records(t, c.stream(c.ns, "a"))
	c.h.check(t, got)
	require.Equal(t, got, <-tailed, "the tail saw what is there, no more and no less")
	require.NotEmpty(t, c.h.acked)
}

// tailAll gives what a tail from the first record gives until the seal.
func tailAll(t testing.TB, st *Stream) (out []stream.Record) {
	for r, err := range st.Tail(bgNow(), stream.First()) {
		if err != nil {
			t.Errorf("tail after %d records: %v", len(out), err)
			break
		}
		out = append(out, r.Clone())
	}
	return out
}

func (c *chaos) step() {
	switch c.rng.IntN(12) {
	case 0:
		c.takeOver()
	case 1:
		if c.down < 0 {
			c.down = c.rng.IntN(c.Len())
			c.Crash(c.down)
		} else {
			c.Restart(c.down)
			c.down = -1
		}
	case 2:
		b := c.rng.IntN(c.Len())
		c.Stall(b, true)
		<-time.After(time.Duration(c.rng.IntN(5000)) * time.Millisecond)
		c.Stall(b, false)
	case 3:
		if b := c.rng.IntN(c.Len()); b != c.down {
			c.Cut(b)
		}
	case 4, 5:
		<-time.After(time.Duration(c.rng.IntN(100)) * time.Millisecond)
	case 6:
		c.append(c.writers[c.rng.IntN(len(c.writers))])
	default:
		w := c.writers[len(c.writers)-1]
		c.append(w)
		if w.Err() != nil {
			c.takeOver()
		}
	}
}

// append sends a burst through a writer that may have lost the stream.
func (c *chaos) append(w *writers.Writer) {
	for range 1 + c.rng.IntN(30) {
		c.h.add(w, fmt.Sprintf("%d-%s", c.n, make([]byte, c.rng.IntN(500))))
		c.n++
	}
	synctest.Wait()
}

// takeOver opens a writer by another client, trying until it works: with
// bookies down and stalled a recovery may fail.
func (c *chaos) takeOver() {
	client := c.clients[c.rng.IntN(len(c.clients))]
	for attempt := 0; ; attempt++ {
		w, err := c.stream(client, "a").Writer(bg(c.t))
		if err == nil {
			c.t.Cleanup(func() { _ = w.Abort() })
			c.writers = append(c.writers, w)
			return
		}
		require.Less(c.t, attempt, 20, "%v", err)
		c.heal()
		<-time.After(time.Second)
	}
}

func (c *chaos) heal() {
	if c.down >= 0 {
		c.Restart(c.down)
		c.down = -1
	}
	<-time.After(10 * time.Second)
}
