package dirs

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	lockName    = "LOCK"
	currentName = "current"
	writeClass  = vfs.DiskWriteCategory("dirs")
)

// ErrInUse says that another process, or another bookie of this one, has the
// directory.
var ErrInUse = errors.New("data directory is in use by another bookie")

// Current is where the files of a directory lie.
func Current(fs vfs.FS, dir string) string { return fs.PathJoin(dir, currentName) }

// Prepare makes a directory, durably, and locks it until the closer is closed.
func Prepare(fs vfs.FS, dir string) (io.Closer, error) {
	if err := mkdir(fs, Current(fs, dir)); err != nil {
		return nil, fmt.Errorf("make data directory %s: %w", dir, err)
	}
	lock, err := fs.Lock(fs.PathJoin(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", dir, errors.Join(ErrInUse, err))
	}
	return lock, nil
}

// mkdir makes dir and syncs every directory above it. Those that exist already
// are synced as well: the run that made them may have ended before it did so.
// One that may not be opened was not made by a bookie.
func mkdir(fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for d := dir; d != fs.PathDir(d); d = fs.PathDir(d) {
		if err := SyncDir(fs, fs.PathDir(d)); err != nil && !errors.Is(err, iofs.ErrPermission) {
			return err
		}
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// TempName is the name under which WriteFile makes a file.
func TempName(name string) string { return name + ".tmp" }

// WriteFile makes a small file, durably, so that a crash leaves all of it or
// none.
func WriteFile(fs vfs.FS, dir, name string, b []byte) error {
	tmp := fs.PathJoin(dir, TempName(name))
	f, err := fs.Create(tmp, writeClass)
	if err != nil {
		return err
	}
	_, err = f.Write(slices.Clone(b)) // vfs lets Write scribble over what it was given
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(tmp, fs.PathJoin(dir, name)); err != nil {
		return err
	}
	return SyncDir(fs, dir)
}

// ReadFile reads a small file; ok is false if there is none.
func ReadFile(fs vfs.FS, path string) (b []byte, ok bool, err error) {
	f, err := fs.Open(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	b, err = io.ReadAll(f)
	return b, true, errors.Join(err, f.Close())
}
