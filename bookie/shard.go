package bookie

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/dirs"
	"github.com/loglode/loglode/bookie/internal/entrylog"
	"github.com/loglode/loglode/bookie/internal/index"
	"github.com/loglode/loglode/bookie/internal/ledgerstate"
	"github.com/loglode/loglode/bookie/internal/writecache"
)

const (
	tickInterval = time.Second // age of caches, retry of failed flushes, disk space
	// A ledger directory takes nothing from below freeLow on, until freeHigh.
	freeLow  = 0.05
	freeHigh = 0.08
)

var errDiskFull = errors.New("ledger directory is full")

// shard is one ledger directory and what lies in it. Its goroutine, run, is
// ended by stop.
type shard struct {
	b     *Bookie
	id    int
	dir   string
	cache *writecache.Cache
	table *ledgerstate.Table
	index *index.Index
	logs  *entrylog.Store

	kick    chan struct{}
	quit    chan struct{}
	stopped chan struct{} // nil before start
	full    bool          // of run: too little disk space
	hurry   atomic.Int32  // callers that wait for a flush

	flushMu   sync.Mutex // one flush at a time; guards what follows
	retry     *flushing  // of a flush that failed
	attempt   uint64     // of the last flush that was begun
	committed uint64     // of the last one that succeeded
	lastFlush time.Time
	doomed    []bk.LedgerID        // for the next flush to drop
	ended     int                  // ledgers dropped since doomed was set
	unflushed bool                 // what the collection did is in the index, but maybe not durably
	purged    []*ledgerstate.State // ledgers that ended, but not yet in the index

	noFooter map[entrylog.LogID][]entrylog.LedgerBytes // ledger maps that no log has; guarded by Bookie.collectMu

	marksMu sync.Mutex   // guards marks
	marks   []index.Mark // stored ones, one for each journal
}

func openShard(b *Bookie, id int, dir string, cache *index.Cache) (*shard, error) {
	s := &shard{b: b, id: id, dir: dir, attempt: 1, committed: 1, // states that were loaded have 0
		kick: make(chan struct{}, 1), quit: make(chan struct{}), lastFlush: time.Now()}
	s.table = ledgerstate.NewTable(s.load)
	var err error
	if s.logs, err = entrylog.Open(b.o.FS, dir, b.o.EntryLogBytes); err != nil {
		return nil, err
	}
	path := b.o.FS.PathJoin(dir, "index")
	if err := b.o.FS.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("make index directory: %w", err)
	}
	if err := dirs.SyncDir(b.o.FS, dir); err != nil {
		return nil, fmt.Errorf("sync %s: %w", dir, err)
	}
	if s.index, err = index.Open(index.Options{FS: b.o.FS, Dir: path, Cache: cache, Failed: s.indexFailed, Logger: b.o.Logger}); err != nil {
		return nil, err
	}
	if s.marks, err = s.index.Marks(); err != nil {
		return nil, errors.Join(err, s.index.Close())
	}
	for len(s.marks) < len(b.o.JournalDirs) { // new, or a journal was added
		s.marks = append(s.marks, index.Mark{})
	}
	s.cache = writecache.New(b.o.WriteCacheBytes)
	return s, nil
}

func (s *shard) load(l bk.LedgerID) (st ledgerstate.Stored, ok bool, err error) {
	ok, err = s.index.State(l, func(v []byte) error {
		st, err = ledgerstate.Parse(v)
		return err
	})
	return st, ok, err
}

// indexFailed ends the bookie's writing: what is in the write cache can go
// nowhere until a restart. It runs on a goroutine of the index.
func (s *shard) indexFailed(err error) {
	s.b.log.Error("index failed: nothing more is written", zap.String("dir", s.dir), zap.Error(err))
	s.b.state.fail(err)
}

func (s *shard) start() {
	s.stopped = make(chan struct{})
	go s.run()
}

func (s *shard) stop() {
	if s.stopped == nil {
		return
	}
	close(s.quit)
	<-s.stopped
}

// close ends what is left once run and all requests have ended. A flush that
// failed still has its arena: nothing tries it again.
func (s *shard) close() error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	s.retry = nil
	err := errors.Join(s.logs.Close(), s.index.Close())
	s.cache.Close()
	return err
}

func (s *shard) run() {
	defer close(s.stopped)
	t := time.NewTicker(tickInterval)
	defer t.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-s.kick:
			s.tryFlush(false)
		case <-t.C:
			s.tick()
		}
	}
}

func (s *shard) tick() {
	s.checkSpace()
	if s.id == 0 {
		s.b.reserve()
	}
	if s.due() {
		s.tryFlush(true)
	}
	s.flushMu.Lock() // no state may leave between its cleaning and its commit
	s.table.Evict(s.b.o.LedgersInMemory/len(s.b.shards), s.committed)
	s.flushMu.Unlock()
}

// due says whether a flush is wanted although the cache has room.
func (s *shard) due() bool {
	s.flushMu.Lock()
	failed, age := s.retry != nil, time.Since(s.lastFlush)
	s.flushMu.Unlock()
	if failed || age >= s.b.o.FlushInterval && (s.cache.Bytes() > 0 || s.table.Dirty()) {
		return true
	}
	s.marksMu.Lock()
	defer s.marksMu.Unlock()
	for i, j := range s.b.journals {
		if uint64(j.Tail()) > s.marks[i].From+uint64(s.b.o.JournalBytesMax) {
			return true
		}
	}
	return false
}

// tryFlush flushes, and says by the bookie's state whether it could.
func (s *shard) tryFlush(always bool) {
	err := s.flush(always)
	if err != nil {
		s.b.log.Error("flush failed, will try again", zap.String("dir", s.dir), zap.Error(err))
	}
	s.b.state.block(cause{flushFailed, s.id}, err)
}

func (s *shard) checkSpace() {
	free, known := s.free()
	if !known {
		return
	}
	switch {
	case !s.full && free < freeLow:
		s.full = true
		s.b.state.block(cause{diskFull, s.id}, fmt.Errorf("%s: %.1f %% free: %w", s.dir, 100*free, errDiskFull))
	case s.full && free > freeHigh:
		s.full = false
		s.b.state.block(cause{diskFull, s.id}, nil)
	}
}

// waitRoom asks for a flush and waits until the cache may have room.
func (s *shard) waitRoom(room <-chan struct{}, wait time.Duration) bool {
	select {
	case s.kick <- struct{}{}:
	default: // asked for already
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-room:
		return true
	case <-t.C:
		return false
	}
}

// Info gives the capacity and the free space of the ledger directories, in
// bytes; zeros where the file system cannot tell.
func (b *Bookie) Info() (total, free int64, err error) {
	seen := make(map[vfs.DiskUsage]bool)
	for _, dir := range b.o.LedgerDirs {
		u, err := b.o.FS.GetDiskUsage(dir)
		if errors.Is(err, vfs.ErrUnsupported) {
			continue
		}
		if err != nil {
			return 0, 0, fmt.Errorf("disk usage of %s: %w", dir, err)
		}
		if seen[u] {
			continue // the same disk: no two have all figures in common
		}
		seen[u] = true
		total += int64(u.TotalBytes)
		free += int64(u.AvailBytes)
	}
	return total, free, nil
}
