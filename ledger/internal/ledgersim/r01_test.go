package ledgersim

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// r01 is the world of case R01, small enough to try all kinds of orders: one
// writer with entry 0 in flight, one recoverer, three bookies, and a pool of
// messages that somebody else delivers.
type r01 struct {
	w       *quorum.Writer
	r       *quorum.Recovery
	bookies [3]stored
	pool    []message
}

// message is one message in flight.
type message struct {
	name    string // "add b2", "ack b2", "fence b3", "fenced b3", "read b1", "answer b1"
	deliver func()
}

var r01Bookies = []bk.BookieID{"b1", "b2", "b3"}

func newR01(t *testing.T) *r01 {
	t.Helper()
	q := bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}
	meta := quorum.Metadata{
		Segments: []quorum.Segment{{First: 0, Ensemble: r01Bookies}}, LastEntry: bk.InvalidEntryID,
	}
	w, err := quorum.NewWriter(quorum.WriterConfig{Quorum: q, Metadata: meta})
	require.NoError(t, err)
	x := &r01{w: w}
	_, err = w.Push(1)
	require.NoError(t, err)
	for p := range r01Bookies {
		x.add(p, w.Slot(p))
	}
	meta.State = quorum.StateInRecovery
	x.r, err = quorum.NewRecovery(quorum.RecoveryConfig{Quorum: q, Metadata: meta})
	require.NoError(t, err)
	x.act()
	return x
}

func (x *r01) send(name string, p int, deliver func()) {
	x.pool = append(x.pool, message{name: name + " " + string(r01Bookies[p]), deliver: deliver})
}

func (x *r01) add(p int, slot quorum.Slot) {
	x.send("add", p, func() {
		var err error
		if x.bookies[p].fenced {
			err = bk.ErrFenced
		} else {
			x.bookies[p].put(0, copyOf{payload: 1, lac: -1, length: 1})
		}
		x.send("ack", p, func() {
			if err == nil {
				x.w.Ack(0, slot)
			} else {
				x.w.Fail(0, slot, err)
			}
		})
	})
}

// act puts what the recovery wants into the pool. A write-back takes effect at
// once: the case is about what comes before it.
func (x *r01) act() {
	for _, a := range x.r.Actions() {
		p := a.Slot.Pos
		switch a.Kind {
		case quorum.ActReadLAC:
			x.ask("fence", "fenced", p, true, func(err error) {
				x.r.LACAnswer(a.Slot, quorum.LACAnswer{Entry: 0, LAC: -1, Length: 1}, err)
			})
		case quorum.ActRead:
			if a.Entry > 0 {
				x.r.ReadAnswer(a.Entry, a.Slot, 0, bk.ErrNoSuchEntry)
				continue
			}
			x.ask("read", "answer", p, a.Fence, func(err error) { x.r.ReadAnswer(0, a.Slot, 1, err) })
		case quorum.ActSend:
			x.bookies[p].put(0, copyOf{payload: 1, length: 1})
			x.r.Ack(a.Entry, a.Slot)
		case quorum.ActUpdate:
			x.r.Updated()
		default:
		}
	}
}

func (x *r01) ask(request, reply string, p int, fence bool, done func(error)) {
	x.send(request, p, func() {
		if fence {
			x.bookies[p].fenced = true
		}
		var err error
		if _, ok := x.bookies[p].get(0); !ok {
			err = bk.ErrNoSuchEntry
		}
		x.send(reply, p, func() { done(err); x.settle() })
	})
}

func (x *r01) settle() {
	for range 4 { // an action may give others
		x.act()
	}
}

// take removes the message of that name from the pool.
func (x *r01) take(t *testing.T, name string) message {
	t.Helper()
	for i, m := range x.pool {
		if m.name == name {
			x.pool = append(x.pool[:i], x.pool[i+1:]...)
			return m
		}
	}
	require.Fail(t, "no message "+name+" in flight")
	return message{}
}

// lost reports the fault: entry 0 was acknowledged, and the ledger closed
// without it.
func (x *r01) lost() bool {
	done, err := x.r.Finished()
	return x.w.LAC() == 0 && done && err == nil && x.r.Result().LastEntry < 0
}

func TestR01_FencingOnlyTheLACReadsLeavesAHole(t *testing.T) {
	x := newR01(t)
	x.script(t)
	require.False(t, x.lost())
	require.ErrorIs(t, x.w.Err(), bk.ErrFenced)
}

// script plays the case: the ledger is closed without entry 0, which reaches its
// second bookie then.
func (x *r01) script(t *testing.T) {
	t.Helper()
	x.take(t, "add b1")   // lost
	x.take(t, "fence b3") // lost
	for _, name := range []string{
		"fence b1", "fenced b1", // LAC -1
		"add b2", "ack b2", // entry 0 lands on b2
		"fence b2", "fenced b2", // LAC -1: covered, the fence of b3 is lost
		"read b1", "answer b1", "read b3", "answer b3", // no entry, twice: the end
		"add b3", "ack b3", // and now entry 0 reaches b3
	} {
		x.take(t, name).deliver()
	}
	done, err := x.r.Finished()
	require.True(t, done)
	require.NoError(t, err)
	require.Equal(t, bk.InvalidEntryID, x.r.Result().LastEntry)
}

// Random orders of the same messages, each of which may be lost, with the seed
// as the order's name.
func TestR01_RandomOrders(t *testing.T) {
	for seed := range max(30_000, *nFlag) {
		require.False(t, r01Order(t, seed), "order %d loses an acknowledged entry", seed)
	}
}

func r01Order(t *testing.T, seed uint64) (lost bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := newR01(t)
	for len(x.pool) > 0 {
		i := rng.IntN(len(x.pool))
		m := x.pool[i]
		x.pool = append(x.pool[:i], x.pool[i+1:]...)
		if rng.IntN(10) > 0 {
			m.deliver()
		}
	}
	return x.lost()
}
