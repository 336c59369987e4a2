package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/loglode/loglode/bookie/bk"
)

// NotEnoughError says how many bookies were needed and how many there are. It
// wraps bk.ErrNotEnoughBookies.
type NotEnoughError struct {
	Need, Have int
}

func (e *NotEnoughError) Error() string {
	return fmt.Sprintf("%d bookies needed, %d usable: %v", e.Need, e.Have, bk.ErrNotEnoughBookies)
}

func (e *NotEnoughError) Unwrap() error { return bk.ErrNotEnoughBookies }

// Choose picks n distinct bookies of writable at random, those that avoid says
// true of last. avoid may be nil. writable is not changed.
func Choose(rng *rand.Rand, n int, writable []bk.BookieID, avoid func(bk.BookieID) bool) ([]bk.BookieID, error) {
	c := candidates(rng, writable, nil, avoid)
	if len(c) < n {
		return nil, &NotEnoughError{Need: n, Have: len(c)}
	}
	return c[:n:n], nil
}

// Replace gives a copy of ensemble with a substitute at each of the positions.
// Substitutes are writable, not in ensemble and not in failed. Where there are
// too few for all positions, none is replaced.
func Replace(
	rng *rand.Rand, ensemble []bk.BookieID, positions []int, writable, failed []bk.BookieID,
	avoid func(bk.BookieID) bool,
) ([]bk.BookieID, error) {
	c := candidates(rng, writable, append(slices.Clone(ensemble), failed...), avoid)
	if len(c) < len(positions) {
		return nil, &NotEnoughError{Need: len(positions), Have: len(c)}
	}
	out := slices.Clone(ensemble)
	for i, p := range positions {
		out[p] = c[i]
	}
	return out, nil
}

// candidates gives the distinct bookies of writable that are not excluded, in
// random order, those to avoid last.
func candidates(rng *rand.Rand, writable, excluded []bk.BookieID, avoid func(bk.BookieID) bool) []bk.BookieID {
	c := slices.Clone(writable)
	slices.Sort(c)
	c = slices.DeleteFunc(slices.Compact(c), func(b bk.BookieID) bool { return slices.Contains(excluded, b) })
	rng.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
	if avoid == nil {
		return c
	}
	slices.SortStableFunc(c, func(a, b bk.BookieID) int {
		switch x, y := avoid(a), avoid(b); {
		case x == y:
			return 0
		case y:
			return -1
		default:
			return 1
		}
	})
	return c
}
