package placement

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/loglode/loglode/bookie/bk"
)

// Request is a choice to be made. Nothing of it is changed or kept.
type Request struct {
	Quorum bk.Quorum
	Policy Policy
	// Bookies are those that may be chosen and, for Replace, what is known of
	// the ensemble's. Of several with one id the first counts.
	Bookies []Bookie
	// Recovery: the bookies get copies of a recovery alone, which read-only ones
	// take too.
	Recovery bool
	// Rand is the source of chance. The same one and the same Bookies, in any
	// order, give the same choice.
	Rand *rand.Rand
}

// Choose gives the ensemble of a new ledger: r.Quorum.Ensemble distinct
// bookies, in an order in which every write set keeps the policy's rules.
//
// A strict policy fails with an UnmetError if no order of no bookies keeps
// them. It takes bookies that are not Good as far as the rules need them.
// Otherwise those are taken only where there are too few Good ones, and rules
// are kept as far as they can be then, the widest level's first.
//
// With fewer than Ensemble bookies it fails with a NotEnoughError.
func Choose(r Request) ([]bk.BookieID, error) {
	ensemble := make([]bk.BookieID, r.Quorum.Ensemble)
	positions := make([]int, r.Quorum.Ensemble)
	for i := range positions {
		positions[i] = i
	}
	return r.choose(ensemble, positions, nil)
}

// Replace gives a copy of ensemble with a substitute at each of the positions,
// chosen as Choose does beside the bookies at the others, that stay. A
// substitute is not in ensemble and not in failed. Where the others break a
// rule whatever is chosen, the substitutes come as near as they can, also under
// a strict policy. If it fails, none is replaced.
func Replace(r Request, ensemble []bk.BookieID, positions []int, failed []bk.BookieID) ([]bk.BookieID, error) {
	return r.choose(ensemble, positions, failed)
}

// ReplaceSome replaces as many of the positions as it can, and gives those. It
// fails if it can replace none.
func ReplaceSome(r Request, ensemble []bk.BookieID, positions []int, failed []bk.BookieID) ([]bk.BookieID, []int, error) {
	out, err := Replace(r, ensemble, positions, failed)
	if err == nil {
		return out, positions, nil
	}
	out = slices.Clone(ensemble)
	var done []int
	for _, p := range positions {
		// Failed ones that are still there count as in their places.
		next, perr := Replace(r, out, []int{p}, append(slices.Clone(ensemble), failed...))
		if perr == nil {
			out, done = next, append(done, p)
		}
	}
	if len(done) == 0 {
		return nil, nil, err
	}
	return out, done, nil
}

func (r Request) choose(ensemble []bk.BookieID, positions []int, failed []bk.BookieID) ([]bk.BookieID, error) {
	known := r.known()
	var cands []*Bookie
	unfit := 0
	for i := range known {
		b := &known[i]
		switch {
		case !r.takes(b.Status), slices.Contains(ensemble, b.ID), slices.Contains(failed, b.ID):
		case r.Policy.lacks(b) != "":
			unfit++
		default:
			cands = append(cands, b)
		}
	}
	if len(cands) < len(positions) {
		return nil, &NotEnoughError{Need: len(positions), Have: len(cands), Unfit: unfit}
	}
	s := r.search(known, cands, ensemble, positions)
	if err := s.solve(r, cands, len(positions)); err != nil {
		return nil, err
	}
	out := slices.Clone(ensemble)
	next := make(map[int]int, len(positions))
	for _, pos := range s.open {
		c := s.at[pos]
		out[pos] = cands[s.classes[c].cands[next[c]].bookie].ID
		next[c]++
	}
	return out, nil
}

// takes says whether a bookie of a status may be chosen at all.
func (r Request) takes(s Status) bool {
	return s <= Quarantined || s == ReadOnly && r.Recovery
}

// known gives the bookies sorted, each once. They are r.Bookies itself if those
// are.
func (r Request) known() []Bookie {
	i := 1
	for i < len(r.Bookies) && r.Bookies[i-1].ID < r.Bookies[i].ID {
		i++
	}
	if i >= len(r.Bookies) {
		return r.Bookies
	}
	out := slices.Clone(r.Bookies)
	slices.SortStableFunc(out, func(a, b Bookie) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b Bookie) bool { return a.ID == b.ID })
}

// solve fills the open positions of s under r's policy.
func (s *search) solve(r Request, cands []*Bookie, n int) error {
	rules := r.Policy.Rules()
	good := 0
	for i := range s.classes {
		good += s.classes[i].good
	}
	least := max(0, n-good) // that are not Good and must be taken
	if !r.Policy.Strict {
		s.relax(rules, least)
		return nil
	}
	tooMany := func(rule Rule) bool { return n == r.Quorum.Ensemble && rule.Want > rule.bookies(r.Quorum) }
	if slices.ContainsFunc(rules, tooMany) {
		return s.unmet(r, rules, cands, n)
	}
	if s.try(rules, least) {
		return nil
	}
	if least == min(n, len(cands)-good) || !s.try(rules, n) {
		return s.unmet(r, rules, cands, n)
	}
	// It takes more of them: find how few.
	for k := least + 1; ; k++ {
		s.reset()
		if s.try(rules, k) || k == n {
			return nil
		}
	}
}

// try fills the open positions with at most avoid bookies that are not Good.
func (s *search) try(rules []Rule, avoid int) bool {
	s.avoidMax = avoid
	s.setNeeds(rules)
	return s.run()
}

// relax keeps each rule, the most important first, as far as those before it
// leave room. It always fills the positions.
func (s *search) relax(rules []Rule, avoid int) {
	kept := slices.Clone(rules)
	for i := range kept {
		kept[i].Want = min(kept[i].Want, kept[i].bookies(s.q))
	}
	if s.try(kept, avoid) {
		return
	}
	for i := 0; i < len(kept); {
		if s.try(kept[:i+1], avoid) {
			s.reset()
			i++
		} else if kept[i].Want--; kept[i].Want <= 1 {
			kept = slices.Delete(kept, i, i+1)
		}
	}
	if !s.try(kept, avoid) {
		panic("placement: a choice that was found is not found again")
	}
}

// unmet says why a strict policy cannot be kept.
func (s *search) unmet(r Request, rules []Rule, cands []*Bookie, n int) error {
	describe := func(rule Rule, beside []Rule, together bool) error {
		e := &UnmetError{Rule: rule, Of: rule.bookies(r.Quorum), Together: together}
		for rule.Want = min(rule.Want, e.Of); rule.Want > 1; rule.Want-- {
			if s.try(append(slices.Clone(beside), rule), n) {
				s.reset()
				break
			}
		}
		e.Have = rule.Want
		for i := range cands {
			e.Places = append(e.Places, cands[i].At(rule.Level))
		}
		slices.SortFunc(e.Places, Location.compare)
		e.Places = slices.Compact(e.Places)
		return e
	}
	for _, rule := range rules {
		if n == r.Quorum.Ensemble && rule.Want > rule.bookies(r.Quorum) || !s.try([]Rule{rule}, n) {
			return describe(rule, nil, false)
		}
		s.reset()
	}
	i := 0
	for i < len(rules)-1 && s.try(rules[:i+1], n) {
		s.reset()
		i++
	}
	return describe(rules[i], rules[:i], true)
}
