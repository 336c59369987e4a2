package index

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// opening reports whether a file says which tables there are, while pebble
// opens the index.
func (g *guardFS) opening(name string) bool {
	base := g.PathBase(name)
	return !g.opened.Load() && (strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker.manifest."))
}

// guardFile is a file of a guardFS that is written.
type guardFile struct {
	vfs.File
	g    *guardFS
	name string
}

func (g *guardFS) file(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &guardFile{File: f, g: g, name: name}, nil
}

// change runs a call that changes the file.
func (f *guardFile) change(call func() error) error {
	err := f.g.change(call)
	if err != nil && f.g.opening(f.name) {
		f.g.fatal(fmt.Errorf("write %s: %w", f.name, err))
		return nil
	}
	return err
}

func (f *guardFile) Write(p []byte) (int, error) {
	err := f.change(func() error {
		_, err := f.File.Write(p)
		return err
	})
	return written(p, err)
}

func (f *guardFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.change(func() error {
		_, err := f.File.WriteAt(p, off)
		return err
	})
	return written(p, err)
}

// written is the result of a write. How much of one that failed is on disk is
// not known.
func written(p []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *guardFile) Sync() error { return f.change(f.File.Sync) }

func (f *guardFile) SyncData() error { return f.change(f.File.SyncData) }

func (f *guardFile) SyncTo(length int64) (full bool, err error) {
	err = f.change(func() error {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}
