package placement

import (
	"cmp"
	"slices"

	"github.com/loglode/loglode/bookie/bk"
)

// A search fills the open positions of an ensemble, depth first. It looks at
// classes, bookies of one rack, in place of bookies: within a class the next
// one in the drawn order is taken.
type search struct {
	q        bk.Quorum
	rules    []Rule
	need     [][]int // by rule and write set; what it must reach
	spread   Level   // widest level to spread over
	classes  []class
	at       []int      // by position: its class; -1 open, other < 0: fixed
	places   [][4]int   // by position: its places, by level; all -1 while open
	used     [4][]int   // by level and place: bookies that are chosen or fixed
	open     []int      // positions to fill, ascending
	avoidMax int        // most bookies that are not Good
	avoided  int        // how many are chosen
	steps    int        // placements left
	thorough bool       // look at the beat, at the room left, and at one of several alike
	beat     [][]int    // by rule and position, while thorough; see beats
	counts   []int      // scratch
	stamps   []int      // scratch: by place, count within a write set
	seen     []int      // scratch: places of a write set
	shapes   [4][]int   // by level and place, made at need
	alike    [][][3]int // by depth: what was tried there
}

// class is the bookies of one rack that may be chosen.
type class struct {
	place [4]int // by level
	cands []cand // Good ones first, then in drawn order
	good  int    // how many of cands are Good
	taken int    // cands[:taken] are chosen
}

const (
	stepsQuick    = 16 // a position, for a look without much backtracking
	stepsThorough = 1 << 14
)

// run fills the open positions so that all rules hold. It gives false if it
// finds no way; it has then changed nothing.
func (s *search) run() bool {
	for r, need := range s.need {
		if slices.Max(need) > len(s.used[s.rules[r].Level]) {
			return false // there are not so many places
		}
	}
	s.thorough, s.steps = false, stepsQuick*(len(s.open)+1)
	return s.fill(0) || s.exhaust()
}

// exhaust looks at everything that differs, as far as the steps go.
func (s *search) exhaust() bool {
	s.thorough, s.steps, s.beat = true, stepsThorough, s.beats()
	if s.shapes[LevelRack] == nil {
		s.makeShapes()
	}
	return s.fill(0)
}

// fill fills open[depth:].
func (s *search) fill(depth int) bool {
	if depth == len(s.open) {
		return true
	}
	pos := s.open[depth]
	if s.thorough {
		for len(s.alike) <= depth {
			s.alike = append(s.alike, nil)
		}
		s.alike[depth] = s.alike[depth][:0]
	}
	last := option{class: -1}
	for {
		o, ok := s.next(pos, last)
		if !ok {
			return false
		}
		last = o
		if s.thorough {
			sig := s.signature(o.class)
			if slices.Contains(s.alike[depth], sig) {
				continue
			}
			s.alike[depth] = append(s.alike[depth], sig)
		}
		if s.steps--; s.steps < 0 {
			return false
		}
		s.put(pos, o.class)
		if s.keeps(pos) && s.fill(depth+1) {
			return true
		}
		s.take(pos)
		if s.steps < 0 {
			return false
		}
	}
}

// option is a class for a position; the least is tried first.
type option struct {
	status Status  // of the bookie that would be taken
	off    int     // rules whose beat it does not keep
	near   int     // how near others of the same places are
	room   int     // how many bookies its places have left, negative
	key    float64 // the draw
	class  int
}

func (a option) compare(b option) int {
	if c := cmp.Compare(a.status, b.status); c != 0 {
		return c
	}
	if c := cmp.Compare(a.off, b.off); c != 0 {
		return c
	}
	if c := cmp.Compare(a.near, b.near); c != 0 {
		return c
	}
	if c := cmp.Compare(a.room, b.room); c != 0 {
		return c
	}
	if c := cmp.Compare(a.key, b.key); c != 0 {
		return c
	}
	return cmp.Compare(a.class, b.class)
}

// next gives the least option for a position after last.
func (s *search) next(pos int, last option) (best option, ok bool) {
	for i := range s.classes {
		c := &s.classes[i]
		if c.taken == len(c.cands) {
			continue
		}
		st := c.cands[c.taken].status
		if st != Good && s.avoided == s.avoidMax || ok && st > best.status {
			continue
		}
		o := option{status: st, near: s.near(pos, c), key: c.cands[c.taken].key, class: i}
		if s.thorough {
			o.room, o.off = c.taken-len(c.cands), s.offBeat(pos, c)
		}
		if last.class >= 0 && o.compare(last) <= 0 {
			continue
		}
		if !ok || o.compare(best) < 0 {
			best, ok = o, true
		}
	}
	return best, ok
}

// near says how near to pos the class's places are already in the ensemble,
// wide levels above narrow ones. Positions that share a write set count by the
// number of write sets, all others a little.
func (s *search) near(pos int, c *class) int {
	e, w := s.q.Ensemble, s.q.Write
	total := 0
	for l := s.spread; l > LevelNone; l-- {
		sum := 0
		if s.used[l][c.place[l]] > 0 {
			for j := range s.places {
				if j == pos || s.places[j][l] != c.place[l] {
					continue
				}
				sum++
				d := max(j-pos, pos-j)
				if d = min(d, e-d); d < w {
					sum += e * (w - d)
				}
			}
		}
		total = total*(e*e*w+1) + sum
	}
	return total
}

func (s *search) put(pos, class int) {
	c := &s.classes[class]
	if c.cands[c.taken].status != Good {
		s.avoided++
	}
	c.taken++
	s.at[pos] = class
	s.setPlaces(pos, c.place)
}

func (s *search) setPlaces(pos int, p [4]int) {
	s.places[pos] = p
	for _, l := range levels {
		s.used[l][p[l]]++
	}
}

// take takes the bookie of pos out again.
func (s *search) take(pos int) {
	c := &s.classes[s.at[pos]]
	c.taken--
	if c.cands[c.taken].status != Good {
		s.avoided--
	}
	for _, l := range levels {
		s.used[l][c.place[l]]--
	}
	s.at[pos], s.places[pos] = -1, openPlaces
}

var openPlaces = [4]int{-1, -1, -1, -1}

// keeps says whether the write sets with pos can still keep all rules.
func (s *search) keeps(pos int) bool {
	if len(s.rules) == 0 {
		return true
	}
	n := windows(s.q)
	for k := range min(n, s.q.Write) {
		start := (pos - k + s.q.Ensemble) % s.q.Ensemble
		if n == 1 {
			start = 0
		}
		for r := range s.rules {
			if s.need[r][start] > 1 && s.reach(s.rules[r], start) < s.need[r][start] {
				return false
			}
		}
	}
	return true
}

// reach is how many places the write set at start can be in under a rule.
func (s *search) reach(r Rule, start int) int {
	open := 0
	s.seen = s.seen[:0]
	for k := range s.q.Write {
		p := s.places[(start+k)%s.q.Ensemble][r.Level]
		if p < 0 {
			open++
			continue
		}
		if s.stamps[p] == 0 {
			s.seen = append(s.seen, p)
		}
		s.stamps[p]++
	}
	s.counts = s.counts[:0]
	for _, p := range s.seen {
		s.counts = append(s.counts, s.stamps[p])
		s.stamps[p] = 0
	}
	return r.places(s.counts, open, s.q)
}

// setNeeds fixes what each write set must reach: what the rules want, unless
// its fixed bookies rule that out whatever is chosen. Write sets that nothing
// is chosen for need nothing.
func (s *search) setNeeds(rules []Rule) {
	s.rules = rules
	s.need = s.need[:0]
	for _, r := range rules {
		need := make([]int, windows(s.q))
		for start := range need {
			for k := range s.q.Write {
				if s.at[(start+k)%s.q.Ensemble] == -1 {
					need[start] = min(r.Want, s.reach(r, start))
					break
				}
			}
		}
		s.need = append(s.need, need)
	}
}

// reset takes back all that was chosen.
func (s *search) reset() {
	for _, pos := range s.open {
		if s.at[pos] >= 0 {
			s.take(pos)
		}
	}
}
