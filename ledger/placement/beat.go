package placement

// beats gives for each rule and position an earlier one whose place to take
// again, -1 to take one that is not used yet. An ensemble cut into blocks of
// nearly the same size, no smaller than what a rule wants, keeps the rule if
// every block has the places of the first one in their order: of as many
// neighbours as the rule wants places, those in the next block come earlier in
// that order than those in the one before. Trying alone would not find the
// larger ensembles over few places.
func (s *search) beats() [][]int {
	e := s.q.Ensemble
	out := make([][]int, len(s.rules))
	for i, r := range s.rules {
		size := r.Want
		if r.Ack {
			size = s.q.Write // all apart, so that any Qa are
		}
		blocks := max(1, e/max(1, size))
		out[i] = make([]int, 0, e)
		for block := range blocks {
			n := e / blocks
			if block < e%blocks {
				n++
			}
			for offset := range n {
				if block == 0 {
					offset = -1
				}
				out[i] = append(out[i], offset)
			}
		}
	}
	return out
}

// offBeat is how many rules would have another place for pos than the class's.
func (s *search) offBeat(pos int, c *class) (off int) {
	for i, r := range s.rules {
		place := c.place[r.Level]
		first := s.beat[i][pos]
		if first < 0 && s.used[r.Level][place] > 0 || first >= 0 && s.places[first][r.Level] != place {
			off++
		}
	}
	return off
}
