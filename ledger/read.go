package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// Read gives one entry. Its payload is the caller's. It fails with
// bk.ErrReadPastLAC, without asking any bookie, when e is past the LAC; with
// bk.ErrNoSuchEntry or bk.ErrNoSuchLedger only when every replica said so.
func (r *Reader) Read(ctx context.Context, e bk.EntryID) (bk.Entry, error) {
	if err := r.readable(e); err != nil {
		return bk.Entry{}, err
	}
	return r.read(ctx, e)
}

// ReadUnconfirmed gives one entry whatever the LAC says of it (rule 28). One
// that is not confirmed may vanish: a recovery drops it unless it finds it at
// enough bookies, and others never see it then. It may also be there without its
// writer having been told so. Past the end of a closed ledger it fails with
// bk.ErrReadPastLAC; with bk.ErrNoSuchEntry when no replica has the entry now.
func (r *Reader) ReadUnconfirmed(ctx context.Context, e bk.EntryID) (bk.Entry, error) {
	if err := r.conceivable(e); err != nil {
		return bk.Entry{}, err
	}
	ent, err := r.read(ctx, e)
	if err == nil {
		r.raise(ent.LAC, 0) // this much is confirmed
	}
	return ent, err
}

func (r *Reader) read(ctx context.Context, e bk.EntryID) (bk.Entry, error) {
	f := newFetch(r, newInbox())
	f.start(e, e, true)
	if err := f.finish(ctx); err != nil {
		return bk.Entry{}, fmt.Errorf("read ledger %d entry %d: %w", r.id, e, err)
	}
	if f.err != nil {
		return bk.Entry{}, f.err
	}
	r.c.metrics.entriesRead.Inc()
	return f.entries[0], nil
}

// readable refuses an entry that a normal read may not touch (rule 28).
func (r *Reader) readable(e bk.EntryID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lac.Readable(e) {
		return pastEnd(r.id, e, r.lac.LAC())
	}
	return nil
}

// conceivable refuses an entry that is not in the ledger whatever a bookie says.
func (r *Reader) conceivable(e bk.EntryID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e < 0 || r.lac.Closed() && !r.lac.Readable(e) {
		return pastEnd(r.id, e, r.lac.LAC())
	}
	return nil
}

// segmentOf gives the ensemble of entry e and the last entry it holds.
func (r *Reader) segmentOf(e bk.EntryID) (ensemble []bk.BookieID, last bk.EntryID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.core.SegmentOf(e)
	last = bk.EntryID(1<<63 - 1)
	if i+1 < len(r.core.Segments) {
		last = r.core.Segments[i+1].First - 1
	}
	return r.core.Segments[i].Ensemble, last
}

// fetch reads a run of entries, from the replicas in turn as the core decides
// (rules 40-46). It belongs to the reading goroutine.
type fetch struct {
	r        *Reader
	in       *inbox
	ensemble []bk.BookieID
	bookies  []*conn.Bookie // of ensemble
	core     quorum.Read
	order    []int
	asked    int           // position asked last
	tail     time.Duration // how long the best replica takes for 99 of 100 answers; 0 = unknown
	wait     hedge
	next     bk.EntryID // first entry not read yet
	last     bk.EntryID
	until    bk.EntryID // last one of the run in the segment of next
	single   bool       // one entry by a plain read
	rotate   int        // which replica to prefer
	askedAt  time.Time
	attempt  int // answers to earlier attempts are void

	entries []bk.Entry
	bodies  []*conn.Call // what entries point into
	err     error
	done    bool
	calls   []*conn.Call
}

func newFetch(r *Reader, in *inbox) *fetch { return &fetch{r: r, in: in} }

// start begins to read first to last.
func (f *fetch) start(first, last bk.EntryID, single bool) {
	f.free()
	f.next, f.last, f.single = first, last, single
	f.err, f.done = nil, false
	f.begin()
}

// free gives back the memory of what was read.
func (f *fetch) free() {
	for i, c := range f.bodies {
		c.Free()
		f.bodies[i] = nil
	}
	f.bodies, f.entries = f.bodies[:0], f.entries[:0]
}

// begin asks for what is still missing of the run.
func (f *fetch) begin() {
	f.attempt++
	ensemble, until := f.r.segmentOf(f.next)
	f.meet(ensemble)
	f.until = min(until, f.last)
	f.tail = f.arrange()
	f.core.Start(f.r.q, f.next, f.order)
	f.r.c.hedges.earn()
	f.ask()
}

// ask sends the read to the next replica; false if there is none left.
func (f *fetch) ask() bool {
	pos, ok := f.core.Next()
	if !ok {
		return false
	}
	f.asked = pos
	f.send(pos, !f.single)
	return true
}

// send asks the bookie at a position, in a batch if that may be and the bookie
// knows how.
func (f *fetch) send(pos int, batch bool) {
	b := f.bookies[pos]
	f.askedAt = time.Now()
	f.wait.arm(f.tail, f.r.c.opts.SpeculativeReadTimeout)
	call := &conn.Call{
		Op: conn.OpRead, Ledger: f.r.id, Entry: f.next, Timeout: f.r.c.opts.ReadTimeout,
		Tag: f.attempt<<genShift | pos, Done: f.in.done, Owner: f,
	}
	if batch && b.BatchReads() {
		call.Op = conn.OpBatchRead
		call.Count = int32(f.until - f.next + 1)
		call.MaxBytes = batchBytesMax
	}
	b.Start(call)
}

// answer takes the answer of one replica. Its call may be an old one.
func (f *fetch) answer(c *conn.Call) {
	pos := c.Tag & (1<<genShift - 1)
	if f.done || c.Tag>>genShift != f.attempt {
		c.Free()
		return
	}
	had := len(f.entries)
	err := c.Failure()
	if err != nil && c.Op == conn.OpBatchRead && f.noBatch(c) {
		f.send(pos, false)
		c.Free()
		return
	}
	if err == nil {
		if err = f.verify(c); err != nil {
			f.entries = f.entries[:had]
			err = &bk.BookieError{Bookie: c.Bookie.ID(), Err: err}
		}
	}
	if quorum.Classify(err) == quorum.Unknown && !errors.Is(err, bk.ErrUnauthorized) {
		c.Bookie.NoteBadCopy()
	}
	switch f.core.Answer(pos, err) {
	case quorum.ReadDone:
		f.bodies = append(f.bodies, c)
		f.next += bk.EntryID(len(f.entries) - had)
		if f.next > f.last {
			f.done = true
			return
		}
		f.begin() // the batch was cut short: go on behind it (rule 45)
		return
	case quorum.ReadAsk:
		f.r.c.metrics.readFailovers.Inc()
		f.ask()
	case quorum.ReadFailed:
		f.done, f.err = true, f.failure()
	case quorum.ReadPending:
	}
	c.Free()
}

// noBatch reports whether a batch read that failed is to be tried as a plain one
// at the same bookie (rule 45): it closes the connection on what it does not
// know, or says so; or the first entry and what a batch adds to it do not fit a
// frame.
func (f *fetch) noBatch(c *conn.Call) bool {
	if c.Err != nil {
		return errors.Is(c.Err, bk.ErrBookieUnavailable) && !c.Bookie.BatchReads()
	}
	if c.Status != bk.StatusBadRequest && c.Status != bk.StatusBadVersion {
		return false
	}
	c.Bookie.NoteNoBatch()
	return true
}

// failure is the most telling error of the replicas, with the facts.
func (f *fetch) failure() error {
	err := &bk.QuorumError{Ledger: f.r.id, Entry: f.next, Need: 1, Got: 0, Errs: []error{f.core.Err()}}
	return fmt.Errorf("read: %w", err)
}

// verify checks every entry of an answer before any is accepted (rules 42, 45)
// and appends them.
func (f *fetch) verify(c *conn.Call) error {
	if c.Op == conn.OpRead {
		ent, err := f.r.digester.Verify(c.Body, f.r.id, c.Entry)
		if err == nil {
			f.entries = append(f.entries, ent)
		}
		return err
	}
	return f.verifyBatch(c)
}

// finish waits until the run is read or has failed.
func (f *fetch) finish(ctx context.Context) error {
	for {
		for !f.done {
			if err := f.proceed(ctx); err != nil {
				return err
			}
		}
		if f.err == nil || !f.moved(ctx) {
			return ctx.Err()
		}
		f.err, f.done = nil, false
		f.begin()
	}
}

// moved looks whether the entry that could not be read is at other bookies than
// this handle knew of: the ensemble was changed, or the ledger repaired, and the
// watch has not told yet, or never will. Then nothing that the bookies asked so
// far said counts.
func (f *fetch) moved(ctx context.Context) bool {
	f.r.refreshOlder(ctx, 0)
	ensemble, _ := f.r.segmentOf(f.next)
	return !slices.Equal(ensemble, f.ensemble)
}

// proceed handles one batch of answers, or asks one more replica when those
// asked are silent for too long (rule 41).
func (f *fetch) proceed(ctx context.Context) error {
	// Answers that are here already come first: who has not looked for a while
	// must not take that for silence.
	select {
	case <-f.in.wake:
		f.take()
		return nil
	default:
	}
	timer := f.in.after(time.Until(f.wait.at))
	defer f.in.rest()
	select {
	case <-f.in.wake:
		f.take()
	case <-timer:
		select {
		case <-f.in.wake:
			f.take()
		default:
			f.speculate()
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.r.ctx.Done():
		return bk.ErrClosed
	}
	return nil
}

func (f *fetch) take() {
	f.calls = f.in.take(f.calls)
	for _, c := range f.calls {
		c.Owner.(*fetch).answer(c)
	}
}

// speculate asks the next replica too, and remembers the silent one.
func (f *fetch) speculate() {
	c := f.r.c
	if !f.core.More() {
		f.wait.at = time.Now().Add(c.opts.ReadTimeout) // all are asked: their timeouts decide
		return
	}
	if !f.wait.due(f.askedAt, c.opts.SpeculativeReadTimeout, &c.hedges) {
		return
	}
	silent := f.asked
	f.bookies[silent].NoteSlow()
	f.ask()
	c.metrics.speculativeReads.Inc()
	if ev := c.opts.Events.SpeculativeRead; ev != nil {
		ev(f.r.id, f.next, f.ensemble[silent])
	}
}
