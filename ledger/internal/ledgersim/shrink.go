package ledgersim

import "fmt"

// shrinkSalts is how many histories are tried under each smaller weather: a
// weather changes what all draws after it mean, so the same seed without one
// feature is another history.
const shrinkSalts = 200

// Shrink looks for a smaller schedule that breaks the same invariant: with
// fewer features, then with a shorter time of faults.
func Shrink(f Failure) Failure {
	var r Runner
	best := f
	for smaller := true; smaller; {
		smaller = false
		for feature := Features(1); feature < featEnd; feature <<= 1 {
			o := best.Options
			if o.Off.has(feature) || !r.draws(o, feature) {
				continue
			}
			o.Off |= feature
			if again, ok := r.fails(o, best); ok {
				best, smaller = again, true
			}
		}
	}
	for ticks := best.Violation.At + 1; ticks >= ticksMin; ticks = ticks * 3 / 4 {
		o := best.Options
		o.Ticks = ticks
		again, ok := r.fails(o, best)
		if !ok {
			break
		}
		best = again
	}
	return best
}

// draws reports whether the seed draws the feature.
func (r *Runner) draws(o Options, feature Features) bool {
	r.s.reset(o)
	r.s.setup()
	return r.s.prof.on.has(feature)
}

// fails looks for a history under o that breaks the invariant that like breaks.
func (r *Runner) fails(o Options, like Failure) (Failure, bool) {
	for salt := range uint64(shrinkSalts) {
		o.Salt = salt
		if _, v := r.Run(o); v != nil && v.Invariant == like.Violation.Invariant {
			return Failure{Options: o, Violation: v}, true
		}
	}
	return like, false
}

// String says what broke and how to see it again.
func (f Failure) String() string {
	o := f.Options
	return fmt.Sprintf("%v\nreplay with: go test ./ledger/internal/ledgersim -run 'TestSim$' -v -sim.n 1 -sim.seed %d -sim.salt %d -sim.off %#x -sim.ticks %d",
		f.Violation, o.Seed, o.Salt, uint32(o.Off), o.Ticks)
}
