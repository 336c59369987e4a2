package journal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	fileSuffix  = ".journal"
	spareMax    = 5       // recycled files kept for later: as many as a flush sets free, as a rule
	firstBytes  = 8 << 20 // size of a file that somebody waits for
	writeClass  = vfs.DiskWriteCategory("journal")
	zeroingSize = 256 << 10

	retryInterval = time.Second // from one failed try to prepare a file to the next
)

var zeroBlock = make([]byte, zeroingSize)

func fileName(seq uint64) string { return fmt.Sprintf("%016x%s", seq, fileSuffix) }

func parseFileName(name string) (seq uint64, ok bool) {
	hex, ok := strings.CutSuffix(name, fileSuffix)
	if !ok || len(hex) != 16 {
		return 0, false
	}
	seq, err := strconv.ParseUint(hex, 16, 64)
	return seq, err == nil
}

// prepared is a file that is ready to be written: its blocks are allocated and
// its name is durable.
type prepared struct {
	seq  uint64
	file vfs.File
	size int64
	err  error
}

// pool keeps files that are not needed any more and makes the next one ready
// while the one before is written. What fails is tried again, with a fresh
// file, until there is room. Its goroutine, run, ends with close.
type pool struct {
	fs     vfs.FS
	dir    string
	bytes  int64
	noFile func(error) // of Options

	used   atomic.Int64  // bytes written to the file in use
	usedOf atomic.Int64  // its size
	filled atomic.Int64  // bytes of the next file that are written, while its fill waits; else 0
	target atomic.Int64  // the size it will have
	poke   chan struct{} // wakes a fill that waits

	want    chan uint64 // seq to prepare
	quit    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex // guards what follows
	changed sync.Cond  // take waits here, on mu
	next    *prepared  // nil while there is none
	hurry   bool       // take waits, or nobody may be disturbed yet
	err     error      // why there is none, nil while the first try is under way
	spare   []string   // names
}

func newPool(o Options) *pool {
	p := &pool{
		fs: o.FS, dir: o.Dir, bytes: o.FileBytes, noFile: o.NoFile,
		want: make(chan uint64, 1), poke: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{}),
	}
	p.changed.L = &p.mu
	return p
}

// start gives the first file and begins to prepare the one after it. A full
// disk may still have room for a small one: it is enough to take fences.
func (p *pool) start(seq uint64) (vfs.File, int64, error) {
	p.hurry = true
	defer p.calm()
	var first prepared
	for _, size := range []int64{firstBytes, firstBytes / 16, 16 * blockSize} {
		if first = p.prepare(seq, min(size, p.bytes)); !vfs.IsNoSpaceError(first.err) {
			break
		}
	}
	if first.err != nil {
		return nil, 0, first.err
	}
	p.usedOf.Store(first.size)
	go p.run()
	p.want <- seq + 1
	return first.file, first.size, nil
}

func (p *pool) calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hurry = false
}

func (p *pool) run() {
	defer close(p.stopped)
	for seq := range p.want {
		for failed := false; ; failed = true {
			// Sizes double from the first file on: little is filled for little use.
			r := p.prepare(seq, min(p.bytes, 2*p.usedOf.Load()))
			p.put(r)
			if p.noFile != nil && failed == (r.err == nil) {
				p.noFile(r.err) // the first failure, or the end of it
			}
			if r.err == nil {
				break
			}
			t := time.NewTimer(retryInterval)
			select {
			case <-t.C:
			case <-p.quit:
				t.Stop()
				return
			}
		}
	}
}

func (p *pool) put(r prepared) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.err = nil, r.err
	if r.err == nil {
		p.next = &r
	}
	p.changed.Broadcast()
}

// take gives the file that was prepared for seq and has the next one prepared.
// It waits while the first try is under way; what failed is a noFileError, and
// take may be called again.
func (p *pool) take(seq uint64) (vfs.File, int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.next == nil && p.err == nil {
		p.hurry = true
		p.wakeFill()
		p.changed.Wait()
	}
	p.hurry = false
	if p.next == nil {
		return nil, 0, &noFileError{p.err}
	}
	r := p.next
	p.next = nil
	p.used.Store(0)
	p.usedOf.Store(r.size)
	p.want <- seq + 1 // has room: run is done with the one before
	return r.file, r.size, nil
}

// noFileError says that there is no file to go on in, yet.
type noFileError struct{ err error }

func (e *noFileError) Error() string { return e.err.Error() }
func (e *noFileError) Unwrap() error { return e.err }

func (p *pool) prepare(seq uint64, bytes int64) prepared {
	name := p.fs.PathJoin(p.dir, fileName(seq))
	if old := p.pop(); old != "" {
		if err := p.fs.Rename(p.fs.PathJoin(p.dir, old), name); err != nil {
			p.push(old)
			return prepared{err: fmt.Errorf("recycle journal file %s as %d: %w", old, seq, err)}
		}
	}
	f, err := p.fs.OpenReadWrite(name, writeClass)
	if err != nil {
		return prepared{err: fmt.Errorf("open journal file %d: %w", seq, err)}
	}
	size, err := p.fill(f, bytes)
	if err == nil {
		err = syncDir(p.fs, p.dir)
	}
	if err != nil {
		// Not to be tried again with the same file: its sync may have failed.
		return prepared{err: errors.Join(fmt.Errorf("prepare journal file %d: %w", seq, err), f.Close(), p.fs.Remove(name))}
	}
	return prepared{seq: seq, file: f, size: size}
}

// fill writes zeros behind the end of a file until it has bytes bytes. A file
// system moves metadata with a sync as long as it has to allocate, or to mark
// as written, what it syncs; blocks that were written once are free of that.
//
// It goes a step at a time and stays only a little ahead of the file that is
// being written, unless somebody waits: many megabytes at once would hold up
// the syncs of that file, and cost a machine with little load its short reserve
// of disk and processor.
func (p *pool) fill(f vfs.File, bytes int64) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := st.Size()
	if size >= bytes {
		return size, nil
	}
	if err := f.Preallocate(size, bytes-size); err != nil && !errors.Is(err, vfs.ErrUnsupported) && vfs.IsNoSpaceError(err) {
		return 0, err // any other failure only costs speed
	}
	p.target.Store(bytes)
	for size < bytes {
		n := min(bytes-size, zeroingSize)
		if _, err := f.WriteAt(zeroBlock[:n], size); err != nil {
			return 0, err
		}
		size += n
		if size < bytes {
			if _, err := f.SyncTo(size); err != nil {
				return 0, err
			}
			if !p.awaitUse(size) {
				break
			}
		}
	}
	return size, f.Sync()
}

// progress notes that bytes of the file in use, whose size is size, are written.
func (p *pool) progress(bytes, size int64) {
	p.usedOf.Store(size)
	p.used.Store(bytes)
	if p.behind(p.filled.Load()) {
		p.wakeFill()
	}
}

func (p *pool) wakeFill() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// behind tells that a next file of which filled bytes are written should be
// filled further: the share of it that is ready has to exceed the share of the
// file in use that is written by a quarter.
func (p *pool) behind(filled int64) bool {
	const kib = 10 // products of bytes would not fit
	return filled > 0 && 4*(filled>>kib)*(p.usedOf.Load()>>kib) < 5*(p.used.Load()>>kib)*(p.target.Load()>>kib)
}

// awaitUse waits after a step of fill, up to filled, until the next step is due
// or somebody waits for the file; false means that the pool ends.
func (p *pool) awaitUse(filled int64) bool {
	p.filled.Store(filled)
	defer p.filled.Store(0)
	for {
		p.mu.Lock()
		hurry := p.hurry
		p.mu.Unlock()
		if hurry || p.behind(filled) {
			return true
		}
		select {
		case <-p.poke:
		case <-p.quit:
			return false
		}
	}
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (p *pool) pop() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.spare) == 0 {
		return ""
	}
	name := p.spare[0]
	p.spare = p.spare[1:]
	return name
}

func (p *pool) push(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare = append(p.spare, name)
}

// give hands files over to be recycled; those beyond spareMax, and small ones,
// are removed.
func (p *pool) give(files []fileInfo) error {
	var errs []error
	for _, f := range files {
		p.mu.Lock()
		keep := len(p.spare) < spareMax && f.size >= p.bytes
		if keep {
			p.spare = append(p.spare, f.name)
		}
		p.mu.Unlock()
		if !keep {
			errs = append(errs, p.fs.Remove(p.fs.PathJoin(p.dir, f.name)))
		}
	}
	return errors.Join(errs...)
}

// close ends run and closes the file that nobody took.
func (p *pool) close() error {
	close(p.want)
	close(p.quit)
	<-p.stopped
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		return nil
	}
	return p.next.file.Close()
}
