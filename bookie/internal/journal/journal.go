package journal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// ErrClosed is the answer to an append after Close.
var ErrClosed = errors.New("journal is closed")

// Waiter learns what became of what it queued. Done is called by the journal's
// goroutine, or inside Append when the journal has failed.
type Waiter interface {
	Done(err error)
}

// Record is one record to append. Body is not kept after Append returns.
type Record struct {
	Type Type
	Body []byte
}

// Group tells of one group.
type Group struct {
	Records  int
	Bytes    int // as written, padding included
	Duration time.Duration
}

// Options sets up a journal.
type Options struct {
	FS         vfs.FS
	Dir        string // exists
	FileBytes  int64  // size of a file, header included
	QueueBytes int    // WaitRoom waits while the next group is larger

	// Settled is called by the journal's goroutine with the waiters of a group
	// after its sync, in the order of their appends. nil calls Done of each.
	// The slice is not kept.
	Settled func(ws []Waiter, g Group, err error)
	// Failed is called once, by the journal's goroutine, when the journal ends
	// because of err, before any waiter learns of it.
	Failed func(err error)
	// NoFile is called, by one goroutine, with why the file after the one that
	// is written cannot be made, and with nil once it is. Until the last file is
	// full, the journal goes on.
	NoFile func(err error)
	// Stalled is called, by one goroutine, with why the journal has no room to
	// go on, and with nil once it has. Whoever waits gets the error; the records
	// stay and are written first then.
	Stalled func(err error)
	Logger  *zap.Logger
}

// group is what one write and one sync make durable.
type group struct {
	base    LSN
	buf     []byte // header and records
	count   int
	waiters []Waiter
}

func (g *group) reset(base LSN) {
	const keepMax = 4 << 20
	if cap(g.buf) > keepMax {
		g.buf = nil
	}
	if cap(g.buf) < groupHeaderSize {
		g.buf = make([]byte, groupHeaderSize, 64<<10)
	}
	clear(g.waiters)
	g.base, g.buf, g.count, g.waiters = base, g.buf[:groupHeaderSize], 0, g.waiters[:0]
}

func (g *group) end() LSN {
	if g.count == 0 {
		return g.base
	}
	return alignUp(g.base + LSN(len(g.buf)))
}

// seal completes the bytes of a group.
func (g *group) seal() {
	groupHeader{lsn: g.base, size: uint32(len(g.buf)), count: uint32(g.count)}.put(g.buf)
	if n := len(g.buf) % blockSize; n != 0 {
		g.buf = append(g.buf, zeroBlock[:blockSize-n]...)
	}
}

// Journal is one open journal directory. One goroutine, started by Start and
// ended by Close, does all writing; a second, of its file pool, prepares the
// next file.
type Journal struct {
	o    Options
	log  *zap.Logger
	pool *pool

	// Owned by run, after Start.
	file     vfs.File
	fileSize int64
	header   fileHeader
	begun    bool // the header is written

	// Set by Open and Replay, for Start.
	unstarted []fileInfo // files whose header is not theirs
	from, end LSN        // where the replay began, where the replayed records end

	stopped chan struct{}
	closed  chan struct{} // closed by Close
	stalled atomic.Bool

	mu      sync.Mutex    // guards what follows
	wake    sync.Cond     // run waits here, on mu
	cur     *group        // forms
	spare   *group        // nil while it is being written
	synced  LSN           // everything below is durable
	room    chan struct{} // closed when a group was taken; nil if nobody waits
	files   []fileInfo    // in seq order, the one being written last
	err     error         // why the journal ended
	closing bool
	idle    bool // run waits for work
}

// fileInfo is one file that holds records.
type fileInfo struct {
	name   string
	header fileHeader
	size   int64
}

// Tail is the LSN that the next record will be at or above.
func (j *Journal) Tail() LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cur.base + LSN(len(j.cur.buf))
}

// Synced is the LSN below which every record is durable.
func (j *Journal) Synced() LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.synced
}

// Err tells why the journal ended, nil while it works.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Append queues records as one unit and w to learn of them. It never waits:
// see WaitRoom. If the journal has ended, w is not used and the error is
// returned.
func (j *Journal) Append(w Waiter, recs []Record) error {
	j.mu.Lock()
	if j.err != nil {
		err := j.err
		j.mu.Unlock()
		return err
	}
	g := j.cur
	for _, r := range recs {
		g.buf = appendRecord(g.buf, g.base+LSN(len(g.buf)), r.Type, r.Body)
	}
	g.count += len(recs)
	g.waiters = append(g.waiters, w)
	wake := j.idle
	j.idle = false
	j.mu.Unlock()
	if wake {
		j.wake.Signal()
	}
	return nil
}

// Stalled reports whether the journal has no room on its disk: what is
// appended now would get an error.
func (j *Journal) Stalled() bool { return j.stalled.Load() }

// Room reports whether the next group has room for n bytes more. A group
// without records has room for anything.
func (j *Journal) Room(n int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.roomFor(n)
}

// roomFor is Room; mu is held. A journal that has ended or stalled answers by
// itself.
func (j *Journal) roomFor(n int) bool {
	return j.err != nil || j.stalled.Load() || j.cur.count == 0 || len(j.cur.buf)+n <= j.o.QueueBytes
}

// WaitRoom returns true once there is Room, false after timeout.
func (j *Journal) WaitRoom(n int, timeout time.Duration) bool {
	var deadline <-chan time.Time
	for {
		j.mu.Lock()
		if j.roomFor(n) {
			j.mu.Unlock()
			return true
		}
		if j.room == nil {
			j.room = make(chan struct{})
		}
		room := j.room
		j.mu.Unlock()
		if deadline == nil {
			t := time.NewTimer(timeout)
			defer t.Stop()
			deadline = t.C
		}
		select {
		case <-room:
		case <-deadline:
			return false
		}
	}
}

// take waits for a group; nil means that the journal was closed.
func (j *Journal) take() *group {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.cur.waiters) == 0 {
		if j.closing {
			j.err = ErrClosed
			return nil
		}
		j.idle = true
		j.wake.Wait()
	}
	j.idle = false
	g := j.cur
	j.cur = j.spare
	j.spare = nil
	j.cur.reset(g.end())
	j.wakeRoom()
	return g
}

func (j *Journal) wakeRoom() {
	if j.room != nil {
		close(j.room)
		j.room = nil
	}
}

func (j *Journal) run() {
	defer close(j.stopped)
	for {
		g := j.take()
		if g == nil {
			return
		}
		start := time.Now()
		g.seal()
		bytes, err := j.write(g)
		if isNoRoom(err) {
			bytes, err = j.stall(g, err)
		}
		if err == ErrClosed {
			j.closeStalled()
			return
		}
		if err != nil {
			j.fail(g, err)
			return
		}
		end := g.end()
		j.settle(g.waiters, Group{Records: g.count, Bytes: bytes, Duration: time.Since(start)}, nil, end)
		j.mu.Lock()
		j.spare = g
		j.mu.Unlock()
	}
}

func (j *Journal) settle(ws []Waiter, g Group, err error, synced LSN) {
	if err == nil {
		j.mu.Lock()
		j.synced = synced
		j.mu.Unlock()
	}
	if j.o.Settled != nil {
		j.o.Settled(ws, g, err)
		return
	}
	for _, w := range ws {
		w.Done(err)
	}
}

// write makes a group durable. A group without records only waits for those
// before it. After an error that isNoRoom it may be called again: nothing that
// was accepted is lost then, and no sync has failed.
func (j *Journal) write(g *group) (int, error) {
	if g.count == 0 {
		return 0, nil
	}
	off := blockSize + int64(g.base-j.header.start)
	if off+int64(len(g.buf)) > j.fileSize && off > blockSize {
		if err := j.roll(g.base); err != nil {
			return 0, err
		}
		off = blockSize
	}
	if !j.begun {
		// The header goes with the first group: until then the file is unused.
		if err := j.writeHeader(); err != nil {
			return 0, err
		}
	}
	if _, err := j.file.WriteAt(g.buf, off); err != nil {
		return 0, fmt.Errorf("write %d bytes to journal file %d at %d: %w", len(g.buf), j.header.seq, off, err)
	}
	if err := j.file.SyncData(); err != nil {
		return 0, &syncError{fmt.Errorf("sync journal file %d: %w", j.header.seq, err)}
	}
	j.fileSize = max(j.fileSize, off+int64(len(g.buf)))
	j.pool.progress(off+int64(len(g.buf)), j.fileSize)
	return len(g.buf), nil
}

func (j *Journal) writeHeader() error {
	block := j.header.append(make([]byte, 0, blockSize))
	if _, err := j.file.WriteAt(block[:blockSize], 0); err != nil {
		return fmt.Errorf("write header of journal file %d: %w", j.header.seq, err)
	}
	j.begun = true
	j.mu.Lock()
	defer j.mu.Unlock()
	j.files = append(j.files, fileInfo{name: fileName(j.header.seq), header: j.header, size: j.fileSize})
	return nil
}

// roll goes on in the next file, from LSN start.
func (j *Journal) roll(start LSN) error {
	f, size, err := j.pool.take(j.header.seq + 1)
	if err != nil {
		return err
	}
	old := j.file
	j.file, j.fileSize, j.begun = f, size, false
	j.header = fileHeader{seq: j.header.seq + 1, start: start, prevSeq: j.header.seq, prevEnd: start}
	if err := old.Close(); err != nil {
		return fmt.Errorf("close journal file %d: %w", j.header.seq-1, err)
	}
	return nil
}

// fail ends the journal: g and all that waits behind it learn of err.
func (j *Journal) fail(g *group, err error) {
	err = fmt.Errorf("journal %s ended: %w", j.o.Dir, err)
	j.mu.Lock()
	j.err = err
	next := j.cur.waiters
	j.cur.waiters = nil
	j.wakeRoom()
	j.mu.Unlock()
	if j.o.Failed != nil {
		j.o.Failed(err)
	}
	j.settle(g.waiters, Group{Records: g.count}, err, 0)
	j.settle(next, Group{}, err, 0)
}

// Recycle lets go of every file whose records are all below lsn.
func (j *Journal) Recycle(lsn LSN) error {
	j.mu.Lock()
	var free []fileInfo
	for len(j.files) > 1 && j.files[1].header.prevEnd <= lsn {
		free = append(free, j.files[0])
		j.files = j.files[1:]
	}
	j.mu.Unlock()
	return j.pool.give(free)
}

// Bytes is the size of the files that hold records.
func (j *Journal) Bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	var n int64
	for _, f := range j.files {
		n += f.size
	}
	return n
}

// Close writes what is queued, ends the goroutines and closes the files.
func (j *Journal) Close() error {
	j.mu.Lock()
	started := j.stopped != nil
	j.closing = true
	j.mu.Unlock()
	if !started {
		return nil
	}
	close(j.closed)
	j.wake.Signal()
	<-j.stopped
	err := j.file.Close()
	return errors.Join(err, j.pool.close())
}
