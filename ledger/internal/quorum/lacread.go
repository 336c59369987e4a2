package quorum

import (
	"errors"
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
)

// LACVerdict is what a LACRead knows after an answer.
type LACVerdict uint8

// The verdicts of a LACRead.
const (
	LACPending LACVerdict = iota // more answers are needed
	LACCovered                   // LAC is good: every window of Qw positions was heard (rule 32)
	LACFailed                    // it cannot be covered any more, see Err
)

// LACAnswer is one valid last-entry answer: the entry with the highest id that
// the bookie holds, verified, and its fields.
type LACAnswer struct {
	Entry  bk.EntryID // its id
	LAC    bk.EntryID // the LAC in it, or a larger verified explicit LAC
	Length int64      // payload bytes up to and with it
}

// LACRead gathers the last add confirmed from all bookies of one ensemble, with
// fencing reads (rules 31, 32) or without (rule 26). Its zero value is not
// ready: call Start.
type LACRead struct {
	ledger  bk.LedgerID
	q       bk.Quorum
	heard   []bool
	done    []bool
	answers []LACAnswer // of valid answers; Entry is InvalidEntryID elsewhere
	left    int
	lac     bk.EntryID
	errs    []error
	verdict LACVerdict
}

// Start begins a new read over an ensemble of q: the caller asks all its
// positions and gives each one Answer.
func (r *LACRead) Start(l bk.LedgerID, q bk.Quorum) {
	*r = LACRead{
		ledger: l, q: q,
		heard: make([]bool, q.Ensemble), done: make([]bool, q.Ensemble),
		answers: make([]LACAnswer, q.Ensemble), left: q.Ensemble, lac: bk.InvalidEntryID,
	}
	for p := range r.answers {
		r.answers[p].Entry = bk.InvalidEntryID
	}
}

// Answer takes the answer of one position: a valid one with err nil, or what
// went wrong, damage included. Once the verdict is not LACPending it stays.
func (r *LACRead) Answer(pos int, a LACAnswer, err error) LACVerdict {
	if pos < 0 || pos >= len(r.done) || r.done[pos] || r.verdict != LACPending {
		return r.verdict
	}
	r.done[pos] = true
	r.left--
	switch Classify(err) {
	case Valid:
		r.heard[pos] = true
		r.answers[pos] = a
		if seeded(mutLargestEntryID) {
			a.LAC = a.Entry
		}
		r.lac = max(r.lac, a.LAC)
	case Missing:
		r.heard[pos] = true
	case Unknown:
		r.errs = append(r.errs, err)
		if errors.Is(err, bk.ErrUnauthorized) {
			r.verdict = LACFailed
			return r.verdict
		}
		r.heard[pos] = seeded(mutUnknownIsHeard)
	}
	switch {
	case r.covered():
		r.verdict = LACCovered
	case r.left == 0:
		r.verdict = LACFailed
	}
	return r.verdict
}

func (r *LACRead) covered() bool {
	if seeded(mutCoverAnyAck) {
		n := 0
		for _, h := range r.heard {
			if h {
				n++
			}
		}
		return n >= r.q.Ack
	}
	return Covered(r.q, r.heard)
}

// LAC is the largest last add confirmed that a valid answer named,
// InvalidEntryID when none did.
func (r *LACRead) LAC() bk.EntryID { return r.lac }

// LengthOf is the payload bytes up to and with entry e, if a valid answer was
// of that very entry (rule 38).
func (r *LACRead) LengthOf(e bk.EntryID) (int64, bool) {
	for _, a := range r.answers {
		if e >= 0 && (a.Entry == e || seeded(mutLengthOfAnswer) && a.Entry > e) {
			return a.Length, true
		}
	}
	return 0, false
}

// Err says why the read failed, with the error of every bookie not heard.
func (r *LACRead) Err() error {
	if r.verdict != LACFailed {
		return nil
	}
	heard := 0
	for _, h := range r.heard {
		if h {
			heard++
		}
	}
	return fmt.Errorf("last add confirmed not known, %d of %d bookies heard: %w", heard, r.q.Ensemble,
		&bk.QuorumError{Ledger: r.ledger, Entry: bk.InvalidEntryID, Need: r.q.Ensemble - r.q.Ack + 1, Got: heard, Errs: r.errs})
}
