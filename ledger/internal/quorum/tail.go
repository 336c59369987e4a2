package quorum

import "github.com/loglode/loglode/bookie/bk"

// Confirmed is the last add confirmed as the handle of a reader knows it (rules
// 25-27). Make it with NewConfirmed.
type Confirmed struct {
	lac    bk.EntryID
	closed bool
}

// NewConfirmed starts from the metadata of the ledger: with the last entry of a
// closed one, and no bookie need be asked (rule 25); with nothing known of
// another.
func NewConfirmed(m Metadata) Confirmed {
	if m.State == StateClosed {
		return Confirmed{lac: m.LastEntry, closed: true}
	}
	return Confirmed{lac: bk.InvalidEntryID}
}

// LAC is the last entry that may be read.
func (c *Confirmed) LAC() bk.EntryID { return c.lac }

// Closed reports whether LAC is final.
func (c *Confirmed) Closed() bool { return c.closed }

// Raise takes a LAC learned from a bookie and reports whether it is news. It
// never lowers LAC, nor moves that of a closed ledger (rules 25, 27).
func (c *Confirmed) Raise(lac bk.EntryID) bool {
	if c.closed && !seeded(mutClosedMoves) || lac <= c.lac && !seeded(mutLACMovesBack) {
		return false
	}
	c.lac = lac
	return true
}

// Observe takes metadata that were read or watched. A close fixes LAC, even
// below a hint that was too high; it happens once. It reports whether anything
// changed.
func (c *Confirmed) Observe(m Metadata) bool {
	if c.closed || m.State != StateClosed {
		return false
	}
	c.lac, c.closed = m.LastEntry, true
	return true
}

// Readable reports whether entry e may be read by a normal read (rule 28).
func (c *Confirmed) Readable(e bk.EntryID) bool {
	return e >= 0 && (e <= c.lac || seeded(mutReadPastLAC) && e == c.lac+1)
}

// PollVerdict is what a Poll knows after an answer.
type PollVerdict uint8

// The verdicts of a Poll.
const (
	PollPending PollVerdict = iota // another bookie was asked and may still answer
	PollAsk                        // ask the next bookie: Next names it
	PollEntry                      // this answer carries the wanted entry
	PollLAC                        // the LAC passed the wanted entry: read it normally
	PollEmpty                      // no news, by enough bookies to believe it
	PollFailed                     // too few bookies answered, see Err
)

// PollAnswer is one long-poll answer that was EOK.
type PollAnswer struct {
	Entry  bk.EntryID // id of the verified entry it carries, InvalidEntryID without one
	MaxLAC bk.EntryID // the bookie's LAC: a hint (rule 27)
}

// Poll decides one long poll for entry Want over the whole ensemble, one bookie
// at a time, or more with speculation (rule 29). Start makes it ready.
type Poll struct {
	q       bk.Quorum
	want    bk.EntryID
	first   int
	asked   int
	done    []bool
	n       int
	empty   int
	tell    telling
	verdict PollVerdict
}

// Start begins a poll for entry want, asking position first first. The
// request's previousLAC is want - 1.
func (p *Poll) Start(q bk.Quorum, want bk.EntryID, first int) {
	done := p.done
	if cap(done) < q.Ensemble {
		done = make([]bool, q.Ensemble)
	}
	done = done[:q.Ensemble]
	clear(done)
	*p = Poll{q: q, want: want, first: int(uint(first) % uint(q.Ensemble)), done: done}
}

// Next is the next position to ask: at the start, after PollAsk, and to
// speculate while an answer is outstanding.
func (p *Poll) Next() (pos int, ok bool) {
	if p.over() || p.asked == p.q.Ensemble {
		return 0, false
	}
	pos = (p.first + p.asked) % p.q.Ensemble
	p.asked++
	return pos, true
}

func (p *Poll) over() bool { return p.verdict >= PollEntry }

// Answer takes what position pos said. "No news" is believed after E - Qa + 1
// empty answers: any LAC that moved is known to one of them.
func (p *Poll) Answer(pos int, a PollAnswer, err error) PollVerdict {
	if p.over() || pos < 0 || pos >= p.q.Ensemble || p.done[pos] || (pos-p.first+p.q.Ensemble)%p.q.Ensemble >= p.asked {
		return PollPending
	}
	p.done[pos] = true
	p.n++
	p.tell.add(err)
	switch {
	case err == nil && a.Entry == p.want:
		p.verdict = PollEntry
	case err == nil && a.MaxLAC >= p.want:
		p.verdict = PollLAC
	default:
		p.verdict = p.noNews(Classify(err) != Unknown || seeded(mutPollErrorsAreEmpty))
	}
	return p.verdict
}

func (p *Poll) noNews(heard bool) PollVerdict {
	if heard {
		p.empty++
	}
	switch {
	case p.empty >= p.q.Ensemble-p.q.Ack+1, seeded(mutPollOneEmpty) && p.empty > 0:
		return PollEmpty
	case p.n == p.q.Ensemble:
		return PollFailed
	case p.asked < p.q.Ensemble:
		return PollAsk
	default:
		return PollPending
	}
}

// Err is the most telling error so far.
func (p *Poll) Err() error { return p.tell.err() }
