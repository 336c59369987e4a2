package bookie

import (
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// limitFS is a file system with a disk of a size for each directory of its root.
// A file takes whole blocks, one at least; a write that needs more than there
// are fails with ENOSPC and changes nothing.
type limitFS struct {
	vfs.FS
	mu    sync.Mutex // guards what follows
	total int64
	files map[string]int64 // bytes taken
	dummy map[string]int64 // bytes of a disk that others take
}

const limitBlock = 4096

func newLimitFS(fs vfs.FS, total int64) *limitFS {
	return &limitFS{FS: fs, total: total, files: make(map[string]int64), dummy: make(map[string]int64)}
}

func (l *limitFS) Unwrap() vfs.FS { return l.FS }

// disk is the directory of the root that a file is in.
func disk(name string) string {
	d, _, _ := strings.Cut(name[1:], "/")
	return "/" + d
}

func (l *limitFS) free(name string) int64 {
	d := disk(name)
	free := l.total - l.dummy[d]
	for f, n := range l.files {
		if disk(f) == d {
			free -= n
		}
	}
	return free
}

// takeRest leaves no block of a disk free.
func (l *limitFS) takeRest(d string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dummy[d] += l.free(d)
}

// grow has a file take at least size bytes.
func (l *limitFS) grow(name string, size int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	size = max((size+limitBlock-1)/limitBlock, 1) * limitBlock
	if need := size - l.files[name]; need > 0 {
		if need > l.free(name) {
			return &vfsError{"write", name, syscall.ENOSPC}
		}
		l.files[name] = size
	}
	return nil
}

func (l *limitFS) file(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &limitFile{File: f, l: l, name: name}, nil
}

func (l *limitFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := l.grow(name, 0); err != nil {
		return nil, err
	}
	f, err := l.FS.Create(name, c)
	return l.file(f, name, err)
}

func (l *limitFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	if err := l.grow(name, 0); err != nil {
		return nil, err
	}
	f, err := l.FS.OpenReadWrite(name, c, o...)
	return l.file(f, name, err)
}

func (l *limitFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(old, name, c)
	l.move(old, name)
	return l.file(f, name, err)
}

func (l *limitFS) Rename(old, name string) error {
	l.move(old, name)
	return l.FS.Rename(old, name)
}

func (l *limitFS) move(old, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files[name] = l.files[old]
	delete(l.files, old)
}

func (l *limitFS) Remove(name string) error {
	l.mu.Lock()
	delete(l.files, name)
	l.mu.Unlock()
	return l.FS.Remove(name)
}

func (l *limitFS) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := uint64(max(l.free(name), 0))
	return vfs.DiskUsage{TotalBytes: uint64(l.total), AvailBytes: free, UsedBytes: uint64(l.total) - free}, nil
}

type limitFile struct {
	vfs.File
	l    *limitFS
	name string
	pos  int64
}

func (f *limitFile) Write(p []byte) (int, error) {
	if err := f.l.grow(f.name, f.pos+int64(len(p))); err != nil {
		return 0, err
	}
	f.pos += int64(len(p))
	return f.File.Write(p)
}

func (f *limitFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.l.grow(f.name, off+int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *limitFile) Preallocate(off, n int64) error { return f.l.grow(f.name, off+n) }
