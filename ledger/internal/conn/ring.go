package conn

import (
	"time"

	"github.com/loglode/loglode/bookie/bk"
)

// ring tracks which adds of one ledger at one bookie have no answer yet, and
// since when, at a cost of one byte an entry. Entries are sent in rising order;
// those of other write sets leave gaps.
type ring struct {
	state      []byte // by entry id modulo length, a power of two
	base, next bk.EntryID
	waiting    int
	marks      []mark // rising; an entry was sent at the time of the last mark at or before it
}

type mark struct {
	entry bk.EntryID
	at    time.Duration
}

const (
	entryNone byte = iota // not sent here, or answered
	entryWaits
)

// markEvery is the resolution of send times.
const markEvery = 10 * time.Millisecond

func (r *ring) at(e bk.EntryID) *byte { return &r.state[uint64(e)&uint64(len(r.state)-1)] }

// sent notes that e was sent now. It reports false for an entry that is not
// above those sent before.
func (r *ring) sent(e bk.EntryID, now time.Duration) bool {
	if e < r.next {
		return false
	}
	if r.waiting == 0 {
		r.base, r.next = e, e
		r.marks = r.marks[:0]
	}
	r.grow(int(e - r.base + 1))
	for ; r.next < e; r.next++ {
		*r.at(r.next) = entryNone
	}
	*r.at(e) = entryWaits
	r.next = e + 1
	r.waiting++
	if n := len(r.marks); n == 0 || now-r.marks[n-1].at >= markEvery {
		r.marks = append(r.marks, mark{e, now})
	}
	return true
}

// answered takes e off the list; false if it was not on it.
func (r *ring) answered(e bk.EntryID) bool {
	if e < r.base || e >= r.next || *r.at(e) != entryWaits {
		return false
	}
	*r.at(e) = entryNone
	r.waiting--
	for r.base < r.next && *r.at(r.base) == entryNone {
		r.base++
	}
	return true
}

// oldest gives the first entry without an answer and when it was sent, at the
// latest.
func (r *ring) oldest() (e bk.EntryID, at time.Duration, ok bool) {
	if r.waiting == 0 {
		return 0, 0, false
	}
	drop := 0
	for drop+1 < len(r.marks) && r.marks[drop+1].entry <= r.base {
		drop++
	}
	r.marks = append(r.marks[:0], r.marks[drop:]...)
	return r.base, r.marks[0].at, true
}

func (r *ring) grow(n int) {
	if n <= len(r.state) {
		return
	}
	size := max(16, len(r.state))
	for size < n {
		size *= 2
	}
	old := r.state
	r.state = make([]byte, size)
	for e := r.base; e < r.next; e++ {
		*r.at(e) = old[uint64(e)&uint64(len(old)-1)]
	}
}
