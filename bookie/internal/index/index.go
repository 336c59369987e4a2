package index

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/entrylog"
)

// Place is where an entry lies.
type Place struct {
	Log    entrylog.LogID
	Offset int64
	Size   int // of the body
}

// Cache is memory that several indexes share for the blocks they read.
type Cache struct{ c *pebble.Cache }

// NewCache makes a cache of that many bytes. Release it when all indexes that
// use it are open.
func NewCache(bytes int64) *Cache { return &Cache{pebble.NewCache(bytes)} }

// Release lets go of the caller's hold on the cache.
func (c *Cache) Release() { c.c.Unref() }

// Index is the index of one ledger directory. Reads may come from any number
// of goroutines, batches from one at a time.
type Index struct {
	db     *pebble.DB
	fs     *guardFS
	recent recent

	compactions scheduler

	failed chan error // told of errors of pebble's own goroutines
}

// Options sets up an index.
type Options struct {
	FS    vfs.FS
	Dir   string // exists
	Cache *Cache
	// Failed is called once when the index can write nothing more until it is
	// opened again; it can still be read. It is called by a goroutine of pebble
	// and may not use the index.
	Failed func(err error)
	Logger *zap.Logger
}

// noStall is a threshold that is not reached: a flush is waited for before the
// next batch comes, so memory is bounded, and a stalled write could not be
// taken back at Close.
const noStall = 1 << 20

// Open opens the index in Dir, or makes one.
func Open(opts Options) (*Index, error) {
	x := &Index{failed: make(chan error, 1), fs: &guardFS{FS: opts.FS, closing: make(chan struct{})}}
	o := &pebble.Options{
		FS:                          x.fs,
		Cache:                       opts.Cache.c,
		DisableWAL:                  true,
		MemTableSize:                2 << 20,
		MemTableStopWritesThreshold: noStall,
		L0StopWritesThreshold:       noStall,
		MaxOpenFiles:                256,
		MaxManifestFileSize:         4 << 20,
		L0CompactionThreshold:       4,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      logger{opts.Logger.Named("index").Sugar(), func(err error) { x.fs.fatal(err) }},
	}
	o.CompactionConcurrencyRange = func() (int, int) { return 1, 1 }
	x.compactions = newScheduler(x.fs)
	o.Experimental.CompactionScheduler = x.compactions
	o.EventListener = &pebble.EventListener{BackgroundError: x.backgroundError}
	x.fs.fatal = x.stop(opts.Failed)
	db, err := pebble.Open(opts.Dir, o)
	if err == nil {
		x.fs.opened.Store(true)
		x.db = db
		if err = x.fs.err(); err != nil { // while it was opened
			err = errors.Join(err, x.Close())
		} else {
			x.compactions.poke()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", opts.Dir, err)
	}
	return x, nil
}

// stop gives what to do when pebble can write nothing more.
func (x *Index) stop(failed func(error)) func(error) {
	return func(err error) {
		if x.fs.stop(err) && failed != nil {
			failed(err)
		}
		x.backgroundError(err)
	}
}

func (x *Index) backgroundError(err error) {
	if errors.Is(err, pebble.ErrCancelledCompaction) {
		return
	}
	x.fs.noteFailure()
	select {
	case x.failed <- err:
	default: // one is waiting already
	}
}

// logger passes on what an operator should see.
type logger struct {
	l    *zap.SugaredLogger
	stop func(error)
}

func (logger) Infof(string, ...any)                {}
func (g logger) Errorf(format string, args ...any) { g.l.Errorf(format, args...) }

// Fatalf is called when pebble cannot go on. A manifest that could not be
// written is no broken invariant: pebble returns the error to the flush or
// compaction that met it. What is in memory and on disk can still be read;
// guardFS sees to it that nothing more is written.
func (g logger) Fatalf(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	g.l.Error(msg)
	if strings.HasPrefix(msg, "MANIFEST ") && strings.Contains(msg, "failed") {
		g.stop(errors.New(msg))
		return
	}
	panic("index: " + msg)
}

// Close closes the database. A batch that was not committed is lost.
func (x *Index) Close() error {
	close(x.fs.closing)
	return x.db.Close()
}

func (x *Index) get(key []byte, use func(v []byte) error) (bool, error) {
	v, c, err := x.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read index: %w", err)
	}
	return true, errors.Join(use(v), c.Close())
}

// State gives the stored state of a ledger to use, which may not keep it; ok
// is false if there is none.
func (x *Index) State(l bk.LedgerID, use func(v []byte) error) (ok bool, err error) {
	return x.get(appendID([]byte{prefixState}, l), use)
}

// extentBounds gives the keys between which all extents of a ledger lie.
func extentBounds(l bk.LedgerID) (lower, upper []byte) {
	lower = appendID([]byte{prefixExtent}, l)
	// Above every key of the ledger, being longer than they are.
	upper = append(appendID([]byte{prefixExtent}, l), bytes.Repeat([]byte{0xff}, extentKeySize)...)
	return lower, upper
}

// Find gives where an entry lies. unordered says that extents of the ledger
// may overlap.
func (x *Index) Find(l bk.LedgerID, e bk.EntryID, unordered bool) (p Place, ok bool, err error) {
	if !unordered {
		if p, ok := x.recent.find(l, e); ok {
			return p, true, nil
		}
	}
	lower, upper := extentBounds(l)
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return Place{}, false, fmt.Errorf("read index: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var best, ext extent
	// The first key above every extent that begins at e: no log id is all ones.
	limit := append(appendID(bytes.Clone(lower), e), 0xff, 0xff, 0xff, 0xff)
	for valid := it.SeekLT(limit); valid; valid = it.Prev() {
		v, err := it.ValueAndErr()
		if err != nil {
			return Place{}, false, fmt.Errorf("read index: %w", err)
		}
		if err := ext.parse(it.Key(), v); err != nil {
			return Place{}, false, err
		}
		if uint64(e)-uint64(ext.ids[0]) >= spanMax {
			break
		}
		if q, in := ext.find(e); in && (!ok || q.after(p)) {
			p, ok = q, true
			best, ext = ext, best
		}
		if !unordered {
			break // nothing else can have it
		}
	}
	if err := it.Error(); err != nil {
		return Place{}, false, fmt.Errorf("read index: %w", err)
	}
	if ok && !unordered {
		x.recent.put(best)
	}
	return p, ok, nil
}

func (p Place) after(q Place) bool {
	return p.Log > q.Log || p.Log == q.Log && p.Offset > q.Offset
}

// Entries appends the ids of a ledger's entries, in no order, maybe twice.
func (x *Index) Entries(l bk.LedgerID, dst []bk.EntryID) (ids []bk.EntryID, err error) {
	lower, upper := extentBounds(l)
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return dst, fmt.Errorf("read index: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var ext extent
	for valid := it.First(); valid; valid = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return dst, fmt.Errorf("read index: %w", err)
		}
		if err := ext.parse(it.Key(), v); err != nil {
			return dst, err
		}
		dst = append(dst, ext.ids...)
	}
	return dst, it.Error()
}

// recent remembers the extents that were found last, one for each of a few
// ledgers: a sequential reader asks the database once an extent.
type recent struct {
	slots [64]struct {
		mu sync.Mutex // guards x
		x  extent
	}
}

func (r *recent) find(l bk.LedgerID, e bk.EntryID) (Place, bool) {
	s := &r.slots[uint64(l)%uint64(len(r.slots))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.x.ledger != l || len(s.x.ids) == 0 {
		return Place{}, false
	}
	return s.x.find(e)
}

func (r *recent) put(x extent) {
	s := &r.slots[uint64(x.ledger)%uint64(len(r.slots))]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.x = x
}
