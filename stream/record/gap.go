package record

import "fmt"

// GapCheck finds records that are missing inside a segment: the positions of
// its user records rise by one. Its zero value is ready for a segment's records
// from anywhere.
type GapCheck struct {
	last int64
}

// Reset forgets the last position, after a seek or at the next segment.
func (g *GapCheck) Reset() { g.last = 0 }

// Check takes the next record. It fails with a *stream.CorruptError at a gap.
// Position 0 means that the writer did not count, and 1 starts again.
func (g *GapCheck) Check(v View) error {
	if !v.Flags.User() {
		return nil
	}
	last := g.last
	g.last = v.LastPosition
	if last == 0 || v.Position <= 1 || v.Position == last+1 {
		return nil
	}
	return corrupt(fmt.Sprintf("record %v, position in segment", v.DLSN), -1, fmt.Sprint(last+1), fmt.Sprint(v.Position))
}
