package bookie

import (
	"errors"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/index"
	"github.com/loglode/loglode/bookie/internal/journal"
	"github.com/loglode/loglode/bookie/internal/ledgerstate"
	"github.com/loglode/loglode/bookie/internal/writecache"
)

// Flush moves everything that the write caches hold into entry logs and
// indexes, durably, and lets go of the journal files that are not needed any
// more.
func (b *Bookie) Flush() error {
	if !b.enter() {
		return errClosed
	}
	defer b.leave()
	var errs []error
	for _, s := range b.shards {
		errs = append(errs, s.flushNow())
	}
	return errors.Join(errs...)
}

// flushNow is a flush that somebody waits for.
func (s *shard) flushNow() error {
	s.hurry.Add(1)
	defer s.hurry.Add(-1)
	return s.flush(true)
}

// flushPending reports whether a flush failed that has to be repeated.
func (s *shard) flushPending() bool {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	return s.retry != nil
}

// flushing is what one flush moves. After a failure the next one tries the
// same again.
type flushing struct {
	next    []index.Mark
	dirty   []*ledgerstate.State
	dropped []*ledgerstate.State // ledgers that end with this flush
	arena   *writecache.Arena
	applied bool // all is in the index, though maybe not durably
}

// begin takes what there is to flush, in this order:
//
//   - The mark first: a record below it was queued before, and so is in this
//     arena or an earlier one, and its state is among the changed ones.
//   - The changed states before the arena: an entry that misses this arena
//     marks its state again.
//   - Ledgers to drop after the changed states: one that did not change since
//     the flush before has no record in the journal at or above the mark. One
//     whose records were replayed without the one that has its key would keep
//     the bookie from starting.
func (s *shard) begin() *flushing {
	f := &flushing{next: s.tails()}
	f.dirty = s.table.TakeDirty()
	for _, l := range s.doomed {
		st, ok, err := s.table.Drop(l)
		if err != nil {
			s.b.logError("drop ledger", l, err)
			continue
		}
		if ok {
			f.dropped = append(f.dropped, st)
		}
	}
	s.doomed = nil
	f.arena = s.cache.Freeze()
	return f
}

// flush is a checkpoint of one ledger directory. With always, it is done even
// if all it moves is the mark.
func (s *shard) flush(always bool) error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	start := time.Now()
	f := s.retry
	if f == nil {
		f = s.begin()
	}
	if f.arena.Len() == 0 && len(f.dirty) == 0 && len(f.dropped) == 0 && !always {
		s.cache.Drop()
		return nil
	}
	info := FlushInfo{Dir: s.id, Entries: f.arena.Len(), Bytes: int64(f.arena.Bytes())}
	extents, err := s.store(f)
	info.Extents, info.Duration, info.Err = extents, time.Since(start), err
	if err != nil {
		s.retry = f
	} else {
		s.retry, s.committed = nil, s.attempt
		s.table.Settle(f.dirty)
		s.table.Settle(f.dropped)
		for _, st := range f.dropped {
			s.index.Forget(st.ID)
		}
		s.ended += len(f.dropped)
		s.cache.Drop()
		s.lastFlush = time.Now()
		s.setMarks(f.next)
		err = s.b.recycle()
	}
	s.b.metrics.flushed(info)
	if s.b.o.Events.Flushed != nil {
		s.b.o.Events.Flushed(info)
	}
	return err
}

// tails gives the mark of a flush that begins now. While journals are being
// replayed, it is the mark that there is.
func (s *shard) tails() []index.Mark {
	s.marksMu.Lock()
	defer s.marksMu.Unlock()
	marks := append([]index.Mark{}, s.marks...)
	if s.b.replaying() {
		return marks
	}
	for i, j := range s.b.journals {
		// Synced first: it may not be above From, whatever happens in between.
		marks[i].Synced = uint64(j.Synced())
		marks[i].From = uint64(j.Tail())
	}
	return marks
}

func (s *shard) setMarks(marks []index.Mark) {
	s.marksMu.Lock()
	defer s.marksMu.Unlock()
	s.marks = marks
}

// recycle lets go of the journal files that no ledger directory needs.
func (b *Bookie) recycle() error {
	if b.replaying() {
		return nil
	}
	var errs []error
	for i, j := range b.journals {
		var low journal.LSN
		for k, s := range b.shards {
			s.marksMu.Lock()
			from := journal.LSN(s.marks[i].From)
			s.marksMu.Unlock()
			if k == 0 || from < low {
				low = from
			}
		}
		errs = append(errs, j.Recycle(low))
	}
	return errors.Join(errs...)
}

// store makes an arena, changed states and a mark durable: first the entry
// log, then the index with all that names it.
func (s *shard) store(f *flushing) (extents int, err error) {
	if f.applied {
		return 0, s.index.Flush()
	}
	if err := s.checkRoom(int64(f.arena.Bytes()), s.reserveLack()); err != nil {
		return 0, err
	}
	s.attempt++
	batch := s.index.NewBatch()
	if err := s.fill(f, batch); err != nil {
		// No index names what was written: it must not fill the disk.
		return 0, errors.Join(err, batch.Discard(), s.logs.Discard())
	}
	err = batch.Commit()
	f.applied = errors.Is(err, index.ErrUnflushed)
	if err != nil && !f.applied {
		err = errors.Join(err, s.logs.Abandon())
	}
	return batch.Extents, err
}

// fill writes the entry log, durably, and gathers the batch.
func (s *shard) fill(f *flushing, batch *index.Batch) error {
	var buf []byte
	put := func(st *ledgerstate.State) error { // st is locked
		if !st.Exists || st.Attempt == s.attempt {
			return nil
		}
		st.Attempt = s.attempt
		buf = st.Append(buf[:0])
		return batch.SetState(st.ID, buf)
	}
	f.dropped, s.purged = append(f.dropped, s.purged...), nil
	for _, st := range f.dropped { // before what may begin them anew
		if err := batch.DeleteLedger(st.ID); err != nil {
			return err
		}
	}
	if err := s.storeEntries(f.arena, batch, put); err != nil {
		return err
	}
	if err := s.logs.Sync(); err != nil {
		return err
	}
	for _, st := range f.dirty {
		st.Lock()
		err := put(st)
		st.Unlock()
		if err != nil {
			return err
		}
	}
	return batch.SetMark(f.next)
}

// storeEntries writes the entries of an arena and notes in the batch where
// they lie. The states of their ledgers go with them, whether or not they are
// among the changed ones: an index that has an extent must know by the state
// which entry is the highest, and whether extents may overlap.
func (s *shard) storeEntries(arena *writecache.Arena, batch *index.Batch, put func(*ledgerstate.State) error) error {
	ledger, first, last := bk.InvalidLedgerID, bk.InvalidEntryID, bk.InvalidEntryID
	finish := func() error {
		if ledger == bk.InvalidLedgerID {
			return nil
		}
		st, err := s.table.Lock(ledger)
		if err != nil {
			return err
		}
		defer st.Unlock()
		st.Flushed(first, last)
		return put(st)
	}
	pace := pace{s: s, total: arena.Bytes(), next: paceBytes}
	err := arena.Sorted(func(l bk.LedgerID, e bk.EntryID, body []byte) error {
		pace.moved(len(body))
		if l != ledger {
			if err := finish(); err != nil {
				return err
			}
			ledger, first = l, e
		}
		last = e
		log, off, err := s.logs.Append(body)
		if err != nil {
			return err
		}
		return batch.Add(l, e, index.Place{Log: log, Offset: off, Size: len(body)})
	})
	if err != nil {
		return err
	}
	return finish()
}
