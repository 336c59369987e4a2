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
		errs = append(errs, s.flush(true))
	}
	return errors.Join(errs...)
}

// flush is a checkpoint of one ledger directory. With always, it is done even
// if all it moves is the mark.
func (s *shard) flush(always bool) error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	start := time.Now()
	arena, next := s.frozen, s.next
	if arena == nil {
		// Before the arena is taken away: a record below such a mark was queued
		// before, and so put into this arena or an earlier one before that.
		next = s.tails()
		arena = s.cache.Freeze()
	}
	dirty := s.table.TakeDirty()
	if arena.Len() == 0 && len(dirty) == 0 && !always {
		s.cache.Drop()
		return nil
	}
	info := FlushInfo{Dir: s.id, Entries: arena.Len(), Bytes: int64(arena.Bytes())}
	extents, err := s.store(arena, dirty, next)
	info.Extents, info.Duration, info.Err = extents, time.Since(start), err
	if err != nil {
		s.frozen, s.next = arena, next
		s.table.PutBack(dirty)
		err = errors.Join(err, s.logs.Abandon())
	} else {
		s.frozen, s.next = nil, nil
		s.cache.Drop()
		s.lastFlush = time.Now()
		s.setMarks(next)
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
func (s *shard) store(arena *writecache.Arena, dirty []*ledgerstate.State, next []index.Mark) (extents int, err error) {
	batch := s.index.NewBatch()
	committed := false
	defer func() {
		if !committed {
			err = errors.Join(err, batch.Discard())
		}
	}()
	if err := s.storeEntries(arena, batch); err != nil {
		return 0, err
	}
	if err := s.logs.Sync(); err != nil {
		return 0, err
	}
	var buf []byte
	for _, st := range dirty {
		st.Lock()
		exists := st.Exists
		buf = st.Append(buf[:0])
		s.table.Clean(st)
		st.Unlock()
		if exists {
			if err := batch.SetState(st.ID, buf); err != nil {
				return 0, err
			}
		}
	}
	if err := batch.SetMark(next); err != nil {
		return 0, err
	}
	committed = true
	err = batch.Commit()
	return batch.Extents, err
}

// storeEntries writes the entries of an arena and notes in the batch where
// they lie, and in the states of their ledgers that they do.
func (s *shard) storeEntries(arena *writecache.Arena, batch *index.Batch) error {
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
		return nil
	}
	err := arena.Sorted(func(l bk.LedgerID, e bk.EntryID, body []byte) error {
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
