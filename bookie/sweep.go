package bookie

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/entrylog"
	"github.com/loglode/loglode/bookie/internal/index"
)

// compactSlice bounds what is moved while no flush can run, in bytes.
const compactSlice = 1 << 20

// sweep removes the entry logs in which nothing is live; then it moves what is
// live out of those where it is less than ratio of the whole. In this order,
// since on a full disk the first makes room for the second.
func (s *shard) sweep(ctx context.Context, ratio float64, info *CollectInfo) error {
	logs, err := s.logs.Logs()
	if err != nil {
		return err
	}
	var sparse []entrylog.LogID
	for _, log := range logs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.isCurrent(log) {
			break // and so are those after it
		}
		live, err := s.liveIn(log)
		switch {
		case err != nil:
			return err
		case live.bytes == 0:
			err = s.removeLog(log, live, info)
		case float64(live.bytes) < ratio*float64(live.size):
			sparse = append(sparse, log)
		}
		if err != nil {
			return err
		}
	}
	for _, log := range sparse {
		if s.checkRoom(compactSlice, 0) != nil {
			if _, err := s.b.giveReserve(s.b.o.LedgerDirs[s.id]); err != nil {
				return err
			}
		}
		if err := s.compactLog(ctx, log, info); err != nil {
			return fmt.Errorf("compact entry log %d in %s: %w", log, s.dir, err)
		}
	}
	return nil
}

func (s *shard) compactLog(ctx context.Context, log entrylog.LogID, info *CollectInfo) error {
	live, err := s.liveIn(log)
	if err != nil {
		return err
	}
	err = s.compact(ctx, log, live.ledgers, info)
	if errors.Is(err, bk.ErrCorrupt) {
		s.compactCorrupt(log, err)
		return nil
	}
	if err != nil {
		return err
	}
	info.Compacted++
	return s.removeLog(log, live, info)
}

// removeLog deletes a log that no index names.
func (s *shard) removeLog(log entrylog.LogID, live liveLog, info *CollectInfo) error {
	if err := s.settled(); err != nil {
		return err
	}
	if err := s.logs.Remove(log); err != nil {
		return err
	}
	delete(s.noFooter, log)
	info.Logs++
	info.Freed += live.size
	return nil
}

// isCurrent reports whether a log is being written, or may be: none was begun
// since the one that is highest.
func (s *shard) isCurrent(log entrylog.LogID) bool {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	return log == s.logs.Current()
}

// liveLog is what of an entry log may still be wanted.
type liveLog struct {
	ledgers []bk.LedgerID // that exist and have entries in it
	bytes   int64         // of those
	size    int64         // of the file
}

func (s *shard) liveIn(log entrylog.LogID) (liveLog, error) {
	var live liveLog
	var err error
	if live.size, err = s.logs.Size(log); err != nil {
		return live, err
	}
	rows, err := s.rowsOf(log)
	if err != nil {
		return live, err
	}
	for _, r := range rows {
		ok, err := s.index.State(r.Ledger, func([]byte) error { return nil })
		if err != nil {
			return live, err
		}
		if ok {
			live.ledgers = append(live.ledgers, r.Ledger)
			live.bytes += r.Bytes
		}
	}
	return live, nil
}

// rowsOf gives the ledger map of a log: its footer, or, for a log that a crash
// left without one, what the index names in it, which is remembered. A scan
// would not do: it ends at the first damaged record.
func (s *shard) rowsOf(log entrylog.LogID) ([]entrylog.LedgerBytes, error) {
	if rows, ok := s.noFooter[log]; ok {
		return rows, nil
	}
	rows, ok, err := s.logs.Ledgers(log)
	if ok || err != nil && !errors.Is(err, bk.ErrCorrupt) {
		return rows, err
	}
	if rows, err = s.index.LedgersIn(log); err != nil {
		return nil, err
	}
	if s.noFooter == nil {
		s.noFooter = make(map[entrylog.LogID][]entrylog.LedgerBytes)
	}
	s.noFooter[log] = rows
	return rows, nil
}

// settled checks that what the index says is durable, so that what it does not
// name any more may go.
func (s *shard) settled() error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	if s.retry != nil && s.retry.applied {
		return errFlushFailed
	}
	if !s.unflushed {
		return nil
	}
	if err := s.index.Flush(); err != nil {
		return err
	}
	s.unflushed = false
	return nil
}

// compact moves the entries that the index has in a log into the one being
// written. It may be ended anywhere: what was not moved stays where it is.
func (s *shard) compact(ctx context.Context, log entrylog.LogID, ledgers []bk.LedgerID, info *CollectInfo) error {
	var slice []index.Extent
	var size int64
	move := func() error {
		if len(slice) == 0 {
			return nil
		}
		n, err := s.moveExtents(slice)
		info.Moved += n
		slice, size = slice[:0], 0
		if err != nil {
			return err
		}
		return s.throttle(ctx, n)
	}
	for _, l := range ledgers {
		err := s.index.ExtentsIn(l, log, func(e index.Extent) error {
			slice = append(slice, e)
			for _, p := range e.Places {
				size += int64(p.Size)
			}
			if size < compactSlice {
				return nil
			}
			return move()
		})
		if err != nil {
			return err
		}
	}
	return move()
}

// compactCorrupt tells of a log that stays because an entry in it is damaged:
// another copy may still be read, and whoever repairs needs to know.
func (s *shard) compactCorrupt(log entrylog.LogID, err error) {
	s.b.metrics.corrupt.Inc()
	var bad *bk.CorruptError
	if errors.As(err, &bad) && s.b.o.Events.Corrupt != nil {
		s.b.o.Events.Corrupt(bad)
	}
	s.b.log.Error("entry log is damaged and stays", zap.String("dir", s.dir), zap.Uint32("log", uint32(log)), zap.Error(err))
}

// throttle waits as long as moving n bytes may take.
func (s *shard) throttle(ctx context.Context, n int64) error {
	t := time.NewTimer(time.Duration(float64(n) / float64(s.b.o.Collect.BytesPerSec) * float64(time.Second)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// moveExtents writes the entries of extents anew, durably, and has the index
// name the new places instead of the old ones, in one step. An entry that was
// written again since, or whose ledger is gone, is left out.
func (s *shard) moveExtents(extents []index.Extent) (moved int64, err error) {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	if s.retry != nil && s.retry.applied {
		return 0, errFlushFailed
	}
	if err := s.checkRoom(compactSlice, 0); err != nil {
		return 0, err
	}
	batch := s.index.NewBatch()
	moved, err = s.copyExtents(extents, batch)
	if err == nil {
		err = s.logs.Sync()
	}
	if err != nil {
		return 0, errors.Join(err, batch.Discard(), s.logs.Discard())
	}
	if err := batch.Commit(); err != nil {
		if s.unflushed = errors.Is(err, index.ErrUnflushed); !s.unflushed {
			err = errors.Join(err, s.logs.Abandon())
		}
		return 0, err
	}
	for _, e := range extents {
		s.index.Forget(e.Ledger)
	}
	return moved, nil
}

var errFlushFailed = errors.New("a flush of the write cache failed and has to be repeated first")

func (s *shard) copyExtents(extents []index.Extent, batch *index.Batch) (moved int64, err error) {
	var body []byte
	for _, e := range extents {
		if err := batch.DeleteExtent(e); err != nil {
			return moved, err
		}
		unordered, known, err := s.unordered(e.Ledger)
		if err != nil {
			return moved, err
		}
		if !known {
			continue
		}
		for i, id := range e.IDs {
			p := e.Places[i]
			now, ok, err := s.index.Find(e.Ledger, id, unordered)
			if err != nil {
				return moved, err
			}
			if !ok || now != p {
				continue // written again later
			}
			if body, err = s.logs.Read(p.Log, p.Offset, e.Ledger, id, p.Size, body[:0]); err != nil {
				return moved, err
			}
			log, off, err := s.logs.Append(body)
			if err != nil {
				return moved, err
			}
			if err := batch.Add(e.Ledger, id, index.Place{Log: log, Offset: off, Size: p.Size}); err != nil {
				return moved, err
			}
			moved += int64(p.Size)
		}
	}
	return moved, nil
}

// unordered tells whether extents of a ledger may overlap.
func (s *shard) unordered(l bk.LedgerID) (unordered, known bool, err error) {
	st, err := s.table.LockKnown(l)
	if st == nil || err != nil {
		return false, false, err
	}
	defer st.Unlock()
	return st.Unordered, true, nil
}
