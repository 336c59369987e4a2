package quorum

import (
	"errors"

	"github.com/loglode/loglode/bookie/bk"
)

// telling keeps the most telling of several errors (rule 43): missing only if
// all said missing, else the first that is not missing, where a lost connection
// yields to anything more specific. Its zero value is empty.
type telling struct {
	missing error // the most telling "missing"
	other   error // the most telling other error
}

func (t *telling) add(err error) {
	switch Classify(err) {
	case Missing:
		// "No such ledger" says less than "no such entry": a bookie learns of a
		// ledger from its first add (rule 3).
		if t.missing == nil || errors.Is(t.missing, bk.ErrNoSuchLedger) {
			t.missing = err
		}
	case Unknown:
		if t.other == nil || errors.Is(t.other, bk.ErrBookieUnavailable) && !errors.Is(err, bk.ErrBookieUnavailable) {
			t.other = err
		}
	case Valid:
	}
}

func (t *telling) err() error {
	if t.other != nil && !(seeded(mutMissingWins) && t.missing != nil) {
		return t.other
	}
	return t.missing
}

// ReadVerdict is what a Read knows after an answer.
type ReadVerdict uint8

// The verdicts of a Read.
const (
	ReadPending ReadVerdict = iota // other replicas were asked and may still answer
	ReadAsk                        // ask the next replica now: Next names it
	ReadDone                       // this answer is the entry
	ReadFailed                     // every replica failed, see Err
)

// Read decides one entry's read over the replicas of its write set (rules
// 40-46). Start makes it ready; a Read is reused without allocating.
type Read struct {
	q       bk.Quorum
	e       bk.EntryID
	order   []int
	asked   int    // replicas asked, in order
	answers uint64 // bit k: copy k answered
	n       int
	tell    telling
	verdict ReadVerdict
}

// Start begins the read of entry e. order names the positions to ask, first
// choice first; positions outside the write set are left out and the rest of
// the write set follows in its own order, so nil means plain write-set order.
func (r *Read) Start(q bk.Quorum, e bk.EntryID, order []int) {
	*r = Read{q: q, e: e, order: r.order[:0]}
	var in uint64
	add := func(pos int) {
		if k, ok := CopyAt(q, e, pos); ok && in&(1<<uint(k)) == 0 {
			in |= 1 << uint(k)
			r.order = append(r.order, pos)
		}
	}
	for _, pos := range order {
		add(pos)
	}
	for k := range q.Write {
		add(Position(q, e, k))
	}
}

// Next is the next position to ask: at the start, after ReadAsk, and when no
// replica asked so far answered within the speculative timeout (rule 41). ok is
// false when all have been asked or the read is over.
func (r *Read) Next() (pos int, ok bool) {
	if !r.More() {
		return 0, false
	}
	pos = r.order[r.asked]
	r.asked++
	return pos, true
}

// More reports whether Next has a position to give.
func (r *Read) More() bool {
	return r.asked < len(r.order) && r.verdict != ReadDone && r.verdict != ReadFailed
}

// Answer takes what position pos said: nil for a valid entry (digest and ids
// checked), its error otherwise. The first valid copy wins; answers after the
// end, doubled ones and those of positions never asked change nothing and
// give ReadPending.
func (r *Read) Answer(pos int, err error) ReadVerdict {
	k, ok := CopyAt(r.q, r.e, pos)
	if !ok || r.verdict == ReadDone || r.verdict == ReadFailed || r.answers&(1<<uint(k)) != 0 || !r.wasAsked(pos) {
		return ReadPending
	}
	r.answers |= 1 << uint(k)
	r.n++
	if err == nil {
		r.verdict = ReadDone
		return r.verdict
	}
	r.tell.add(err)
	switch {
	case r.n == len(r.order), seeded(mutFirstErrorFails):
		r.verdict = ReadFailed
	case r.asked < len(r.order):
		r.verdict = ReadAsk
	default:
		r.verdict = ReadPending
	}
	return r.verdict
}

func (r *Read) wasAsked(pos int) bool {
	for _, p := range r.order[:r.asked] {
		if p == pos {
			return true
		}
	}
	return false
}

// Err is the most telling error so far (rule 43). It is one of bk's "missing"
// errors only when every answer was missing.
func (r *Read) Err() error { return r.tell.err() }
