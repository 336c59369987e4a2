package quorum

import (
	"fmt"
	"math/bits"

	"github.com/loglode/loglode/bookie/bk"
)

// recoveryReadState is one recovery read: of one entry, at all of its write set
// at once.
type recoveryReadState struct {
	answered uint64 // bit k: copy k answered
	missing  int
	valid    bool
	length   int64 // of the first valid copy
	errs     []error
}

func (s *recoveryReadState) reset() { *s = recoveryReadState{errs: s.errs[:0]} }

// issue starts reads until the window is full.
func (r *Recovery) issue() {
	for r.issued < r.next+bk.EntryID(r.window) && r.issued <= r.back.Completed()+bk.EntryID(r.cfg.WindowMax) {
		e := r.issued
		r.issued++
		r.state(e).reset()
		r.ask(e, r.fixed, !seeded(mutReadUnfenced))
	}
}

func (r *Recovery) state(e bk.EntryID) *recoveryReadState {
	return &r.reads[int(e%bk.EntryID(len(r.reads)))]
}

// ask reads e from the whole write set in segment s.
func (r *Recovery) ask(e bk.EntryID, s Segment, fence bool) {
	for k := range r.q.Write {
		p := Position(r.q, e, k)
		r.act(Action{Kind: ActRead, Fence: fence, Entry: e, Slot: Slot{Pos: p, Gen: r.attempt}, Bookie: s.Ensemble[p]})
	}
}

// ReadAnswer answers ActRead: err nil for a valid copy, whose length field is
// length. keep tells that this copy's payload is the one to write back: the
// shell holds it until Held passes e.
func (r *Recovery) ReadAnswer(e bk.EntryID, s Slot, length int64, err error) (keep bool) {
	k, ok := CopyAt(r.q, e, s.Pos)
	if !ok || s.Gen != r.attempt {
		return false
	}
	switch r.phase {
	case recoveryRead:
		if r.ended || e < r.next || e >= r.issued {
			return false
		}
		keep = r.take(r.state(e), k, length, err)
		if e == r.next {
			r.decide()
		}
		return keep
	case recoveryLength:
		if e != r.next-1 {
			return false
		}
		r.take(&r.last, k, length, err)
		r.decideLength()
	}
	return false
}

// take notes one answer; it reports whether it is the first valid one.
func (r *Recovery) take(s *recoveryReadState, k int, length int64, err error) bool {
	if s.answered&(1<<uint(k)) != 0 {
		return false
	}
	s.answered |= 1 << uint(k)
	out := Classify(err)
	if out == Unknown && seeded(mutUnknownIsMissing) {
		out = Missing
	}
	switch out {
	case Valid:
		if s.valid {
			return false
		}
		s.valid, s.length = true, length
		return true
	case Missing:
		s.missing++
	case Unknown:
		s.errs = append(s.errs, err)
	}
	return false
}

// decide looks at the reads in order (rules 34, 35, 39): a valid copy is
// recovered, Qw - Qa + 1 missing ones are the end, neither from all fails.
func (r *Recovery) decide() {
	for !r.ended && r.next < r.issued {
		s := r.state(r.next)
		switch {
		case s.valid:
			if !r.recovered(s) {
				return
			}
		case s.missing >= r.q.Write-r.q.Ack+1, seeded(mutOneMissingEnds) && s.missing > 0:
			r.ended = true
		case bits.OnesCount64(s.answered) == r.q.Write:
			r.fail(r.readError(r.next, s))
			return
		default:
			r.settle()
			return
		}
	}
	r.settle()
}

// recovered sends the entry that is next back to its write set (rule 36).
func (r *Recovery) recovered(s *recoveryReadState) bool {
	e := r.next
	if _, err := r.back.Push(0); err != nil {
		r.fail(err)
		return false
	}
	r.next++
	r.length, r.known = s.length, true
	r.window = min(2*r.window, r.cfg.WindowMax)
	r.act(Action{Kind: ActFrame, Entry: e, LAC: r.copyLAC(), Length: s.length})
	for k := range r.q.Write {
		p := Position(r.q, e, k)
		r.act(Action{Kind: ActSend, Entry: e, Slot: r.back.Slot(p), Bookie: r.back.Bookie(p)})
	}
	r.issue()
	return true
}

// copyLAC is the LAC that the copies written back name: the one recovery started
// from, not the recoverer's own as it moves on.
//
// The Java client puts its moving LAC there. But what rests on a write-back is
// confirmed only once this recovery has won the close. Two ways for it to go
// wrong, both found by ledgersim:
//
//	recovery A                                recovery B
//	writes 5 back, b3 for b1 in memory,
//	  b0 and b3 acknowledge: its LAC is 5
//	writes 6 back with LAC 5 to b0, dies
//	                                          fences, gets LAC 5 from b0
//	                                          starts at 6, closes at 6: entry 5
//	                                          has one copy that metadata name
//
//	recovery A                                recovery B
//	                                          finds the end at 4, closes at 4
//	finds 5 on one bookie, writes it back,
//	  writes 6 back with LAC 5
//	loses the close; meanwhile a reader that
//	  has not seen the close got LAC 5: it
//	  delivers an entry the ledger lacks
func (r *Recovery) copyLAC() bk.EntryID {
	if seeded(mutMovingLAC) {
		return r.back.LAC()
	}
	return r.first - 1
}

// readLength reads the length of the last entry, which no answer so far was of
// (rule 38): it may be in an earlier segment.
func (r *Recovery) readLength(last bk.EntryID) {
	r.phase = recoveryLength
	r.last.reset()
	r.ask(last, r.meta.Segments[r.meta.SegmentOf(last)], false)
}

func (r *Recovery) decideLength() {
	switch {
	case r.last.valid:
		r.length, r.known = r.last.length, true
		r.close()
	case bits.OnesCount64(r.last.answered) == r.q.Write:
		r.fail(r.readError(r.next-1, &r.last))
	}
}

func (r *Recovery) readError(e bk.EntryID, s *recoveryReadState) error {
	return fmt.Errorf("entry %d can be neither read nor ruled out: %w", e, &bk.QuorumError{
		Ledger: r.cfg.Ledger, Entry: e, Need: r.q.Write - r.q.Ack + 1, Got: s.missing,
		Errs: append([]error(nil), s.errs...),
	})
}
