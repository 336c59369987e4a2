package bookie

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/index"
)

// Ledgers tells which ledgers the metadata has.
type Ledgers interface {
	// Ledgers lists all ledgers, in any order. A listing that ends early must
	// end with an error.
	Ledgers(ctx context.Context) iter.Seq2[bk.LedgerID, error]
	// Exists reports whether the metadata has a ledger, by a look at it alone.
	Exists(ctx context.Context, l bk.LedgerID) (bool, error)
}

// CollectOptions sets up the garbage collection of a bookie. The zero value of
// a field means its default.
type CollectOptions struct {
	Ledgers       Ledgers       // nil: nothing is collected
	Interval      time.Duration // from one pass to the next; 15 min
	MinorRatio    float64       // each pass compacts entry logs that are live to less than this share; 0.2
	MajorRatio    float64       // as MinorRatio, for a pass each MajorInterval; 0.8
	MajorInterval time.Duration // 24 h
	BytesPerSec   int64         // compaction moves no more than this; 16 MiB
}

func (o CollectOptions) withDefaults() CollectOptions {
	orDefault(&o.Interval, 15*time.Minute)
	orDefault(&o.MinorRatio, 0.2)
	orDefault(&o.MajorRatio, 0.8)
	orDefault(&o.MajorInterval, 24*time.Hour)
	orDefault(&o.BytesPerSec, 16<<20)
	return o
}

// CollectInfo tells of one pass of the garbage collection.
type CollectInfo struct {
	Ledgers   int   // here at its start
	Deleted   int   // dropped, as the metadata does not have them any more
	Waiting   int   // to be dropped by a later pass: they changed a short while ago
	Logs      int   // entry logs removed
	Freed     int64 // bytes of those
	Compacted int   // entry logs of which what was live was moved
	Moved     int64 // bytes of entries moved
	Duration  time.Duration
}

var errNoLedgers = errors.New("garbage collection: the bookie was opened without a list of ledgers")

// Collect makes one pass of the garbage collection: it drops the ledgers that
// the metadata does not have any more, removes the entry logs in which nothing
// is live, and with major compacts those with a live share below MajorRatio
// instead of MinorRatio. What it had done when an error ended it stays done.
func (b *Bookie) Collect(ctx context.Context, major bool) (CollectInfo, error) {
	start := time.Now()
	var info CollectInfo
	if b.o.Collect.Ledgers == nil {
		return info, errNoLedgers
	}
	if !b.enter() {
		return info, errClosed
	}
	defer b.leave()
	b.collectMu.Lock()
	defer b.collectMu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	err := b.dropDeleted(ctx, &info)
	ratio := b.o.Collect.MinorRatio
	if major {
		ratio = b.o.Collect.MajorRatio
	}
	if err == nil {
		for _, s := range b.shards {
			r := ratio
			if s.low() {
				r = b.o.Collect.MajorRatio
			}
			if err = s.sweep(ctx, r, &info); err != nil {
				break
			}
		}
	}
	info.Duration = time.Since(start)
	b.metrics.collected(info, err)
	if b.o.Events.Collected != nil {
		b.o.Events.Collected(info, err)
	}
	if err != nil {
		return info, fmt.Errorf("garbage collection: %w", err)
	}
	return info, nil
}

// dropDeleted drops the ledgers that are here and not in the metadata. Which are
// here is settled before the metadata is listed: a ledger is in the metadata
// before its first entry is here. Each is looked up once more on its own, and a
// listing that failed drops nothing.
func (b *Bookie) dropDeleted(ctx context.Context, info *CollectInfo) error {
	var here []bk.LedgerID
	for _, s := range b.shards {
		err := s.index.Ledgers(func(l bk.LedgerID) error {
			here = append(here, l)
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	slices.Sort(here)
	info.Ledgers = len(here)
	listed := make([]bool, len(here))
	for l, err := range b.o.Collect.Ledgers.Ledgers(ctx) {
		if err != nil {
			return fmt.Errorf("list ledgers: %w", err)
		}
		if i, ok := slices.BinarySearch(here, l); ok {
			listed[i] = true
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("list ledgers: %w", err)
	}
	doomed := make([][]bk.LedgerID, len(b.shards))
	for i, l := range here {
		if listed[i] {
			continue
		}
		exists, err := b.o.Collect.Ledgers.Exists(ctx, l)
		if err != nil {
			return fmt.Errorf("look up ledger %d: %w", l, err)
		}
		if !exists {
			s := b.shardOf(l)
			doomed[s.id] = append(doomed[s.id], l)
		}
	}
	for i, s := range b.shards {
		if err := s.drop(doomed[i], info); err != nil {
			return err
		}
	}
	return nil
}

// drop has the next flush end ledgers. If there is no room for what else that
// flush has to store, they end without it.
func (s *shard) drop(ledgers []bk.LedgerID, info *CollectInfo) error {
	if len(ledgers) == 0 {
		return nil
	}
	s.flushMu.Lock()
	s.doomed, s.ended = ledgers, 0
	s.flushMu.Unlock()
	err := s.flush(true)
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	s.doomed = nil // a flush that repeats a failed one takes none
	if vfs.IsNoSpaceError(err) {
		if err = s.b.makeRoom(s.b.o.LedgerDirs[s.id]); err == nil {
			err = s.purge(ledgers)
		}
	}
	info.Deleted += s.ended
	info.Waiting += len(ledgers) - s.ended
	return err
}

// purge ends ledgers while a flush waits to be repeated. The mark does not move,
// so none goes whose records may lie above it. flushMu is held.
func (s *shard) purge(ledgers []bk.LedgerID) error {
	if f := s.retry; f != nil { // the flush that failed has dropped some already
		later := f.dropped[:0]
		for _, st := range f.dropped {
			if st.Attempt < s.committed {
				s.purged = append(s.purged, st)
			} else {
				later = append(later, st)
			}
		}
		f.dropped = later
	}
	for _, l := range ledgers {
		st, ok, err := s.table.DropBefore(l, s.committed)
		if err != nil {
			return err
		}
		if ok {
			s.purged = append(s.purged, st)
		}
	}
	if len(s.purged) == 0 {
		return nil
	}
	batch := s.index.NewBatch()
	for _, st := range s.purged { // also of a purge that failed
		if err := batch.DeleteLedger(st.ID); err != nil {
			return errors.Join(err, batch.Discard())
		}
	}
	err := batch.Commit()
	if s.unflushed = errors.Is(err, index.ErrUnflushed); err != nil && !s.unflushed {
		return err
	}
	s.table.Settle(s.purged)
	for _, st := range s.purged {
		s.index.Forget(st.ID)
	}
	s.ended += len(s.purged)
	s.purged = nil
	return err
}

// runCollector makes passes until Close.
func (b *Bookie) runCollector() {
	defer close(b.collector)
	t := time.NewTicker(b.o.Collect.Interval)
	defer t.Stop()
	major := time.Now()
	for {
		select {
		case <-b.life.Done():
			return
		case <-t.C:
		}
		due := time.Since(major) >= b.o.Collect.MajorInterval
		info, err := b.Collect(b.life, due)
		switch {
		case b.life.Err() != nil:
			return
		case err != nil:
			b.log.Warn("garbage collection failed, will try again", zap.Error(err))
			continue
		case info.Deleted > 0 || info.Logs > 0:
			b.log.Info("garbage collected", zap.Int("ledgers", info.Deleted), zap.Int("logs", info.Logs),
				zap.Int64("bytes", info.Freed), zap.Duration("took", info.Duration))
		}
		if due {
			major = time.Now()
		}
	}
}
