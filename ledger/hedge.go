package ledger

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// Speculative reads: a replica that is silent for longer than answers usually
// take is not waited for, the next one is asked too. What "usually" means is
// measured, bookie by bookie; what it may cost is bounded, so that a general
// slowness is not answered with more load.
const (
	// hedgeMin is the shortest time to wait for a replica, however fast answers
	// are: below it the clock of a busy machine decides.
	hedgeMin = 10 * time.Millisecond
	// hedgeLate times the usual delay, a replica is not slow but stuck.
	hedgeLate = 4

	// A read earns hedgeEarn, a speculative read costs hedgeCost: 4 in 100.
	hedgeEarn = 4
	hedgeCost = 100
	hedgeSave = 16 * hedgeCost // the most that is saved up
	// hedgeDebt is the most that reads of replicas that are stuck may owe: as
	// many as one reader has in flight.
	hedgeDebt = singlesMax * hedgeCost
)

// hedges is what a client may spend on speculative reads.
type hedges struct{ credit atomic.Int64 }

// earn counts a read that is sent for the first time.
func (h *hedges) earn() {
	if c := h.credit.Load(); c < hedgeSave {
		h.credit.CompareAndSwap(c, c+hedgeEarn) // one lost in a race is no loss
	}
}

// spend reports whether a speculative read may be sent; late, that the replica
// has been silent for so long that it is stuck.
func (h *hedges) spend(late bool) bool {
	least := int64(hedgeCost)
	if late {
		least -= hedgeDebt
	}
	for {
		c := h.credit.Load()
		if c < least {
			return false
		}
		if h.credit.CompareAndSwap(c, c-hedgeCost) {
			return true
		}
	}
}

// hedge is when a read stops waiting for the replica asked last.
type hedge struct {
	delay time.Duration // after the question, if that can be afforded
	at    time.Time
}

// arm starts the wait for a replica that is asked now. tail is how long 99 of
// 100 answers of a replica take, 0 if that is not known.
func (h *hedge) arm(tail, most time.Duration) {
	h.delay = most
	if tail > 0 {
		h.delay = min(max(tail+tail/2, hedgeMin), most)
	}
	h.at = time.Now().Add(h.delay)
}

// due reports, at the time h.at or later, whether to ask the next replica of a
// read that was asked at asked. If not, it sets the time to look again.
func (h *hedge) due(asked time.Time, most time.Duration, budget *hedges) bool {
	waited := time.Since(asked)
	late := min(hedgeLate*h.delay, most)
	switch {
	case waited >= most:
		return true // whatever it costs (rule 41)
	case budget.spend(waited >= late):
		return true
	case waited < late:
		h.at = asked.Add(late)
	default:
		h.at = asked.Add(most)
	}
	return false
}

// arrange puts the replicas of the next entry into the order to ask them in: in
// that of the write set, rotated so that the runs of one reader spread over the
// replicas, those that are far, slow or failing behind the others (rule 40). It
// gives the shortest tail of them, 0 if none is known.
func (f *fetch) arrange() (tail time.Duration) {
	w, batch := f.r.q.Write, !f.single
	f.order = f.order[:0]
	var best time.Duration
	for k := range w {
		p := quorum.Position(f.r.q, f.next, (k+f.rotate)%w)
		f.order = append(f.order, p)
		b := f.bookies[p]
		if m := b.Mean(batch); m > 0 && (best == 0 || m < best) {
			best = m
		}
		if t := b.Tail(batch); t > 0 && (tail == 0 || t < tail) {
			tail = t
		}
	}
	var ranks [quorum.MaxWriteQuorum]conn.Rank // of order
	worst := conn.RankNear
	for i, p := range f.order {
		r := f.bookies[p].Rank(batch, best)
		if batch && !f.bookies[p].BatchReads() {
			r = max(r, conn.RankFar) // a run of plain reads is slow
		}
		worst = max(worst, r)
		j := i
		for ; j > 0 && ranks[j-1] > r; j-- { // equals keep their order
			ranks[j], f.order[j] = ranks[j-1], f.order[j-1]
		}
		ranks[j], f.order[j] = r, p
	}
	if worst > conn.RankNear && w > 1 {
		f.probe(ranks[:w])
	}
	return tail
}

// probe puts a replica that is far or slow in front, if none was tried for a
// while: nothing else would tell that it is well again.
func (f *fetch) probe(ranks []conn.Rank) {
	for i, p := range f.order {
		if r := ranks[i]; (r == conn.RankFar || r == conn.RankSlow) && f.bookies[p].Probe() {
			copy(f.order[1:i+1], f.order[:i])
			f.order[0] = p
			return
		}
	}
}

// meet takes over the ensemble of the next entry.
func (f *fetch) meet(ensemble []bk.BookieID) {
	if len(f.bookies) > 0 && slices.Equal(f.ensemble, ensemble) {
		return
	}
	f.ensemble = ensemble
	f.bookies = f.bookies[:0]
	for _, id := range ensemble {
		f.bookies = append(f.bookies, f.r.c.pool.Bookie(id))
	}
}
