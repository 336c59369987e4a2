package placement

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loglode/loglode/bookie/bk"
)

// world is a small cluster, of which every ensemble can be looked at.
type world struct {
	q  bk.Quorum
	p  Policy
	bs []Bookie
}

func drawWorld(t *rapid.T) world {
	w := world{}
	n := rapid.IntRange(1, 7).Draw(t, "bookies")
	names := []string{"", "a", "b", "c"}
	for i := range n {
		pick := func(what string, n int) string { return names[rapid.IntRange(0, n).Draw(t, what)] }
		w.bs = append(w.bs, Bookie{
			ID:       id(i),
			Location: Location{pick("region", 2), pick("zone", 2), pick("rack", 3)},
			Status:   rapid.SampledFrom([]Status{Good, Good, Good, Good, Draining, Quarantined}).Draw(t, "status"),
		})
	}
	w.q.Ensemble = rapid.IntRange(1, min(n, 5)).Draw(t, "E")
	w.q.Write = rapid.IntRange(1, w.q.Ensemble).Draw(t, "Qw")
	w.q.Ack = rapid.IntRange(1, w.q.Write).Draw(t, "Qa")
	for _, l := range levels {
		if rapid.Bool().Draw(t, "write rule") {
			*w.p.Write.at(l) = rapid.IntRange(0, w.q.Write+1).Draw(t, "write "+l.String())
		}
		if rapid.IntRange(0, 3).Draw(t, "ack rule") == 0 {
			*w.p.Ack.at(l) = rapid.IntRange(0, w.q.Ack+1).Draw(t, "ack "+l.String())
		}
	}
	w.p.Spread = Spread(rapid.IntRange(0, int(SpreadNone)).Draw(t, "spread"))
	return w
}

// ensembles gives every way to put bookies on the positions of ens that are
// open (nil), avoiding those in ens.
func (w world) ensembles(ens []*Bookie, yield func([]*Bookie)) {
	pos := slices.Index(ens, nil)
	if pos < 0 {
		yield(ens)
		return
	}
	for i := range w.bs {
		if slices.Contains(ens, &w.bs[i]) {
			continue
		}
		ens[pos] = &w.bs[i]
		w.ensembles(ens, yield)
		ens[pos] = nil
	}
}

// got computes what the write set at start reaches under a rule straight from
// the rule's meaning: the fewest places over all subsets that could answer. An
// open position counts as a place of its own.
func (w world) got(r Rule, ens []*Bookie, start int) int {
	size := w.q.Write
	if r.Ack {
		size = w.q.Ack
	}
	least := w.q.Write + 1
	for subset := range 1 << w.q.Write {
		places, members, open := map[Location]bool{}, 0, 0
		for k := range w.q.Write {
			if subset>>k&1 == 0 {
				continue
			}
			members++
			if b := ens[(start+k)%w.q.Ensemble]; b == nil {
				open++
			} else {
				places[b.At(r.Level)] = true
			}
		}
		if members == size {
			least = min(least, len(places)+open)
		}
	}
	return least
}

// worst is the rule's least value over all write sets.
func (w world) worst(r Rule, ens []*Bookie) int {
	least := w.q.Write
	for start := range w.q.Ensemble {
		least = min(least, w.got(r, ens, start))
	}
	return least
}

func notGood(ens []*Bookie) int {
	n := 0
	for _, b := range ens {
		if b.Status != Good {
			n++
		}
	}
	return n
}

func (w world) pointers(t *rapid.T, ensemble []bk.BookieID) []*Bookie {
	var out []*Bookie
	for _, id := range ensemble {
		i := slices.IndexFunc(w.bs, func(b Bookie) bool { return b.ID == id })
		require.GreaterOrEqual(t, i, 0)
		require.NotContains(t, out, &w.bs[i], "bookies are distinct")
		out = append(out, &w.bs[i])
	}
	return out
}

// A strict choice succeeds exactly where an ensemble exists that keeps the
// rules, keeps them, and takes as few bookies that are not Good as any.
func TestStrictFindsWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.p.Strict = true
		best := -1 // fewest not good of those that keep all rules
		reached := map[Rule]int{}
		w.ensembles(make([]*Bookie, w.q.Ensemble), func(ens []*Bookie) {
			all := true
			for _, r := range w.p.Rules() {
				got := w.worst(r, ens)
				reached[r] = max(reached[r], min(got, r.Want))
				all = all && got >= r.Want
			}
			if n := notGood(ens); all && (best < 0 || n < best) {
				best = n
			}
		})
		got, err := Choose(Request{Quorum: w.q, Policy: w.p, Bookies: w.bs, Rand: seeded(rapid.Uint64().Draw(t, "seed"))})
		if best < 0 {
			var unmet *UnmetError
			require.ErrorAs(t, err, &unmet, "chosen: %v", got)
			if unmet.Together {
				require.Equal(t, unmet.Rule.Want, reached[unmet.Rule])
				require.Less(t, unmet.Have, unmet.Rule.Want)
			} else {
				require.Equal(t, max(1, reached[unmet.Rule]), unmet.Have)
			}
			return
		}
		require.NoError(t, err)
		ens := w.pointers(t, got)
		for _, r := range w.p.Rules() {
			require.GreaterOrEqual(t, w.worst(r, ens), r.Want, "%v", r)
		}
		require.Equal(t, best, notGood(ens))
		require.Empty(t, slices.DeleteFunc(Check(w.p, w.q, deref(ens)), Finding.Holds))
	})
}

func deref(ens []*Bookie) []Bookie {
	var out []Bookie
	for _, b := range ens {
		out = append(out, *b)
	}
	return out
}

// Any other choice takes as few bookies that are not Good as any, and among
// those keeps the most important rule as far as it goes, then the next.
func TestBestEffortFindsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		value := func(ens []*Bookie) []int {
			v := []int{-notGood(ens)}
			for _, r := range w.p.Rules() {
				v = append(v, min(w.worst(r, ens), r.Want))
			}
			return v
		}
		var best []int
		w.ensembles(make([]*Bookie, w.q.Ensemble), func(ens []*Bookie) {
			if v := value(ens); best == nil || slices.Compare(v, best) > 0 {
				best = v
			}
		})
		got, err := Choose(Request{Quorum: w.q, Policy: w.p, Bookies: w.bs, Rand: seeded(rapid.Uint64().Draw(t, "seed"))})
		require.NoError(t, err)
		ens := w.pointers(t, got)
		require.Equal(t, best, value(ens))
		for _, f := range Check(w.p, w.q, deref(ens)) {
			require.Equal(t, w.worst(f.Rule, ens), f.Got, "%v", f.Rule)
			require.Equal(t, f.Got < f.Want, len(f.Below) > 0)
			for _, set := range f.Below {
				require.Equal(t, w.got(f.Rule, ens, set.Positions[0]), set.Got)
			}
		}
	})
}

// Substitutes keep the rules beside the bookies that stay: wherever that can be
// done with bookies in places of their own, a strict choice demands it.
func TestRule15SubstitutesKeepTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.p.Strict = rapid.Bool().Draw(t, "strict")
		old := make([]*Bookie, w.q.Ensemble)
		for i, k := range rapid.Permutation(slices.Collect(indexes(len(w.bs)))).Draw(t, "order")[:w.q.Ensemble] {
			old[i] = &w.bs[k]
		}
		oldIDs := ids(deref(old))
		positions := rapid.SliceOfNDistinct(rapid.IntRange(0, w.q.Ensemble-1), 1, w.q.Ensemble, rapid.ID[int]).Draw(t, "positions")
		open := slices.Clone(old)
		for _, p := range positions {
			open[p] = nil
		}
		touched := func(start int) bool {
			return slices.ContainsFunc(positions, func(p int) bool { return (p-start+w.q.Ensemble)%w.q.Ensemble < w.q.Write })
		}
		keeps := func(ens []*Bookie) bool {
			for _, r := range w.p.Rules() {
				for start := range w.q.Ensemble {
					if touched(start) && w.got(r, ens, start) < min(r.Want, w.got(r, open, start)) {
						return false
					}
				}
			}
			return true
		}
		count, possible := 0, false
		w.ensembles(slices.Clone(open), func(ens []*Bookie) {
			for _, p := range positions {
				if slices.Contains(oldIDs, ens[p].ID) {
					return
				}
			}
			count++
			possible = possible || keeps(ens)
		})
		tooMany := len(positions) == w.q.Ensemble &&
			slices.ContainsFunc(w.p.Rules(), func(r Rule) bool { return r.Want > r.bookies(w.q) })
		r := Request{Quorum: w.q, Policy: w.p, Bookies: w.bs, Rand: seeded(rapid.Uint64().Draw(t, "seed"))}
		got, err := Replace(r, oldIDs, positions, nil)
		switch {
		case count == 0:
			require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
		case w.p.Strict && (!possible || tooMany):
			var unmet *UnmetError
			require.ErrorAs(t, err, &unmet)
		default:
			require.NoError(t, err)
			ens := w.pointers(t, got)
			for i := range ens {
				require.Equal(t, !slices.Contains(positions, i), ens[i] == old[i])
			}
			require.True(t, !w.p.Strict || keeps(ens))
		}
	})
}

func indexes(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// The thorough search, which tries one of several that are alike, misses
// nothing that trying all of them would find.
func TestThoroughSearchMissesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		possible := false
		w.ensembles(make([]*Bookie, w.q.Ensemble), func(ens []*Bookie) {
			possible = possible || !slices.ContainsFunc(w.p.Rules(), func(r Rule) bool {
				return w.worst(r, ens) < min(r.Want, r.bookies(w.q))
			})
		})
		var cands []*Bookie
		for i := range w.bs {
			cands = append(cands, &w.bs[i])
		}
		r := Request{Quorum: w.q, Policy: w.p, Rand: seeded(rapid.Uint64().Draw(t, "seed"))}
		s := r.search(w.bs, cands, make([]bk.BookieID, w.q.Ensemble), slices.Collect(indexes(w.q.Ensemble)))
		s.avoidMax = w.q.Ensemble
		s.setNeeds(w.p.Rules())
		s.thorough, s.steps, s.beat = true, stepsThorough, s.beats()
		for i := range s.beat { // whatever is tried first
			for pos := range s.beat[i] {
				s.beat[i][pos] = rapid.IntRange(-1, max(pos-1, -1)).Draw(t, "beat")
			}
		}
		s.makeShapes()
		require.Equal(t, possible, s.fill(0))
		require.GreaterOrEqual(t, s.steps, 0, "it did not give up")
	})
}

// Places that are in use are not alike, whichever is tried first.
func TestThoroughSearchTriesEveryPlaceInUse(t *testing.T) {
	bs := inZones("aabb")
	cands := []*Bookie{&bs[0], &bs[1], &bs[2], &bs[3]}
	for first := -1; first < 2; first++ {
		r := Request{Quorum: quorum(4, 2, 2), Policy: Policy{Write: Minimums{Zones: 2}}, Rand: seeded(1)}
		s := r.search(bs, cands, make([]bk.BookieID, 4), []int{0, 1, 2, 3})
		s.setNeeds(r.Policy.Rules())
		s.thorough, s.steps, s.beat = true, stepsThorough, [][]int{{-1, -1, first, -1}}
		s.makeShapes()
		require.True(t, s.fill(0), "first tried for position 2: the place of %d", first)
	}
}

// Write sets of Qw that are in Qw zones each colour the (Qw-1)th power of a
// cycle: with E = q*Qw + r, that takes Qw + ceil(r/q) zones (Prowse and
// Woodall, 2003). No larger ensemble is missed.
func TestLargeEnsemblesOfDistinctZones(t *testing.T) {
	for e := 1; e <= 30; e++ {
		for w := 2; w <= min(e, 6); w++ {
			q, r := e/w, e%w
			least := w + (r+q-1)/q
			for zones := max(1, least-1); zones <= least+1; zones++ {
				bs := plain(zones * e)
				for i := range bs {
					bs[i].Zone = string(rune('a' + i%zones))
				}
				p := Policy{Write: Minimums{Zones: w}, Strict: true}
				got, err := Choose(Request{Quorum: quorum(e, w, 1), Policy: p, Bookies: bs, Rand: seeded(uint64(e))})
				if zones < least {
					require.ErrorIs(t, err, ErrUnmet, "E=%d Qw=%d zones=%d", e, w, zones)
					continue
				}
				require.NoError(t, err, "E=%d Qw=%d zones=%d", e, w, zones)
				require.True(t, Check(p, quorum(e, w, 1), byID(t, bs, got))[0].Holds())
			}
		}
	}
}
