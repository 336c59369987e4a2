package entrylog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/loglode/loglode/bookie/bk"
)

const (
	fileSuffix = ".log"
	chunkBytes = 512 << 10 // one write
	openMax    = 128       // files kept open for reading
	writeClass = vfs.DiskWriteCategory("entrylog")
)

func fileName(log LogID) string { return fmt.Sprintf("%08x%s", uint32(log), fileSuffix) }

func parseFileName(name string) (LogID, bool) {
	hex, ok := strings.CutSuffix(name, fileSuffix)
	if !ok || len(hex) != 8 {
		return 0, false
	}
	n, err := strconv.ParseUint(hex, 16, 32)
	return LogID(n), err == nil
}

// Store is the entry logs of one ledger directory. Append, Sync and Close are
// for one goroutine at a time; reads may come from any number.
type Store struct {
	fs       vfs.FS
	dir      string
	logBytes int64

	// Of the writer.
	next    LogID
	cur     *file
	buf     []byte
	written int64 // bytes of cur in the file; buf comes next
	started int64 // bytes of cur whose way to the disk has begun
	synced  bool  // a Sync of cur has returned without an error
	ledgers map[bk.LedgerID]int64
	scratch [12]byte

	mu   sync.Mutex // guards what follows
	open map[LogID]*file
	tick uint64
}

// file is an open file and who uses it.
type file struct {
	log  LogID
	f    vfs.File
	refs int    // guarded by Store.mu; one is the table's own
	used uint64 // guarded by Store.mu
}

// Open lists the entry logs in dir, which exists. logBytes is the size at
// which one is closed.
func Open(fs vfs.FS, dir string, logBytes int64) (*Store, error) {
	s := &Store{fs: fs, dir: dir, logBytes: logBytes, next: 1, open: make(map[LogID]*file)}
	logs, err := s.Logs()
	if err != nil {
		return nil, err
	}
	if len(logs) > 0 {
		s.next = logs[len(logs)-1] + 1
	}
	return s, nil
}

// Logs lists the logs in rising order.
func (s *Store) Logs() ([]LogID, error) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list entry logs in %s: %w", s.dir, err)
	}
	var logs []LogID
	for _, n := range names {
		if log, ok := parseFileName(n); ok {
			logs = append(logs, log)
		}
	}
	slices.Sort(logs)
	return logs, nil
}

// Append adds an entry and tells where it will lie. It is durable after Sync.
func (s *Store) Append(body []byte) (LogID, int64, error) {
	if s.cur == nil {
		if err := s.create(); err != nil {
			return 0, 0, err
		}
	}
	off := s.written + int64(len(s.buf))
	s.buf = appendRecord(s.buf, &s.scratch, s.cur.log, off, body)
	s.ledgers[bk.BodyLedger(body)] += int64(recordHeaderSize + len(body))
	if len(s.buf) >= chunkBytes {
		if err := s.drain(); err != nil {
			return 0, 0, err
		}
	}
	return s.cur.log, off, nil
}

func (s *Store) create() error {
	log := s.next
	path := s.fs.PathJoin(s.dir, fileName(log))
	f, err := s.fs.Create(path, writeClass)
	if err != nil {
		return fmt.Errorf("create entry log %s: %w", path, err)
	}
	s.next++
	s.cur = &file{log: log, f: f}
	s.buf = appendHeader(s.buf[:0], log)
	s.written, s.started, s.synced = 0, 0, false
	s.ledgers = make(map[bk.LedgerID]int64)
	if err := syncDir(s.fs, s.dir); err != nil {
		return fmt.Errorf("sync directory of entry log %s: %w", path, err)
	}
	return nil
}

func (s *Store) drain() error {
	if len(s.buf) == 0 {
		return nil
	}
	if _, err := s.cur.f.Write(s.buf); err != nil {
		return fmt.Errorf("write entry log %s: %w", fileName(s.cur.log), err)
	}
	s.written += int64(len(s.buf))
	s.buf = s.buf[:0]
	if s.written-s.started < 2*chunkBytes {
		return nil
	}
	// Begin to write back now, so that Sync does not find all of it waiting.
	s.started = s.written
	if _, err := s.cur.f.SyncTo(s.written); err != nil {
		return fmt.Errorf("start write-back of entry log %s: %w", fileName(s.cur.log), err)
	}
	return nil
}

// Sync makes all appended entries durable. A log that is full is closed with
// its footer. After an error of Append or Sync call Discard.
func (s *Store) Sync() error {
	if s.cur == nil {
		return nil
	}
	full := s.written+int64(len(s.buf)) >= s.logBytes
	if full {
		s.buf = appendFooter(s.buf, s.written+int64(len(s.buf)), s.rows())
	}
	if err := s.drain(); err != nil {
		return err
	}
	if err := s.cur.f.SyncData(); err != nil {
		return fmt.Errorf("sync entry log %s: %w", fileName(s.cur.log), err)
	}
	s.synced = true
	if full {
		return s.Abandon()
	}
	return nil
}

func (s *Store) rows() []LedgerBytes {
	rows := make([]LedgerBytes, 0, len(s.ledgers))
	for l, n := range s.ledgers {
		rows = append(rows, LedgerBytes{Ledger: l, Bytes: n})
	}
	slices.SortFunc(rows, func(a, b LedgerBytes) int {
		if a.Ledger < b.Ledger {
			return -1
		}
		return 1
	})
	return rows
}

// Abandon lets go of the log being written, for good: what was not synced is
// not to be trusted. The next Append begins a new one.
func (s *Store) Abandon() error {
	if s.cur == nil {
		return nil
	}
	f := s.cur.f
	s.cur, s.buf = nil, s.buf[:0]
	return f.Close()
}

// Discard is Abandon for a log that no index names since its last Sync: a file
// that was never synced goes, so that tries on a full disk do not pile up.
func (s *Store) Discard() error {
	if s.cur == nil || s.synced {
		return s.Abandon()
	}
	path := s.fs.PathJoin(s.dir, fileName(s.cur.log))
	err := s.Abandon()
	if rerr := s.fs.Remove(path); rerr != nil {
		err = errors.Join(err, fmt.Errorf("remove entry log %s: %w", path, rerr))
	}
	return err
}

// Read appends to dst the body of size bytes that lies at off. Damage is a
// *bk.CorruptError.
func (s *Store) Read(log LogID, off int64, l bk.LedgerID, e bk.EntryID, size int, dst []byte) ([]byte, error) {
	f, err := s.acquire(log)
	if err != nil {
		return dst, err
	}
	defer s.release(f)
	at := len(dst)
	dst = slices.Grow(dst, recordHeaderSize+size)[:at+recordHeaderSize+size]
	if _, err := f.f.ReadAt(dst[at:], off); err != nil {
		return dst[:at], fmt.Errorf("read entry log %s at %d: %w", fileName(log), off, err)
	}
	body, err := parseRecord(dst[at:], log, off)
	if err != nil {
		return dst[:at], err
	}
	if len(body) != size || bk.BodyLedger(body) != l || bk.BodyEntry(body) != e {
		return dst[:at], recordCorrupt(log, off, fmt.Sprintf("ledger %d entry %d, %d bytes", l, e, size),
			fmt.Sprintf("ledger %d entry %d, %d bytes", bk.BodyLedger(body), bk.BodyEntry(body), len(body)))
	}
	copy(dst[at:], body)
	return dst[:at+size], nil
}

// acquire opens a log, or takes it from the table of open ones.
func (s *Store) acquire(log LogID) (*file, error) {
	s.mu.Lock()
	s.tick++
	if f := s.open[log]; f != nil {
		f.refs++
		f.used = s.tick
		s.mu.Unlock()
		return f, nil
	}
	s.mu.Unlock()
	h, err := s.fs.Open(s.fs.PathJoin(s.dir, fileName(log)), vfs.RandomReadsOption)
	if err != nil {
		return nil, fmt.Errorf("open entry log: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.open[log]; f != nil { // another reader was faster
		f.refs++
		return f, h.Close()
	}
	f := &file{log: log, f: h, refs: 2, used: s.tick}
	s.open[log] = f
	if len(s.open) > openMax {
		s.evict()
	}
	return f, nil
}

// evict closes the file that was not used for longest. mu is held; closing a
// file that is only read does no I/O.
func (s *Store) evict() {
	var oldest *file
	for _, f := range s.open {
		if f.refs == 1 && (oldest == nil || f.used < oldest.used) {
			oldest = f
		}
	}
	if oldest != nil {
		delete(s.open, oldest.log)
		_ = oldest.f.Close() // read-only: nothing is lost
	}
}

func (s *Store) release(f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.refs--; f.refs == 0 { // removed meanwhile
		_ = f.f.Close() // read-only: nothing is lost
	}
}

// Close closes all files. Nothing may be read any more.
func (s *Store) Close() error {
	err := s.Abandon()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.open {
		err = errors.Join(err, f.f.Close())
	}
	clear(s.open)
	return err
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
