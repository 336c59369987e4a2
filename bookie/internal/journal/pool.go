package journal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	fileSuffix  = ".journal"
	spareMax    = 3       // recycled files kept for later
	firstBytes  = 8 << 20 // size of a file that somebody waits for
	writeClass  = vfs.DiskWriteCategory("journal")
	zeroingSize = 256 << 10
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
// while the one before is written. Its goroutine, run, ends with close.
type pool struct {
	fs    vfs.FS
	dir   string
	bytes int64

	want    chan uint64   // seq to prepare
	ready   chan prepared // what became of it
	stopped chan struct{}

	mu    sync.Mutex // guards spare
	spare []string   // names
}

func newPool(o Options) *pool {
	return &pool{
		fs: o.FS, dir: o.Dir, bytes: o.FileBytes,
		want: make(chan uint64, 1), ready: make(chan prepared, 1), stopped: make(chan struct{}),
	}
}

// start gives the first file and begins to prepare the one after it.
func (p *pool) start(seq uint64) (vfs.File, int64, error) {
	first := p.prepare(seq, min(firstBytes, p.bytes))
	if first.err != nil {
		return nil, 0, first.err
	}
	go p.run()
	p.want <- seq + 1
	return first.file, first.size, nil
}

func (p *pool) run() {
	defer close(p.stopped)
	for seq := range p.want {
		p.ready <- p.prepare(seq, p.bytes)
	}
	close(p.ready)
}

// take gives the file that was prepared for seq and has the next one prepared.
// What could not be prepared ahead is tried once more: the disk may have room
// again.
func (p *pool) take(seq uint64) (vfs.File, int64, error) {
	r := <-p.ready
	if r.err != nil {
		r = p.prepare(seq, min(firstBytes, p.bytes))
	}
	if r.err != nil {
		return nil, 0, r.err
	}
	p.want <- seq + 1
	return r.file, r.size, nil
}

func (p *pool) prepare(seq uint64, bytes int64) prepared {
	name := p.fs.PathJoin(p.dir, fileName(seq))
	if old := p.pop(); old != "" {
		if err := p.fs.Rename(p.fs.PathJoin(p.dir, old), name); err != nil {
			return prepared{err: fmt.Errorf("recycle journal file %s as %d: %w", old, seq, err)}
		}
	}
	f, err := p.fs.OpenReadWrite(name, writeClass)
	if err != nil {
		return prepared{err: fmt.Errorf("open journal file %d: %w", seq, err)}
	}
	size, err := fill(f, bytes)
	if err == nil {
		err = syncDir(p.fs, p.dir)
	}
	if err != nil {
		return prepared{err: errors.Join(fmt.Errorf("prepare journal file %d: %w", seq, err), f.Close())}
	}
	return prepared{seq: seq, file: f, size: size}
}

// fill writes zeros behind the end of a file until it has bytes bytes. A file
// system moves metadata with a sync as long as it has to allocate, or to mark
// as written, what it syncs; blocks that were written once are free of that.
func fill(f vfs.File, bytes int64) (int64, error) {
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
	for size < bytes {
		n := min(bytes-size, zeroingSize)
		if _, err := f.WriteAt(zeroBlock[:n], size); err != nil {
			return 0, err
		}
		size += n
	}
	return size, f.Sync()
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
	var err error
	for r := range p.ready {
		if r.file != nil {
			err = errors.Join(err, r.file.Close())
		}
	}
	<-p.stopped
	return err
}
