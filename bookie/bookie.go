package bookie

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/dirs"
	"github.com/loglode/loglode/bookie/internal/index"
	"github.com/loglode/loglode/bookie/internal/journal"
)

// ErrDirInUse says that another bookie has a data directory.
var ErrDirInUse = dirs.ErrInUse

// Bookie is one open storage node. Its methods may be called by any number of
// goroutines. Each journal and each ledger directory has goroutines of its own;
// Close ends them.
type Bookie struct {
	o        Options
	log      *zap.Logger
	locks    []io.Closer
	journals []*journalRef
	shards   []*shard
	pendings sync.Pool // of *pending
	metrics  *metrics
	state    stateBox

	opened bool         // by Open, before any goroutine of the bookie runs
	accept atomic.Bool  // requests are taken
	calls  sync.RWMutex // held for reading by each request, for writing by Close

	life      context.Context // ends when Close begins
	endLife   context.CancelFunc
	collectMu sync.Mutex    // one pass at a time
	collector chan struct{} // closed when its goroutine ended; nil without one
}

// journalRef is one journal and what its goroutine needs to answer.
type journalRef struct {
	*journal.Journal
	b  *Bookie
	id int

	answers []answer // scratch of settled
}

// Open locks the directories, checks whose they are, replays what the journals
// hold beyond the marks, and starts the bookie. ctx bounds the start alone.
func Open(ctx context.Context, o Options) (*Bookie, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	b := &Bookie{o: o, log: o.Logger.Named("bookie")}
	b.life, b.endLife = context.WithCancel(context.Background())
	b.state.changed = b.stateChanged
	b.pendings.New = func() any { return &pending{b: b} }
	var err error
	if b.metrics, err = newMetrics(o.Registerer); err != nil {
		return nil, err
	}
	if err := b.open(ctx); err != nil {
		b.endLife()
		return nil, errors.Join(err, b.release())
	}
	return b, nil
}

func (b *Bookie) open(ctx context.Context) error {
	o := &b.o
	for _, dir := range append(append([]string{}, o.JournalDirs...), o.LedgerDirs...) {
		lock, err := dirs.Prepare(o.FS, dir)
		if err != nil {
			return err
		}
		b.locks = append(b.locks, lock)
	}
	if err := b.checkIdentity(ctx); err != nil {
		return err
	}
	if err := b.openShards(); err != nil {
		return err
	}
	if err := b.openJournals(ctx); err != nil {
		return err
	}
	b.opened = true
	for _, s := range b.shards {
		s.checkSpace()
		s.start()
	}
	b.reserve()
	b.accept.Store(true)
	if o.Collect.Ledgers != nil {
		b.collector = make(chan struct{})
		go b.runCollector()
	}
	return nil
}

func (b *Bookie) openShards() error {
	cache := index.NewCache(b.o.IndexCacheBytes)
	defer cache.Release()
	for i, dir := range b.o.LedgerDirs {
		if err := b.makeRoom(dir); err != nil {
			return err
		}
		s, err := openShard(b, i, dirs.Current(b.o.FS, dir), cache)
		if err != nil {
			return err
		}
		b.shards = append(b.shards, s)
	}
	return nil
}

func (b *Bookie) openJournals(ctx context.Context) error {
	start := time.Now()
	var replayed replayCount
	for i, dir := range b.o.JournalDirs {
		r := &journalRef{b: b, id: i}
		j, err := journal.Open(journal.Options{
			FS: b.o.FS, Dir: dirs.Current(b.o.FS, dir), FileBytes: b.o.JournalFileBytes,
			QueueBytes: b.o.JournalGroupBytes, Settled: r.settled, Failed: b.journalFailed, NoFile: r.noFile, Stalled: r.stalled, Logger: b.o.Logger,
		})
		if err != nil {
			return err
		}
		r.Journal = j
		b.journals = append(b.journals, r)
		if err := b.replay(ctx, r, &replayed); err != nil {
			return err
		}
	}
	for _, j := range b.journals {
		if err := b.startJournal(j); err != nil {
			return err
		}
	}
	if b.o.Events.Replayed != nil {
		b.o.Events.Replayed(replayed.records, replayed.bytes)
	}
	b.log.Info("journals replayed", zap.Int64("records", replayed.records), zap.Int64("bytes", replayed.bytes),
		zap.Duration("took", time.Since(start)))
	return nil
}

// shardOf and journalOf spread ledgers, each in its own way, so that a ledger
// directory does not depend on one journal.
func (b *Bookie) shardOf(l bk.LedgerID) *shard {
	if len(b.shards) == 1 {
		return b.shards[0]
	}
	return b.shards[spread(l, 0)%uint64(len(b.shards))]
}

func (b *Bookie) journalOf(l bk.LedgerID) *journalRef {
	if len(b.journals) == 1 {
		return b.journals[0]
	}
	return b.journals[spread(l, 1)%uint64(len(b.journals))]
}

func spread(l bk.LedgerID, salt uint64) uint64 {
	h := (uint64(l) + salt) * 0x9e3779b97f4a7c15
	h ^= h >> 31
	h *= 0xd6e8feb86659fd93
	return h ^ h>>33
}

// enter begins a request; it reports false once Close has begun. leave ends it.
func (b *Bookie) enter() bool {
	b.calls.RLock()
	if b.accept.Load() {
		return true
	}
	b.calls.RUnlock()
	return false
}

func (b *Bookie) leave() { b.calls.RUnlock() }

// Close answers what is queued, flushes, ends all goroutines and unlocks the
// directories.
func (b *Bookie) Close() error {
	b.endLife() // of passes of the garbage collection, which would hold up what follows
	if b.collector != nil {
		<-b.collector
	}
	b.calls.Lock()
	was := b.accept.Swap(false)
	b.calls.Unlock()
	if !was {
		return nil
	}
	b.state.close()
	return b.release()
}

func (b *Bookie) release() error {
	var errs []error
	for _, s := range b.shards {
		s.stop()
	}
	for _, j := range b.journals {
		if j.Journal != nil {
			errs = append(errs, j.Close())
		}
	}
	for _, s := range b.shards {
		if b.opened {
			errs = append(errs, s.flushNow())
		}
		errs = append(errs, s.close())
	}
	for _, l := range b.locks {
		errs = append(errs, l.Close())
	}
	b.metrics.unregister()
	return errors.Join(errs...)
}

// replaying says whether journals are not replayed yet: a flush must not move
// the mark over what was not.
func (b *Bookie) replaying() bool { return !b.opened }

func (b *Bookie) stateChanged(s State, cause error) {
	b.log.Info("state changed", zap.Stringer("state", s), zap.Error(cause))
	if b.o.Events.StateChanged != nil {
		b.o.Events.StateChanged(s, cause)
	}
}

func (b *Bookie) journalFailed(err error) {
	b.log.Error("journal failed: nothing more is acknowledged", zap.Error(err))
	b.metrics.journalErrors.Inc()
	b.state.fail(err)
}

// noFile is called by the goroutine of the journal's file pool.
func (r *journalRef) noFile(err error) { r.b.blockJournal(cause{noJournalFile, r.id}, err) }

// stalled is called by the journal's goroutine.
func (r *journalRef) stalled(err error) { r.b.blockJournal(cause{journalStalled, r.id}, err) }

func (b *Bookie) blockJournal(c cause, err error) {
	if err != nil {
		b.log.Error("journal has no room", zap.Error(err))
	}
	b.state.block(c, err)
}

var errClosed = fmt.Errorf("bookie: %w", bk.ErrClosed)
