package quorum

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// Any order of any events, sensible or not, neither panics nor makes LAC go
// back, and the metadata asked for always validate. The seed names the history;
// replay with: go test ./ledger/internal/quorum -run 'TestGarbage' after setting
// first and last to it.
func TestGarbageEvents(t *testing.T) {
	const first, last = 0, 400
	for seed := uint64(first); seed < last; seed++ {
		g := &garbage{t: t, rng: rand.New(rand.NewPCG(seed, 0)), seed: seed}
		g.q = []bk.Quorum{q332, q322, {Ensemble: 5, Write: 3, Ack: 2}, {Ensemble: 1, Write: 1, Ack: 1}}[seed%4]
		g.writer()
		g.recovery()
		g.small()
	}
}

type garbage struct {
	t    *testing.T
	rng  *rand.Rand
	seed uint64
	q    bk.Quorum
}

var garbageErrs = []error{
	nil, bk.ErrTimeout, bk.ErrFenced, bk.ErrUnauthorized, bk.ErrNoSuchEntry, bk.ErrNoSuchLedger, bk.ErrReadOnly,
	bk.ErrCorrupt, errors.Join(bk.ErrNoSuchEntry, bk.ErrTimeout), errors.New("x"),
}

func (g *garbage) err() error {
	if g.rng.IntN(3) > 0 {
		return garbageErrs[g.rng.IntN(2)]
	}
	return garbageErrs[g.rng.IntN(len(garbageErrs))]
}

func (g *garbage) entry() bk.EntryID {
	if g.rng.IntN(30) == 0 {
		return []bk.EntryID{-1, -1 << 63, 1<<63 - 1, 1 << 40}[g.rng.IntN(4)]
	}
	return bk.EntryID(g.rng.IntN(30))
}

func (g *garbage) slot(gen uint32) Slot {
	return Slot{Pos: g.rng.IntN(g.q.Ensemble+2) - 1, Gen: gen + uint32(g.rng.IntN(3)/2)}
}

func (g *garbage) bookies(n int) []bk.BookieID {
	var out []bk.BookieID
	for _, i := range g.rng.Perm(g.q.Ensemble + 3)[:n] {
		out = append(out, bk.BookieID([]string{"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"}[i]))
	}
	return out
}

func (g *garbage) metadata() Metadata {
	m := Metadata{State: State(g.rng.IntN(3)), LastEntry: g.entry(), Length: g.rng.Int64N(50)}
	if g.rng.IntN(2) > 0 {
		m.State = StateOpen
	}
	first := bk.EntryID(0)
	for range g.rng.IntN(4) {
		n := g.q.Ensemble
		if g.rng.IntN(20) == 0 {
			n--
		}
		m.Segments = append(m.Segments, Segment{First: first, Ensemble: g.bookies(n)})
		first += bk.EntryID(g.rng.IntN(6))
	}
	return m
}

func (g *garbage) picks() []Pick {
	var out []Pick
	for p, b := range g.bookies(g.q.Ensemble) {
		if g.rng.IntN(2) == 0 {
			out = append(out, Pick{Pos: p - g.rng.IntN(2), Bookie: b})
		}
	}
	return out
}

func (g *garbage) check(acts []Action) {
	for _, a := range acts {
		if a.Kind == ActUpdate {
			require.NoError(g.t, a.Metadata.validate(g.q), "seed %d", g.seed)
		}
	}
}

func (g *garbage) writer() {
	w, err := NewWriter(WriterConfig{
		Quorum: g.q, Metadata: openMeta(g.bookies(g.q.Ensemble)...), Policy: Policy(g.rng.IntN(3)), DeferredSync: g.rng.IntN(8) == 0,
	})
	require.NoError(g.t, err)
	lac := w.LAC()
	for range 200 {
		switch g.rng.IntN(20) {
		case 0, 1, 2, 3:
			_, _ = w.Push(g.rng.IntN(9))
		case 4:
			w.Fail(g.entry(), g.slot(w.ens[0].gen), g.err())
		case 5:
			_ = w.Replace(g.picks())
		case 6:
			w.NoBookies(g.err())
		case 7, 8:
			w.Updated()
		case 9:
			w.Conflict(g.metadata())
		case 10:
			w.BookiesChanged()
		case 11:
			id, _ := w.Force()
			w.ForceAck(id, g.slot(0))
			w.ForceFail(id+1, g.slot(0), bk.ErrTimeout)
		case 12:
			g.rarely(w.Close, func() { w.Abort(bk.ErrClosed) }, func() { w.UpdateFailed(bk.ErrTimeout) })
		default:
			w.Ack(g.entry(), g.slot(w.ens[0].gen))
		}
		g.check(w.Actions())
		require.GreaterOrEqual(g.t, w.LAC(), lac, "seed %d", g.seed)
		lac = w.LAC()
		require.LessOrEqual(g.t, lac, w.LastPushed(), "seed %d", g.seed)
		require.GreaterOrEqual(g.t, w.PendingBytes(), int64(0), "seed %d", g.seed)
	}
}

func (g *garbage) rarely(fns ...func()) {
	if g.rng.IntN(20) == 0 {
		fns[g.rng.IntN(len(fns))]()
	}
}

func (g *garbage) recovery() {
	r, err := NewRecovery(RecoveryConfig{Quorum: g.q, Metadata: inRecovery(openMeta(g.bookies(g.q.Ensemble)...)), WindowMax: 1 + g.rng.IntN(5)})
	require.NoError(g.t, err)
	for range 200 {
		switch g.rng.IntN(16) {
		case 0, 1:
			lac := bk.EntryID(g.rng.IntN(9) - 1)
			g.rarely(func() { lac = g.entry() })
			r.LACAnswer(g.slot(r.attempt), LACAnswer{Entry: g.entry(), LAC: lac}, g.err())
		case 2:
			r.Fail(g.entry(), g.slot(r.attempt<<20), g.err())
		case 3:
			_ = r.Replace(g.picks())
		case 4:
			r.NoBookies(g.err())
		case 5:
			r.Updated()
		case 6:
			r.Conflict(g.metadata())
		case 7:
			g.rarely(func() { r.UpdateFailed(bk.ErrTimeout) }, func() { r.Abort(bk.ErrClosed) })
		case 8, 9, 10:
			r.Ack(g.entry(), g.slot(r.attempt<<20))
		default:
			r.ReadAnswer(g.entry(), g.slot(r.attempt), g.rng.Int64N(100), g.err())
		}
		g.check(r.Actions())
	}
}

func (g *garbage) small() {
	var l LACRead
	l.Start(1, g.q)
	var rd Read
	rd.Start(g.q, max(g.entry(), 0), []int{g.rng.IntN(9) - 2, g.rng.IntN(9)})
	var p Poll
	p.Start(g.q, g.entry(), g.rng.IntN(9)-4)
	for range 30 {
		pos := g.slot(0).Pos
		l.Answer(pos, LACAnswer{LAC: g.entry()}, g.err())
		rd.Next()
		rd.Answer(pos, g.err())
		p.Next()
		p.Answer(pos, PollAnswer{Entry: g.entry(), MaxLAC: g.entry()}, g.err())
	}
}
