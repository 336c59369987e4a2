package quorum

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/loglode/loglode/bookie/bk"
)

// Policy says when a failed bookie is replaced and what happens when none can
// be had.
type Policy uint8

// The policies.
const (
	// ReplaceOrFail replaces a failed bookie at once, and ends the ledger with
	// bk.ErrNotEnoughBookies when there is no other (rules 10, 15).
	ReplaceOrFail Policy = iota

	// ReplaceOrGoOn replaces a failed bookie at once; when there is no other it
	// goes on with the ensemble as it is, as long as no entry has lost more
	// than Qw - Qa copies. Entries of that time have fewer than Qw copies. A
	// cluster of Qw bookies so survives the loss of Qw - Qa of them.
	ReplaceOrGoOn

	// ReplaceLate replaces bookies only when an entry lost more than Qw - Qa
	// copies or a bookie is read-only (rule 20).
	ReplaceLate
)

// WriterConfig is what a Writer starts from.
type WriterConfig struct {
	Quorum       bk.Quorum
	Metadata     Metadata // as stored; StateOpen, no entry written yet
	Policy       Policy
	ChangesMax   int  // ensemble changes before the writer ends; 0 = no limit
	DeferredSync bool // rule 12: only forces move LAC
}

type phase uint8

const (
	phaseOpen    phase = iota
	phaseClosing       // pending adds have failed, the close is to be written
	phaseDone
)

// pending is one add that is not complete.
type pending struct {
	acks  uint64 // bit k: copy k is on disk at the current bookie of its position
	fails uint64 // bit k: copy k failed there
	bytes int64  // of payload
	first int    // position of copy 0, so that an answer costs no division
}

// position is one place of the current ensemble.
type position struct {
	bookie    bk.BookieID
	gen       uint32
	failed    bool // to be replaced
	tolerated bool // failed, but the writer goes on with it for now

	acked bk.EntryID // deferred sync: behind the last entry acknowledged here
}

type updateKind uint8

const (
	updateNone updateKind = iota
	updateChange
	updateClose
)

// Writer is the core of a ledger's one writer.
type Writer struct {
	q        bk.Quorum
	policy   Policy
	max      int // of changes; 0 = no limit
	changes  int
	deferred bool
	inMemory bool // rule 37: ensemble changes are not written, see Recovery

	meta Metadata // as stored, as far as known; in memory ahead of it when inMemory
	ens  []position
	ring []pending // entry e is at e & (len(ring)-1)
	head bk.EntryID
	next bk.EntryID
	lac  bk.EntryID // head-1 but for deferred sync

	nextFirst int // position of copy 0 of entry next

	length     int64 // payload bytes of entries below next
	headLength int64 // below head
	lacLength  int64 // up to lac

	phase    phase
	err      error // why Push refuses
	finished error
	blocked  bool // completions wait for an ensemble change

	picking  bool       // ActPick is out
	updating updateKind // ActUpdate is out
	want     Metadata   // what it asks for

	// unsettled: an ActUpdate came back by Conflict and what is stored did not
	// move, so that write may still be under way and be applied later.
	unsettled bool
	doubt     bool // see Doubt; the metadata have not been written since

	failing int // positions with failed set
	avoid   []bk.BookieID
	ask     []int // positions ActPick asks for
	changed []int // scratch of adopt

	forces  []force
	forceID uint32

	acts, spare []Action
}

// NewWriter makes the core of a ledger that was just created. It refuses a
// quorum or metadata that make no sense.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	if cfg.Metadata.State != StateOpen {
		return nil, fmt.Errorf("write a ledger that is %s: %w", cfg.Metadata.State, bk.ErrLedgerClosed)
	}
	return newWriter(cfg, 0)
}

// newWriter starts a writer whose next entry is first.
func newWriter(cfg WriterConfig, first bk.EntryID) (*Writer, error) {
	if err := validateQuorum(cfg.Quorum); err != nil {
		return nil, err
	}
	if err := cfg.Metadata.validate(cfg.Quorum); err != nil {
		return nil, err
	}
	w := &Writer{
		q: cfg.Quorum, policy: cfg.Policy, max: cfg.ChangesMax, deferred: cfg.DeferredSync,
		meta: cfg.Metadata, ens: make([]position, cfg.Quorum.Ensemble), ring: make([]pending, 16),
		head: first, next: first, lac: first - 1, nextFirst: Position(cfg.Quorum, first, 0),
	}
	for p, b := range cfg.Metadata.Last().Ensemble {
		w.ens[p].bookie = b
	}
	return w, nil
}

// Add describes one pushed entry: how to frame it. It goes to the Qw positions
// of its write set: Slot(Position(q, Entry, k)) for k = 0 to Qw-1.
type Add struct {
	Entry  bk.EntryID
	LAC    bk.EntryID // to put in the entry (rule 5)
	Length int64      // to put in the entry: payload bytes up to and with it
	First  int        // position of copy 0; copy k is at (First + k) mod E
}

// Push takes the next entry, of payloadBytes bytes. The caller sends it to all
// of its write set at once (rule 6) and answers for each copy with Ack or Fail.
// It refuses with the reason when the writer has been stopped or closed.
func (w *Writer) Push(payloadBytes int) (Add, error) {
	if w.phase != phaseOpen {
		return Add{}, w.err
	}
	e := w.next
	if int(e-w.head) == len(w.ring) {
		w.grow()
	}
	w.next++
	w.length += int64(payloadBytes)
	first := w.nextFirst
	if w.nextFirst++; w.nextFirst == w.q.Ensemble {
		w.nextFirst = 0
	}
	w.ring[int(e)&(len(w.ring)-1)] = pending{bytes: int64(payloadBytes), first: first}
	add := Add{Entry: e, LAC: w.lac, Length: w.length, First: first}
	if seeded(mutLACAhead) {
		add.LAC = e - 1
	}
	if w.failing > 0 {
		w.startChange() // rule 8: a failure that came late is acted on now
	}
	return add, nil
}

func (w *Writer) grow() {
	ring := make([]pending, 2*len(w.ring))
	for e := w.head; e < w.next; e++ {
		ring[int(e)&(len(ring)-1)] = w.ring[int(e)&(len(w.ring)-1)]
	}
	w.ring = ring
}

func (w *Writer) at(e bk.EntryID) *pending { return &w.ring[int(e)&(len(w.ring)-1)] }

// match gives the copy number of entry e at slot, and whether slot is current.
func (w *Writer) match(e bk.EntryID, s Slot) (k int, ok bool) {
	if s.Pos < 0 || s.Pos >= len(w.ens) || e < 0 || e >= w.next {
		return 0, false
	}
	if w.ens[s.Pos].gen != s.Gen && !seeded(mutAckAnyGeneration) {
		return 0, false
	}
	if e < w.head {
		return CopyAt(w.q, e, s.Pos)
	}
	k = s.Pos - w.at(e).first
	if k < 0 {
		k += w.q.Ensemble
	}
	return k, k < w.q.Write
}

// Ack reports that the copy of entry e sent for slot is on disk. Completions
// that follow show in LAC, or Completed for deferred sync.
func (w *Writer) Ack(e bk.EntryID, s Slot) {
	if w.deferred {
		w.noteAck(e, s)
	}
	if e < w.head || w.phase != phaseOpen {
		return
	}
	k, ok := w.match(e, s)
	if !ok {
		return
	}
	p := w.at(e)
	if seeded(mutDoubleAckCounts) && p.acks&(1<<uint(k)) != 0 {
		p.acks |= p.acks + 1
	}
	p.acks |= 1 << uint(k)
	if seeded(mutCompleteOutOfOrder) && w.hasQuorum(e) && !w.blocked {
		for w.head <= e {
			w.complete()
		}
	}
	if e == w.head {
		w.advance()
	}
}

// advance completes the head of the queue while it has its ack quorum (rule 7).
func (w *Writer) advance() {
	if w.blocked && !seeded(mutCompleteDuringChange) {
		return
	}
	for w.head < w.next && w.hasQuorum(w.head) {
		w.complete()
	}
}

// hasQuorum reports whether entry e has its ack quorum.
func (w *Writer) hasQuorum(e bk.EntryID) bool {
	need := w.q.Ack
	if seeded(mutAckQuorumLess) {
		need--
	}
	return bits.OnesCount64(w.at(e).acks) >= need
}

func (w *Writer) complete() {
	w.headLength += w.at(w.head).bytes
	w.head++
	if !w.deferred || seeded(mutDeferredAcksCount) {
		w.lac = w.head - 1
		w.lacLength = w.headLength
	}
	if !w.blocked {
		w.avoid = w.avoid[:0]
	}
}

// Fail reports that the copy of entry e sent for slot failed, for whatever
// reason but an acknowledgement: an answer other than OK, a timeout, a lost
// connection. A failure of a bookie that has been replaced is ignored.
func (w *Writer) Fail(e bk.EntryID, s Slot, err error) {
	if w.phase != phaseOpen || err == nil {
		return
	}
	k, ok := w.match(e, s)
	if !ok {
		return
	}
	if seeded(mutFailureCounts) && errors.Is(err, bk.ErrTimeout) {
		w.Ack(e, s)
		return
	}
	if seeded(mutIgnoreLateFailure) && e < w.head {
		return
	}
	switch {
	case errors.Is(err, bk.ErrFenced) && !seeded(mutFencedIsFailure): // rule 9
		w.stop(err)
		return
	case errors.Is(err, bk.ErrUnauthorized) && e >= w.head: // rule 9
		w.stop(err)
		return
	case w.deferred && !seeded(mutDeferredChanges): // rule 12: no ensemble change can be sound
		w.stop(err)
		return
	}
	var lost int
	if e >= w.head {
		p := w.at(e)
		p.fails |= 1 << uint(k)
		lost = bits.OnesCount64(p.fails &^ p.acks)
	}
	w.failPosition(s.Pos, lost, errors.Is(err, bk.ErrReadOnly))
}

// failPosition decides what one failure at position p means (rules 10, 20).
// lost is the number of copies the entry lost so far.
func (w *Writer) failPosition(p, lost int, readOnly bool) {
	pos := &w.ens[p]
	if pos.failed {
		return
	}
	if w.policy == ReplaceLate {
		pos.tolerated = true
	}
	if pos.tolerated {
		if lost <= w.q.Write-w.q.Ack && !readOnly || seeded(mutNeverReplaceLate) {
			return
		}
		w.untolerate()
	} else {
		w.markFailed(p)
	}
	if w.head < w.next { // with an empty queue the next Push starts the change (rule 8)
		w.startChange()
	}
}

func (w *Writer) markFailed(p int) {
	w.ens[p].failed = true
	w.ens[p].tolerated = false
	w.failing++
	w.avoid = append(w.avoid, w.ens[p].bookie)
}

func (w *Writer) untolerate() {
	for p := range w.ens {
		if w.ens[p].tolerated {
			w.markFailed(p)
		}
	}
}

// LAC is the last add confirmed: every entry up to it has its ack quorum.
func (w *Writer) LAC() bk.EntryID { return w.lac }

// Completed is the last entry to report to the application as added, in order.
// It is LAC but for a deferred-sync ledger, where it runs ahead.
func (w *Writer) Completed() bk.EntryID { return w.head - 1 }

// LastPushed is the last entry given out by Push that has not failed.
func (w *Writer) LastPushed() bk.EntryID { return w.next - 1 }

// Length is the payload bytes of entries 0 to LastPushed.
func (w *Writer) Length() int64 { return w.length }

// ConfirmedLength is the payload bytes of entries 0 to LAC.
func (w *Writer) ConfirmedLength() int64 { return w.lacLength }

// PendingBytes is the payload bytes of adds that are not complete.
func (w *Writer) PendingBytes() int64 { return w.length - w.headLength }

// Pending is the number of adds that are not complete.
func (w *Writer) Pending() int { return int(w.next - w.head) }

// Err is why Push refuses: nil while the writer takes entries.
func (w *Writer) Err() error { return w.err }

// Finished reports whether the writer is done for good, and how (the Err of
// ActFinished).
func (w *Writer) Finished() (done bool, err error) { return w.phase == phaseDone, w.finished }

// Slot is the current stay at position pos of the ensemble.
func (w *Writer) Slot(pos int) Slot { return Slot{Pos: pos, Gen: w.ens[pos].gen} }

// Bookie is the current bookie at position pos of the ensemble.
func (w *Writer) Bookie(pos int) bk.BookieID { return w.ens[pos].bookie }

// Ensemble is a copy of the current ensemble, by position.
func (w *Writer) Ensemble() []bk.BookieID {
	ens := make([]bk.BookieID, len(w.ens))
	for p := range w.ens {
		ens[p] = w.ens[p].bookie
	}
	return ens
}

// Metadata is the ledger's metadata as this writer last knew it stored.
func (w *Writer) Metadata() Metadata { return w.meta }

// Actions hands over what is to be done since the last call, oldest first. The
// slice is the core's, valid until the next call of Actions: events may come
// while it is walked.
func (w *Writer) Actions() []Action {
	acts := w.acts
	w.acts, w.spare = w.spare[:0], acts
	return acts
}

func (w *Writer) act(a Action) { w.acts = append(w.acts, a) }
