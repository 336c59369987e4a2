package placement

import (
	"fmt"
	"slices"
)

// makeShapes gives places that differ in name alone the same number: racks
// with the same number of bookies, zones with the same racks, regions with the
// same zones. Of several that are not used yet, one need be tried.
func (s *search) makeShapes() {
	for _, l := range levels {
		s.shapes[l] = make([]int, len(s.used[l]))
	}
	number := map[string]int{}
	intern := func(key string) int {
		n, ok := number[key]
		if !ok {
			n = len(number) + 1
			number[key] = n
		}
		return n
	}
	e := s.q.Ensemble
	inZone := map[int][]int{}
	zoneRegion := map[int]int{}
	for i := range s.classes {
		c := &s.classes[i]
		shape := intern(fmt.Sprint("rack", min(c.good, e), min(len(c.cands)-c.good, e)))
		s.shapes[LevelRack][c.place[LevelRack]] = shape
		inZone[c.place[LevelZone]] = append(inZone[c.place[LevelZone]], shape)
		zoneRegion[c.place[LevelZone]] = c.place[LevelRegion]
	}
	inRegion := map[int][]int{}
	for z, racks := range inZone {
		slices.Sort(racks)
		shape := intern(fmt.Sprint("zone", racks))
		s.shapes[LevelZone][z] = shape
		inRegion[zoneRegion[z]] = append(inRegion[zoneRegion[z]], shape)
	}
	for r, zones := range inRegion {
		slices.Sort(zones)
		s.shapes[LevelRegion][r] = intern(fmt.Sprint("region", zones))
	}
}

// signature is the same for classes of which one is as good as the other for
// every rule: a place in use stands for itself, others for their shape.
func (s *search) signature(class int) (sig [3]int) {
	c := &s.classes[class]
	for i, l := range levels {
		p := c.place[l]
		if s.used[l][p] > 0 {
			sig[i] = -1 - p
		} else {
			sig[i] = s.shapes[l][p]
		}
	}
	return sig
}
