package bookie

import (
	"errors"
	"io/fs"
	"iter"
	"slices"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/index"
)

// Read appends the body of an entry to dst. e = bk.InvalidEntryID reads the
// entry with the highest id stored here. Statuses: StatusOK, StatusNoLedger,
// StatusNoEntry, StatusIO (damage, disk error). Only StatusNoLedger and
// StatusNoEntry say that the entry is not here.
func (b *Bookie) Read(l bk.LedgerID, e bk.EntryID, dst []byte) ([]byte, bk.Status) {
	if !b.enter() {
		return dst, bk.StatusIO
	}
	defer b.leave()
	return b.read(l, e, dst)
}

func (b *Bookie) read(l bk.LedgerID, e bk.EntryID, dst []byte) ([]byte, bk.Status) {
	if l < 0 {
		return dst, bk.StatusNoLedger
	}
	s := b.shardOf(l)
	st, err := s.table.LockKnown(l)
	if err != nil {
		return dst, b.readFailed(l, e, err)
	}
	if st == nil {
		return dst, bk.StatusNoLedger
	}
	has := true
	if e == bk.InvalidEntryID {
		e, has = st.HighestEntry()
	}
	unordered := st.Unordered
	st.Unlock()
	if !has {
		return dst, bk.StatusNoEntry
	}
	// First the cache, then the index: an entry leaves the one only when it is
	// in the other.
	if body, ok := s.cache.Get(l, e, dst); ok {
		return body, bk.StatusOK
	}
	p, ok, err := s.find(l, e, unordered)
	if err != nil {
		return dst, b.readFailed(l, e, err)
	}
	if !ok {
		return dst, bk.StatusNoEntry
	}
	return b.readAt(s, p, l, e, unordered, dst)
}

// readAt reads an entry from where the index said that it is. Its log may be
// gone meanwhile: the entry was moved, or its ledger deleted.
func (b *Bookie) readAt(s *shard, p index.Place, l bk.LedgerID, e bk.EntryID, unordered bool, dst []byte) ([]byte, bk.Status) {
	for range moveMax {
		body, err := s.logs.Read(p.Log, p.Offset, l, e, p.Size, dst)
		if err == nil {
			return body, bk.StatusOK
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return dst, b.readFailed(l, e, err)
		}
		s.index.Forget(l)
		q, ok, ferr := s.find(l, e, unordered)
		switch {
		case ferr != nil:
			return dst, b.readFailed(l, e, ferr)
		case !ok:
			return dst, bk.StatusNoEntry
		case q == p:
			return dst, b.readFailed(l, e, err) // it should be there
		}
		p = q
	}
	return dst, b.readFailed(l, e, errMoving)
}

// moveMax bounds how often a read follows an entry that is moved.
const moveMax = 100

var errMoving = errors.New("the entry was moved all the time")

// find asks the index. What the caller knows of the ledger may be old:
//
//	read:  sees that no extents overlap
//	flush: notes that they may, and commits one that does
//	read:  looks into the last extent that begins at or below e, and misses
//
// so a miss counts only if extents still do not overlap after it.
func (s *shard) find(l bk.LedgerID, e bk.EntryID, unordered bool) (index.Place, bool, error) {
	p, ok, err := s.index.Find(l, e, unordered)
	if ok || unordered || err != nil {
		return p, ok, err
	}
	st, err := s.table.LockKnown(l)
	if st == nil || err != nil {
		return p, false, err
	}
	unordered = st.Unordered
	st.Unlock()
	if !unordered {
		return p, false, nil
	}
	return s.index.Find(l, e, true)
}

func (b *Bookie) readFailed(l bk.LedgerID, e bk.EntryID, err error) bk.Status {
	b.metrics.readErrors.Inc()
	var bad *bk.CorruptError
	if errors.As(err, &bad) {
		b.metrics.corrupt.Inc()
		if b.o.Events.Corrupt != nil {
			b.o.Events.Corrupt(bad)
		}
	}
	b.log.Error("read failed", zap.Int64("ledger", int64(l)), zap.Int64("entry", int64(e)), zap.Error(err))
	return bk.StatusIO
}

func (b *Bookie) logError(what string, l bk.LedgerID, err error) {
	b.log.Error(what, zap.Int64("ledger", int64(l)), zap.Error(err))
}

// Entries gives the ids stored here in rising order. StatusOK, StatusNoLedger
// or StatusIO.
func (b *Bookie) Entries(l bk.LedgerID) (iter.Seq[bk.EntryID], bk.Status) {
	if !b.enter() {
		return nil, bk.StatusIO
	}
	defer b.leave()
	s := b.shardOf(l)
	st, err := s.table.LockKnown(l)
	if err != nil {
		return nil, b.readFailed(l, bk.InvalidEntryID, err)
	}
	if st == nil {
		return nil, bk.StatusNoLedger
	}
	st.Unlock()
	ids := s.cache.Entries(l, nil)
	if ids, err = s.index.Entries(l, ids); err != nil {
		return nil, b.readFailed(l, bk.InvalidEntryID, err)
	}
	slices.Sort(ids)
	return slices.Values(slices.Compact(ids)), bk.StatusOK
}
