package namespace

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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
	down    int               // bookie that is crashed, -1 if none
	n       int               // records sent
	views   [][]stream.Record // what replays gave meanwhile
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
	for _, v := range c.views {
		require.Equal(t, v, got[:len(v)], "what was read once stays as it was")
	}
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
	switch c.rng.IntN(16) {
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
	case 7:
		c.replay()
	case 8:
		c.readOne()
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

// replay reads what is visible now; it ends also while a writer goes on. With
// bookies away it may fail, but not give anything wrong.
func (c *chaos) replay() {
	var out []stream.Record
	for r, err := range c.stream(c.ns, "a").Replay(bg(c.t), stream.First(), stream.Last()) {
		if err != nil {
			requirePassing(c.t, err)
			break
		}
		out = append(out, r.Clone())
	}
	if len(out) > 0 {
		c.views = append(c.views, out)
	}
}

// readOne opens a reader at a record that was acknowledged. It may have to wait
// until a recovery makes it visible, but there is nothing else at its place.
func (c *chaos) readOne() {
	c.h.mu.Lock()
	keys := slices.Sorted(maps.Keys(c.h.acked))
	c.h.mu.Unlock()
	if len(keys) == 0 {
		return
	}
	want := keys[c.rng.IntN(len(keys))]
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := c.stream(c.ns, "a").Reader(ctx, stream.At(c.h.acked[want]))
	if err != nil {
		requirePassing(c.t, err)
		return
	}
	defer r.Close()
	got, err := r.Next(ctx)
	if err != nil {
		requirePassing(c.t, err)
		return
	}
	require.Equal(c.t, want, string(got.Payload))
}

func requirePassing(t testing.TB, err error) {
	t.Helper()
	require.True(t, errors.Is(err, stream.ErrTimeout) || errors.Is(err, stream.ErrUnavailable) || errors.Is(err, stream.ErrNotEnoughBookies), "%v", err)
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
