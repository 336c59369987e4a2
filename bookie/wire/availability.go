package wire

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"github.com/loglode/loglode/bookie/bk"
)

// Availability bytes tell which entries of a ledger a bookie holds:
//
//	| version 4B = 0 | group count 4B | zeros 56B | group 24B ... |
//	group: | first 8B | last sequence start 8B | sequence size 4B | period 4B |
//
// A group stands for runs of "sequence size" ids that start at first, first +
// period, ... up to the last sequence start. On the wire: do not change.
const (
	availabilityHeaderSize = 64
	availabilityGroupSize  = 24
)

// AppendAvailability appends the availability bytes of ids, which must be
// ascending: one group per run of consecutive ids, as Apache's bookies do.
func AppendAvailability(dst []byte, ids iter.Seq[bk.EntryID]) []byte {
	return appendAvailability(dst, ids, false)
}

// AppendAvailabilityShort is AppendAvailability with one group for all runs of
// one size at one distance. A bookie's share of a striped ledger is 24 bytes
// then, not 24 for each stripe.
func AppendAvailabilityShort(dst []byte, ids iter.Seq[bk.EntryID]) []byte {
	return appendAvailability(dst, ids, true)
}

func appendAvailability(dst []byte, ids iter.Seq[bk.EntryID], periods bool) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, availabilityHeaderSize)...)
	groups := uint32(0)
	var open availabilityGroup // size 0: none
	put := func(run availabilityGroup) {
		if periods && open.extend(run) {
			return
		}
		if open.size > 0 {
			dst = open.append(dst)
			groups++
		}
		open = run
	}
	var run availabilityGroup
	for id := range ids {
		if run.size > 0 && run.size < math.MaxInt32 && id == run.first+bk.EntryID(run.size) {
			run.size++
			continue
		}
		if run.size > 0 {
			put(run)
		}
		run = availabilityGroup{first: id, last: id, size: 1}
	}
	if run.size > 0 {
		put(run)
		put(availabilityGroup{})
	}
	binary.BigEndian.PutUint32(dst[start+4:], groups)
	return dst
}

// extend takes a run that goes on as the group does; false if it does not.
func (g *availabilityGroup) extend(run availabilityGroup) bool {
	distance := int64(run.first - g.last)
	switch {
	case g.size == 0 || run.size != g.size || distance > math.MaxInt32:
		return false
	case g.period == 0:
		g.period = distance
	case g.period != distance:
		return false
	}
	g.last = run.first
	return true
}

func (g *availabilityGroup) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(g.first))
	dst = binary.BigEndian.AppendUint64(dst, uint64(g.last))
	dst = binary.BigEndian.AppendUint32(dst, uint32(g.size))
	return binary.BigEndian.AppendUint32(dst, uint32(g.period))
}

// Availability is a decoded set of entry ids.
type Availability struct{ groups []availabilityGroup }

type availabilityGroup struct {
	first, last  bk.EntryID // first and last start of a run
	size, period int64
}

// DecodeAvailability takes availability bytes, with runs and with periods. It
// fails with ErrMalformed, also for groups that overlap or go down.
func DecodeAvailability(b []byte) (Availability, error) {
	if len(b) < availabilityHeaderSize {
		return Availability{}, fmt.Errorf("availability of %d bytes, want at least %d: %w", len(b), availabilityHeaderSize, ErrMalformed)
	}
	if v := binary.BigEndian.Uint32(b); v != 0 {
		return Availability{}, fmt.Errorf("availability version %d, want 0: %w", v, ErrMalformed)
	}
	n := binary.BigEndian.Uint32(b[4:])
	b = b[availabilityHeaderSize:]
	if uint64(n)*availabilityGroupSize != uint64(len(b)) {
		return Availability{}, fmt.Errorf("availability of %d groups in %d bytes: %w", n, len(b), ErrMalformed)
	}
	a := Availability{groups: make([]availabilityGroup, 0, n)}
	next := bk.InvalidEntryID // one more than the last id so far, -1 before the first group
	for ; len(b) > 0; b = b[availabilityGroupSize:] {
		g := availabilityGroup{
			size:   int64(int32(binary.BigEndian.Uint32(b[16:]))),
			period: int64(int32(binary.BigEndian.Uint32(b[20:]))),
		}
		g.first = bk.EntryID(binary.BigEndian.Uint64(b))
		g.last = bk.EntryID(binary.BigEndian.Uint64(b[8:]))
		if !g.valid() || g.first < next || g.first < 0 {
			return Availability{}, fmt.Errorf("availability group %d (%d to %d, %d every %d): %w",
				len(a.groups), g.first, g.last, g.size, g.period, ErrMalformed)
		}
		next = g.last + bk.EntryID(g.size)
		a.groups = append(a.groups, g)
	}
	return a, nil
}

func (g availabilityGroup) valid() bool {
	const maxID = 1<<63 - 1
	if g.size < 1 || int64(g.last) > maxID-g.size {
		return false
	}
	if g.period == 0 {
		return g.first == g.last
	}
	return g.period >= g.size && g.first <= g.last && int64(g.last-g.first)%g.period == 0
}

// Contains reports whether e is in the set.
func (a Availability) Contains(e bk.EntryID) bool {
	lo, hi := 0, len(a.groups)
	for lo < hi { // last group that starts at or before e
		if m := (lo + hi) / 2; a.groups[m].first <= e {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == 0 {
		return false
	}
	g := a.groups[lo-1]
	if int64(e-g.last) >= g.size {
		return false
	}
	if g.period == 0 || e >= g.last {
		return true
	}
	return int64(e-g.first)%g.period < g.size
}

// Len is the number of ids in the set.
func (a Availability) Len() int64 {
	var n int64
	for _, g := range a.groups {
		runs := int64(1)
		if g.period > 0 {
			runs += int64(g.last-g.first) / g.period
		}
		n += runs * g.size
	}
	return n
}

// All gives the ids in ascending order.
func (a Availability) All() iter.Seq[bk.EntryID] {
	return func(yield func(bk.EntryID) bool) {
		for _, g := range a.groups {
			step := bk.EntryID(max(g.period, 1))
			for run := g.first; run <= g.last; run += step {
				for i := int64(0); i < g.size; i++ {
					if !yield(run + bk.EntryID(i)) {
						return
					}
				}
			}
		}
	}
}
