package ledger

import (
	"context"
	"fmt"
	"iter"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger/internal/conn"
)

// Sizes of the reads of one Entries iteration.
const (
	batchBytesMax   = 512 << 10 // of one answer
	batchCountFirst = 64        // entries asked for before their size is known
	batchCountMax   = 4096
	singlesMax      = 256 // reads in flight where each fetches one entry
)

// Entries gives the entries first to last, both included, in order. It fails
// with bk.ErrReadPastLAC when last is past the LAC; a range with first past
// last is empty. The payload of an entry is valid until the next step of the
// iteration.
func (r *Reader) Entries(ctx context.Context, first, last bk.EntryID) iter.Seq2[bk.Entry, error] {
	return r.entries(ctx, first, last, r.readable)
}

// EntriesUnconfirmed gives the entries first to last, both included, in order,
// confirmed or not, see ReadUnconfirmed. It fails with bk.ErrNoSuchEntry at the
// first one that none of its bookies has.
func (r *Reader) EntriesUnconfirmed(ctx context.Context, first, last bk.EntryID) iter.Seq2[bk.Entry, error] {
	return r.entries(ctx, first, last, r.conceivable)
}

func (r *Reader) entries(
	ctx context.Context, first, last bk.EntryID, may func(bk.EntryID) error,
) iter.Seq2[bk.Entry, error] {
	return func(yield func(bk.Entry, error) bool) {
		if first > last {
			return
		}
		for _, e := range [2]bk.EntryID{first, last} {
			if err := may(e); err != nil {
				yield(bk.Entry{}, err)
				return
			}
		}
		ra := &readAhead{r: r, in: newInbox(), next: first, last: last, perBatch: batchCountFirst}
		defer ra.end()
		for f := ra.head(); f != nil; f = ra.head() {
			if err := f.finish(ctx); err != nil {
				yield(bk.Entry{}, fmt.Errorf("read ledger %d entry %d: %w", r.id, f.next, err))
				return
			}
			r.c.metrics.entriesRead.Add(float64(len(f.entries)))
			for i := range f.entries {
				if !yield(f.entries[i], nil) {
					return
				}
			}
			if f.err != nil {
				yield(bk.Entry{}, f.err)
				return
			}
			ra.pop()
		}
	}
}

// readAhead keeps several fetches of consecutive runs in flight.
type readAhead struct {
	r        *Reader
	in       *inbox
	flight   []*fetch // oldest first
	spare    []*fetch
	next     bk.EntryID // first entry not asked for
	last     bk.EntryID
	runs     int   // started so far
	perBatch int   // entries that fit into a batch, as far as known
	largest  int64 // entry of the last run, where each is fetched by itself
}

// head fills the window and gives the oldest fetch; nil at the end.
func (ra *readAhead) head() *fetch {
	batches := ra.batches()
	window := int(max(1, ra.r.c.opts.ReadAheadBytes/batchBytesMax))
	if !batches {
		window = int(min(max(1, ra.r.c.opts.ReadAheadBytes/max(1, ra.largest)), singlesMax))
	}
	for ra.next <= ra.last && len(ra.flight) < window {
		_, end := ra.r.segmentOf(ra.next)
		to := min(ra.last, end, ra.next+bk.EntryID(ra.perBatch-1))
		if !batches {
			to = ra.next
		}
		f := ra.fresh()
		if batches {
			f.rotate = ra.runs % ra.r.q.Write
		}
		f.start(ra.next, to, !batches)
		ra.flight = append(ra.flight, f)
		ra.next = to + 1
		ra.runs++
		if ra.runs == 1 {
			break // its answer tells how many entries fit
		}
	}
	if len(ra.flight) == 0 {
		return nil
	}
	return ra.flight[0]
}

// batches reports whether to read in batches: every bookie of the ensemble has
// every entry, and one of them at least knows how (rule 45).
func (ra *readAhead) batches() bool {
	if ra.r.q.Ensemble != ra.r.q.Write {
		return false
	}
	ensemble, _ := ra.r.segmentOf(min(ra.next, ra.last))
	for _, b := range ensemble {
		if ra.r.c.pool.Bookie(b).BatchReads() {
			return true
		}
	}
	return false
}

func (ra *readAhead) fresh() *fetch {
	if n := len(ra.spare); n > 0 {
		f := ra.spare[n-1]
		ra.spare = ra.spare[:n-1]
		return f
	}
	return newFetch(ra.r, ra.in)
}

// pop takes the head off, whose entries are all used, and learns from it.
func (ra *readAhead) pop() {
	f := ra.flight[0]
	ra.largest = 0
	for i := range f.entries {
		ra.largest = max(ra.largest, int64(len(f.entries[i].Payload)))
	}
	if n := len(f.entries); n > 0 && !f.single {
		bytes := 0
		for i := range f.entries {
			bytes += len(f.entries[i].Payload) + ra.r.digester.Overhead() + wire.BatchEntryOverhead
		}
		fit := (batchBytesMax - wire.BatchAnswerOverhead) * n / bytes
		ra.perBatch = min(max(fit, 1), batchCountMax)
	}
	f.free()
	ra.flight = ra.flight[1:]
	ra.spare = append(ra.spare, f)
}

// end lets go of what is in flight: late answers are dropped.
func (ra *readAhead) end() {
	for _, f := range ra.flight {
		f.done = true
		f.free()
	}
}

// verifyBatch takes the entries of a batch answer, which must be consecutive
// from the one asked for.
func (f *fetch) verifyBatch(c *conn.Call) error {
	for rest, e := c.Body, c.Entry; len(rest) > 0; e++ {
		if e > f.until {
			break // more than was asked for
		}
		body, tail, err := wire.NextBatchEntry(rest)
		if err != nil {
			return fmt.Errorf("batch from entry %d: %w: %w", c.Entry, bk.ErrCorrupt, err)
		}
		ent, err := f.r.digester.Verify(body, f.r.id, e)
		if err != nil {
			return err
		}
		f.entries = append(f.entries, ent)
		rest = tail
	}
	if len(c.Body) == 0 {
		return fmt.Errorf("batch from entry %d is empty: %w", c.Entry, bk.ErrCorrupt)
	}
	return nil
}
