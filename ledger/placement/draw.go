package placement

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/loglode/loglode/bookie/bk"
)

// freeFactorMax is the most that a bookie's free disk space, against the median
// of all, makes its share larger or smaller. An empty bookie in a full cluster
// would be overrun otherwise.
const freeFactorMax = 4.0

// cand is a bookie that may be chosen. Taken in the order of their keys, bookies
// come first in proportion to their weights (Efraimidis and Spirakis, 2006).
type cand struct {
	class  int // in which the bookie is
	status Status
	key    float64
	bookie int // its index
}

func (a cand) compare(b cand) int {
	if a.class != b.class {
		return a.class - b.class
	}
	return cmp.Or(int(a.status)-int(b.status), cmp.Compare(a.key, b.key), a.bookie-b.bookie)
}

// weight gives a bookie's share, always above 0. A median of 0 leaves disks
// out.
func weight(b *Bookie, median float64) float64 {
	w := b.Weight
	if !(w > 0) || math.IsInf(w, 1) {
		w = 1
	}
	w = min(max(w, 1e-9), 1e9)
	if median > 0 && b.FreeBytes > 0 {
		w *= min(max(float64(b.FreeBytes)/median, 1/freeFactorMax), freeFactorMax)
	}
	return w
}

func medianFree(cands []*Bookie) float64 {
	free := make([]int64, 0, len(cands))
	for _, b := range cands {
		if n := b.FreeBytes; n > 0 {
			free = append(free, n)
		}
	}
	if len(free) == 0 {
		return 0
	}
	slices.Sort(free)
	return float64(free[len(free)/2])
}

func (l Location) compare(m Location) int {
	return cmp.Or(cmp.Compare(l.Region, m.Region), cmp.Compare(l.Zone, m.Zone), cmp.Compare(l.Rack, m.Rack))
}

// search makes a search for the open positions of ensemble, among cands.
func (r Request) search(known []Bookie, cands []*Bookie, ensemble []bk.BookieID, positions []int) *search {
	e := r.Quorum.Ensemble
	s := &search{
		q: r.Quorum, spread: r.Policy.Spread.level(),
		at: make([]int, e), places: make([][4]int, e), open: slices.Sorted(slices.Values(positions)),
	}
	for pos := range s.at {
		s.at[pos] = fixed
	}
	for _, pos := range s.open {
		s.at[pos], s.places[pos] = -1, openPlaces
	}
	ids := [4]map[Location]int{LevelRack: {}, LevelZone: {}, LevelRegion: {}}
	intern := func(l Location) (p [4]int) {
		for _, level := range levels {
			at := l.At(level)
			n, ok := ids[level][at]
			if !ok {
				n = len(ids[level])
				ids[level][at] = n
				s.used[level] = append(s.used[level], 0)
			}
			p[level] = n
		}
		return p
	}
	for pos, at := range s.at {
		if at == fixed {
			s.setPlaces(pos, intern(locationOf(known, ensemble[pos])))
		}
	}
	median := 0.0
	if !r.Policy.EvenDisks {
		median = medianFree(cands)
	}
	s.addClasses(r.Rand, cands, median, intern)
	s.stamps = make([]int, max(len(s.used[LevelRack]), len(s.used[LevelZone]), len(s.used[LevelRegion])))
	return s
}

// fixed marks a position that keeps its bookie.
const fixed = -2

func (s *search) addClasses(rng *rand.Rand, bookies []*Bookie, median float64, intern func(Location) [4]int) {
	of := map[Location]int{}
	all := make([]cand, len(bookies))
	for i, b := range bookies {
		n, ok := of[b.Location]
		if !ok {
			n = len(s.classes)
			of[b.Location] = n
			s.classes = append(s.classes, class{place: intern(b.Location)})
		}
		all[i] = cand{class: n, status: b.Status, key: rng.ExpFloat64() / weight(b, median), bookie: i}
		if b.Status == Good {
			s.classes[n].good++
		}
	}
	slices.SortFunc(all, cand.compare)
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].class == all[0].class {
			n++
		}
		s.classes[all[0].class].cands, all = all[:n], all[n:]
	}
}

// locationOf finds a bookie among the sorted known ones; nothing is known of
// another.
func locationOf(known []Bookie, id bk.BookieID) Location {
	i, ok := slices.BinarySearchFunc(known, id, func(b Bookie, id bk.BookieID) int { return cmp.Compare(b.ID, id) })
	if !ok {
		return Location{}
	}
	return known[i].Location
}
