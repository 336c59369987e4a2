package placement

import (
	"fmt"
	"slices"

	"github.com/loglode/loglode/bookie/bk"
)

// levels from narrow to wide.
var levels = [...]Level{LevelRack, LevelZone, LevelRegion}

// Rule is one minimum of a policy.
type Rule struct {
	Level Level
	Ack   bool // of any Qa bookies of a write set, not of the write set
	Want  int
}

// String gives the rule as a term of a policy's text.
func (r Rule) String() string {
	kind := ""
	if r.Ack {
		kind = "ack-"
	}
	return fmt.Sprintf("%s%ss=%d", kind, r.Level, r.Want)
}

// Rules gives the policy's minimums that ask for something, the widest level
// first, which is given up last.
func (p Policy) Rules() []Rule {
	var out []Rule
	for _, l := range slices.Backward(levels[:]) {
		if n := p.Write.At(l); n > 1 {
			out = append(out, Rule{Level: l, Want: n})
		}
		if n := p.Ack.At(l); n > 1 {
			out = append(out, Rule{Level: l, Ack: true, Want: n})
		}
	}
	return out
}

// bookies is how many answers or copies the rule is about.
func (r Rule) bookies(q bk.Quorum) int {
	if r.Ack {
		return q.Ack
	}
	return q.Write
}

// WriteSet is one write set of an ensemble.
type WriteSet struct {
	Positions []int
	Got       int // places that it is in, or that its ack quorums are in at least
}

// Finding says how an ensemble keeps a rule.
type Finding struct {
	Rule
	Got   int        // of the worst write set
	Below []WriteSet // write sets that do not keep the rule
}

// Holds says whether every write set keeps the rule.
func (f Finding) Holds() bool { return f.Got >= f.Want }

// Check says how an ensemble of q.Ensemble bookies keeps each rule of a policy.
// It panics if the ensemble has another length.
func Check(p Policy, q bk.Quorum, ensemble []Bookie) []Finding {
	if len(ensemble) != q.Ensemble {
		panic(fmt.Sprintf("placement: %d bookies in an ensemble of %d", len(ensemble), q.Ensemble))
	}
	var out []Finding
	for _, r := range p.Rules() {
		f := Finding{Rule: r, Got: placesMax}
		for start := range windows(q) {
			set := WriteSet{}
			seen := map[Location]int{}
			for k := range q.Write {
				pos := (start + k) % q.Ensemble
				set.Positions = append(set.Positions, pos)
				seen[ensemble[pos].At(r.Level)]++
			}
			var counts []int
			for _, n := range seen {
				counts = append(counts, n)
			}
			set.Got = r.places(counts, 0, q)
			f.Got = min(f.Got, set.Got)
			if set.Got < r.Want {
				f.Below = append(f.Below, set)
			}
		}
		out = append(out, f)
	}
	return out
}

// windows is how many different write sets an ensemble has.
func windows(q bk.Quorum) int {
	if q.Write == q.Ensemble {
		return 1
	}
	return q.Ensemble
}

// places gives what a write set reaches under the rule that has counts bookies
// in each of its places and open bookies more to come, at best. It changes the
// order of counts.
func (r Rule) places(counts []int, open int, q bk.Quorum) int {
	if !r.Ack {
		return len(counts) + open
	}
	// The worst ack quorum takes the fullest places.
	slices.Sort(counts)
	left, n := q.Ack, 0
	for i := len(counts) - 1; i >= 0 && left > 0; i-- {
		left -= counts[i]
		n++
	}
	return n + max(left, 0)
}
