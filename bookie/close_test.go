package bookie

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

var closeRounds = flag.Int("close.rounds", 3, "rounds of TestCloseUnderLoad")

// users call a bookie from many goroutines until it says that it is closed.
type users struct {
	b    *Bookie
	s    *story
	wg   sync.WaitGroup
	warm sync.WaitGroup // each user has done a little
}

// loop calls fn until the bookie is closed, times times at most.
func (u *users) loop(times int, fn func(n int)) {
	u.warm.Add(1)
	u.wg.Go(func() {
		for n := range times {
			fn(n)
			if n == times/20 {
				u.warm.Done()
			}
			if u.b.State() == Closed && n >= times/20 {
				return
			}
		}
	})
}

// start has every request made that touches a write cache, some of entries
// larger than an arena.
func (u *users) start(times int) {
	for i := range 2 {
		l := bk.LedgerID(i + 1)
		u.loop(times, func(n int) {
			size := 200
			if n%40 == 39 {
				size = 100 << 10
			}
			u.s.add(u.b, 0, body(l, bk.EntryID(2*n), strings.Repeat("x", size)), body(l, bk.EntryID(2*n+1), "y"))
		})
		u.loop(times, func(n int) { u.b.Read(l, bk.EntryID(n), nil) })
		u.loop(times, func(int) { u.b.Read(l, bk.InvalidEntryID, nil) })
		u.loop(times, func(int) { u.b.Entries(l) })
		u.loop(times, func(int) { u.b.ReadLAC(l) })
		u.loop(times, func(n int) {
			cancel := u.b.WaitLAC(l, bk.EntryID(2*n), func(bk.EntryID) {})
			u.b.LAC(l)
			cancel()
		})
	}
	u.loop(times/10, func(int) { _ = u.b.Flush() }) // it may find the bookie closed
	u.loop(times/10, func(n int) { u.s.fence(u.b, bk.LedgerID(100+n)) })
}

// TestCloseUnderLoad closes a bookie at any moment while everything that it can
// do is under way. Each add gets a result, later calls are refused, and what was
// acknowledged is there after the next start. With broken flushes, arenas are
// frozen when it closes.
func TestCloseUnderLoad(t *testing.T) {
	for round := range *closeRounds {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d broken flushes %v", round, broken), func(t *testing.T) { closeUnderLoad(t, uint64(round), broken) })
		}
	}
}

func closeUnderLoad(t *testing.T, seed uint64, broken bool) {
	rng := rand.New(rand.NewPCG(seed, 7))
	mem := vfs.NewMem()
	fs := newFaults(mem, syscall.EIO, func(op, name string) bool { return op == "write" && isEntryLog(name) })
	o := smallOptions(fs)
	o.AddWait = 50 * time.Millisecond
	b := open(t, o)
	u := &users{b: b, s: newStory()}
	u.start(400)
	u.warm.Wait()
	fs.armed.Store(broken)
	for range rng.IntN(200) {
		b.Read(1, 0, nil)
	}
	var closing sync.WaitGroup
	for range 2 {
		closing.Go(func() {
			if err := b.Close(); err != nil {
				require.True(t, broken, "%v", err)
			}
		})
	}
	closing.Wait()
	u.wg.Wait()
	u.s.wg.Wait() // each add got its result

	require.Equal(t, bk.StatusIO, add(b, 0, body(1, 1, "late"))[0])
	_, s := b.Read(1, 0, nil)
	require.Equal(t, bk.StatusIO, s)
	_, s = b.Entries(1)
	require.Equal(t, bk.StatusIO, s)
	_, _, s = b.ReadLAC(1)
	require.Equal(t, bk.StatusIO, s)
	require.Equal(t, bk.StatusIO, b.Force(context.Background(), 1))
	require.ErrorIs(t, b.Flush(), bk.ErrClosed)
	require.NoError(t, b.Close())

	c := open(t, smallOptions(mem))
	require.NoError(t, u.s.snapshot().verify(c))
	require.NoError(t, c.Close())
}
