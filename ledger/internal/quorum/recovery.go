package quorum

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
)

// RecoveryConfig is what a Recovery starts from.
type RecoveryConfig struct {
	Ledger   bk.LedgerID // for errors
	Quorum   bk.Quorum
	Metadata Metadata // as stored, in any state

	// WindowMax is how many entries may be in recovery at once, read ahead or
	// being written back; it bounds the payload the shell holds. The window
	// starts at one entry and doubles as entries are found. Default 64.
	WindowMax int
}

type recoveryPhase uint8

const (
	recoveryMark   recoveryPhase = iota // OPEN -> IN_RECOVERY is being written (rule 30)
	recoveryLAC                         // fencing LAC reads (31-33)
	recoveryRead                        // read on and write back (34-37)
	recoveryLength                      // the length of the last entry is not known yet (38)
	recoveryClose                       // CLOSED is being written (38)
	recoveryDone
)

// Recovery is the core of one client's recovery of a ledger. The shell gives it
// the ledger's metadata and carries out its Actions until ActFinished.
type Recovery struct {
	cfg   RecoveryConfig
	q     bk.Quorum
	phase recoveryPhase

	attempt uint32   // generation of the reads: a restart makes answers before it stale
	meta    Metadata // as stored, as far as known
	fixed   Segment  // last segment when fencing began: where entries are read (rule 34)
	base    int      // its index in meta.Segments
	writing bool     // ActUpdate is out
	want    Metadata

	lac LACRead

	// The read window: entries next to issued-1 are being read, state of e at
	// e % len(reads).
	reads  []recoveryReadState
	next   bk.EntryID
	issued bk.EntryID
	window int
	ended  bool
	first  bk.EntryID // first entry recovered
	length int64      // payload bytes up to next-1
	known  bool       // length is known

	back *Writer // write-back, in memory
	last recoveryReadState

	err         error
	acts, spare []Action
}

// NewRecovery makes the core and its first actions. It refuses a quorum or
// metadata that make no sense. For a closed ledger it is finished at once.
func NewRecovery(cfg RecoveryConfig) (*Recovery, error) {
	if err := validateQuorum(cfg.Quorum); err != nil {
		return nil, err
	}
	if err := cfg.Metadata.validate(cfg.Quorum); err != nil {
		return nil, err
	}
	if cfg.WindowMax <= 0 {
		cfg.WindowMax = 64
	}
	r := &Recovery{cfg: cfg, q: cfg.Quorum, meta: cfg.Metadata}
	r.begin()
	return r, nil
}

// begin goes on from r.meta, which were just read (rule 30).
func (r *Recovery) begin() {
	r.attempt++
	r.back = nil
	switch r.meta.State {
	case StateClosed:
		r.finish(nil)
	case StateInRecovery:
		r.readLAC()
	default:
		if seeded(mutRecoverUnmarked) {
			r.readLAC()
			return
		}
		r.phase = recoveryMark
		want := r.meta
		want.State = StateInRecovery
		r.update(want)
	}
}

func (r *Recovery) readLAC() {
	r.phase = recoveryLAC
	r.base = len(r.meta.Segments) - 1
	r.fixed = r.meta.Segments[r.base]
	r.lac.Start(r.cfg.Ledger, r.q)
	for p, b := range r.fixed.Ensemble {
		r.act(Action{Kind: ActReadLAC, Fence: !seeded(mutLACReadUnfenced), Slot: Slot{Pos: p, Gen: r.attempt}, Bookie: b, Entry: bk.InvalidEntryID})
	}
}

// LACAnswer answers ActReadLAC: with the verified entry, or with err.
func (r *Recovery) LACAnswer(s Slot, a LACAnswer, err error) {
	if r.phase != recoveryLAC || s.Gen != r.attempt {
		return
	}
	switch r.lac.Answer(s.Pos, a, err) {
	case LACCovered:
		r.startReading()
	case LACFailed:
		r.fail(r.lac.Err())
	case LACPending:
	}
}

// startReading begins behind the LAC, never below the last segment (rule 33).
func (r *Recovery) startReading() {
	r.phase = recoveryRead
	lac := max(r.lac.LAC(), r.fixed.First-1)
	if seeded(mutRecoverBelowSegment) {
		lac = r.lac.LAC()
	}
	if lac > maxEntryID {
		r.fail(fmt.Errorf("last add confirmed %d: %w", lac, bk.ErrCorrupt))
		return
	}
	r.next, r.issued, r.first = lac+1, lac+1, lac+1
	r.ended, r.window = false, 1
	r.length, r.known = 0, lac < 0
	if n, ok := r.lac.LengthOf(lac); ok {
		r.length, r.known = n, true
	}
	if r.reads == nil {
		r.reads = make([]recoveryReadState, r.cfg.WindowMax)
	}
	w, err := newWriter(WriterConfig{
		Quorum: r.q, Metadata: r.meta, Policy: ReplaceOrGoOn,
	}, lac+1)
	if err != nil {
		r.fail(err)
		return
	}
	w.inMemory = true
	for p := range w.ens {
		w.ens[p].gen = r.attempt << 20 // answers to an earlier attempt do not match
	}
	r.back = w
	r.issue()
}

// Ack reports that the write-back of entry e at slot is on disk.
func (r *Recovery) Ack(e bk.EntryID, s Slot) {
	if r.phase == recoveryRead {
		r.back.Ack(e, s)
		r.settle()
	}
}

// Fail reports that the write-back of entry e at slot failed.
func (r *Recovery) Fail(e bk.EntryID, s Slot, err error) {
	if r.phase == recoveryRead {
		r.back.Fail(e, s, err)
		r.settle()
	}
}

// Replace answers ActPick, see Writer.Replace. The change stays in memory until
// the ledger is closed (rule 37).
func (r *Recovery) Replace(picks []Pick) error {
	if r.phase != recoveryRead {
		return nil
	}
	err := r.back.Replace(picks)
	r.settle()
	return err
}

// NoBookies answers ActPick, see Writer.NoBookies. Recovery goes on as long as
// each entry can have its ack quorum.
func (r *Recovery) NoBookies(err error) {
	if r.phase == recoveryRead {
		r.back.NoBookies(err)
		r.settle()
	}
}

// settle draws the consequences of what happened to the write-back.
func (r *Recovery) settle() {
	r.acts = append(r.acts, r.back.Actions()...)
	if done, err := r.back.Finished(); done {
		r.fail(fmt.Errorf("write back entry %d: %w", r.back.Completed()+1, err))
		return
	}
	if !r.ended {
		r.issue()
		return
	}
	if r.back.Pending() == 0 || seeded(mutSkipWriteBack) {
		r.close()
	}
}

// close writes CLOSED, once the length of the last entry is known (rule 38).
func (r *Recovery) close() {
	last := r.next - 1
	if !r.known {
		r.readLength(last)
		return
	}
	r.phase = recoveryClose
	want := r.back.Metadata()
	if seeded(mutForgetSegments) {
		want = r.meta
	}
	want.State = StateClosed
	want.LastEntry = last
	want.Length = r.length
	r.update(want)
}

func (r *Recovery) update(want Metadata) {
	r.writing = true
	r.want = want
	r.act(Action{Kind: ActUpdate, Metadata: want})
}

// Updated says that the metadata of ActUpdate is now what is stored.
func (r *Recovery) Updated() {
	if !r.writing || r.phase == recoveryDone {
		return
	}
	r.writing = false
	r.meta = r.want
	if r.phase == recoveryMark {
		r.readLAC()
		return
	}
	r.finish(nil)
}

// Conflict says that ActUpdate lost its compare-and-set, or that its outcome is
// not known, and what is stored now, by a read that sees every earlier write.
func (r *Recovery) Conflict(fresh Metadata) {
	if !r.writing || r.phase == recoveryDone {
		return
	}
	r.writing = false
	if err := fresh.validate(r.q); err != nil {
		r.fail(err)
		return
	}
	if seeded(mutOverwriteConflict) {
		r.update(r.want)
		return
	}
	if fresh.State == StateClosed { // theirs is the ledger (rule 38)
		r.meta = fresh
		if seeded(mutOwnResult) && r.phase == recoveryClose {
			r.meta = r.want
		}
		r.finish(nil)
		return
	}
	if r.phase == recoveryMark {
		if !seeded(mutRecoverStale) {
			r.meta = fresh
		}
		r.begin()
		return
	}
	r.conflictClose(fresh)
}

// conflictClose tries the close again over fresh metadata that are not closed.
func (r *Recovery) conflictClose(fresh Metadata) {
	if fresh.State != StateInRecovery {
		r.fail(fmt.Errorf("ledger in recovery became %s: %w", fresh.State, bk.ErrMetadataConflict))
		return
	}
	if len(fresh.Segments) != r.base+1 || !fresh.Last().Equal(r.fixed) {
		// The bookies that were fenced and read are not those of the ledger's
		// end any more: what they proved does not hold.
		r.meta = fresh
		r.begin()
		return
	}
	want := r.want
	if !seeded(mutCloseOverSwaps) {
		want.Segments = append(append([]Segment(nil), fresh.Segments[:r.base]...), r.want.Segments[r.base:]...)
	}
	r.meta = fresh
	r.update(want)
}

// UpdateFailed says that ActUpdate could not be carried out and that what is
// stored cannot be learned either.
func (r *Recovery) UpdateFailed(err error) {
	if r.writing && r.phase != recoveryDone {
		r.writing = false
		r.fail(fmt.Errorf("write ledger metadata: %w", err))
	}
}

// Abort ends the recovery with err; the ledger stays in recovery.
func (r *Recovery) Abort(err error) {
	if r.phase != recoveryDone {
		r.finish(err)
	}
}

func (r *Recovery) fail(err error) {
	r.finish(fmt.Errorf("%w: %w", bk.ErrRecoveryFailed, err))
}

func (r *Recovery) finish(err error) {
	r.phase = recoveryDone
	r.writing = false
	r.err = err
	r.act(Action{Kind: ActFinished, Err: err})
}

// Finished reports whether the recovery is over, and how (the Err of
// ActFinished).
func (r *Recovery) Finished() (done bool, err error) { return r.phase == recoveryDone, r.err }

// Result is the closed ledger's metadata, once the recovery finished well. They
// may be those of another recovery that came first.
func (r *Recovery) Result() Metadata { return r.meta }

// Recovered is how many entries behind the LAC were found and written back.
func (r *Recovery) Recovered() int {
	if r.back == nil {
		return 0
	}
	return int(r.next - r.first)
}

// Held is the first entry whose payload may still be asked for by ActFrame or
// ActSend: the shell may drop what it holds below.
func (r *Recovery) Held() bk.EntryID {
	if r.back == nil {
		return 0
	}
	return r.back.Completed() + 1
}

// Actions hands over what is to be done since the last call, oldest first. The
// slice is the core's, valid until the next call of Actions.
func (r *Recovery) Actions() []Action {
	acts := r.acts
	r.acts, r.spare = r.spare[:0], acts
	return acts
}

func (r *Recovery) act(a Action) { r.acts = append(r.acts, a) }
