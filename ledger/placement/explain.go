package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loglode/loglode/bookie/bk"
)

// Explanation says why an ensemble is what it is.
type Explanation struct {
	Ensemble []bk.BookieID // nil if there is none
	Err      error         // why there is none
	Bookies  []Verdict     // of all known bookies, sorted by id
	Findings []Finding     // how Ensemble keeps the rules
}

// Verdict says why a bookie was chosen or not.
type Verdict struct {
	Bookie
	Position int // in the ensemble; -1: not chosen
	// Share is the part of all draws that the bookie gets by its weight where
	// places leave a choice, 0 to 1.
	Share  float64
	Reason string
}

// Explain makes the choice that Choose makes, and explains it.
func Explain(r Request) Explanation {
	ensemble, err := Choose(r)
	if err != nil {
		return Explanation{Err: err, Bookies: r.verdicts(nil)}
	}
	return ExplainEnsemble(r, ensemble)
}

// ExplainEnsemble explains an ensemble that is there already, as to r.
func ExplainEnsemble(r Request, ensemble []bk.BookieID) Explanation {
	known := r.known()
	ens := make([]Bookie, len(ensemble))
	for i, id := range ensemble {
		ens[i] = Bookie{ID: id, Location: locationOf(known, id)}
	}
	return Explanation{Ensemble: ensemble, Bookies: r.verdicts(ens), Findings: Check(r.Policy, r.Quorum, ens)}
}

// verdicts explains each bookie, as to the ensemble ens, nil for none.
func (r Request) verdicts(ens []Bookie) []Verdict {
	known := r.known()
	for _, b := range ens {
		if !slices.ContainsFunc(known, func(k Bookie) bool { return k.ID == b.ID }) {
			known = append(slices.Clone(known), Bookie{ID: b.ID, Status: Gone})
		}
	}
	known = Request{Bookies: known}.known()
	var good []*Bookie
	for i := range known {
		if b := &known[i]; b.Status == Good && r.Policy.lacks(b) == "" {
			good = append(good, b)
		}
	}
	median, sum := 0.0, 0.0
	if !r.Policy.EvenDisks {
		median = medianFree(good)
	}
	for _, b := range good {
		sum += weight(b, median)
	}
	var out []Verdict
	for _, b := range known {
		v := Verdict{Bookie: b, Position: slices.IndexFunc(ens, func(e Bookie) bool { return e.ID == b.ID })}
		if b.Status == Good && r.Policy.lacks(&b) == "" {
			v.Share = weight(&b, median) / sum
		}
		switch {
		case v.Position >= 0:
			v.Reason = r.whyChosen(ens, &b, v.Position)
		default:
			v.Reason = r.whyNot(ens, &b)
		}
		out = append(out, v)
	}
	return out
}

// whyChosen says how far a member of an ensemble is from the others, and what
// is wrong with it.
func (r Request) whyChosen(ens []Bookie, b *Bookie, pos int) string {
	var parts []string
	if b.Status != Good {
		parts = append(parts, b.Status.String())
	}
	if l := r.Policy.lacks(b); l != "" {
		parts = append(parts, "lacks "+l)
	}
	level, with := r.shares(ens, pos, b.Location)
	switch {
	case level == LevelNone:
		parts = append(parts, "alone in its places within its write sets")
	default:
		parts = append(parts, sharing(level, b.Location, with))
	}
	return "chosen: " + strings.Join(parts, "; ")
}

func sharing(level Level, l Location, with []bk.BookieID) string {
	names := make([]string, len(with))
	for i, id := range with {
		names[i] = string(id)
	}
	return fmt.Sprintf("shares %s %s with %s in a write set", level, l.name(level), strings.Join(names, ", "))
}

// shares gives the narrowest level, of those to spread over or with a rule, at
// which a bookie at l would share its place with neighbours of pos, and those.
func (r Request) shares(ens []Bookie, pos int, l Location) (Level, []bk.BookieID) {
	widest := r.Policy.Spread.level()
	for _, rule := range r.Policy.Rules() {
		widest = max(widest, rule.Level)
	}
	e, w := r.Quorum.Ensemble, r.Quorum.Write
	for level := LevelRack; level <= widest; level++ {
		var with []bk.BookieID
		for j := range ens {
			d := max(j-pos, pos-j)
			if d = min(d, e-d); d > 0 && d < w && ens[j].At(level) == l.At(level) {
				with = append(with, ens[j].ID)
			}
		}
		if len(with) > 0 {
			return level, with
		}
	}
	return LevelNone, nil
}

// whyNot says why a bookie is not in ens.
func (r Request) whyNot(ens []Bookie, b *Bookie) string {
	switch l := r.Policy.lacks(b); {
	case b.Status == Gone:
		return "not registered"
	case b.Status == ReadOnly && !r.Recovery:
		return "read-only: it refuses adds"
	case l != "":
		return "lacks " + l
	case ens == nil:
		return "usable"
	case b.Status != Good:
		return b.Status.String() + ": used only where others do not suffice"
	}
	var broken []string
	var fits []int
	nearer := ""
	before := Check(r.Policy, r.Quorum, ens)
	for pos := range ens {
		swapped := slices.Clone(ens)
		swapped[pos] = *b
		worse := ""
		for i, f := range Check(r.Policy, r.Quorum, swapped) {
			if f.Got < f.Want && f.Got < before[i].Got {
				worse = f.Rule.String()
				break
			}
		}
		level, with := r.shares(ens, pos, b.Location)
		have, _ := r.shares(ens, pos, ens[pos].Location)
		switch {
		case worse != "":
			broken = append(broken, worse)
		case closer(level, have):
			nearer = sharing(level, b.Location, with)
		default:
			fits = append(fits, pos)
		}
	}
	slices.Sort(broken)
	switch {
	case len(fits) > 0:
		return fmt.Sprintf("fits at position %s too: the draw took another", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(fits)), ", "), "[]"))
	case nearer != "":
		return "the chosen ones are farther apart: it " + nearer
	default:
		return "would break " + strings.Join(slices.Compact(broken), ", ")
	}
}

// closer says whether sharing at level a is nearer than at b.
func closer(a, b Level) bool {
	return a != LevelNone && (b == LevelNone || a < b)
}
