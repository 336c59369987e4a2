package dirs

import (
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// reserveName holds nothing: its blocks are room for who gives it up.
const reserveName = "reserve"

// Reserve keeps up to bytes of a data directory's disk for the moment when it is
// full: no more than a sixteenth of the disk, and only while four times as much
// is free. What is reserved already stays. A file system that cannot tell its
// usage gets no reserve.
func Reserve(fs vfs.FS, dir string, bytes int64) error {
	lack, avail := reserveLack(fs, dir, bytes)
	if lack == 0 || avail < 4*lack {
		return nil
	}
	path := fs.PathJoin(dir, reserveName)
	f, err := fs.Create(path, writeClass)
	if err != nil {
		return fmt.Errorf("reserve room in %s: %w", dir, err)
	}
	if err = f.Preallocate(0, lack); err == nil || errors.Is(err, vfs.ErrUnsupported) {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		return SyncDir(fs, dir)
	}
	return fmt.Errorf("reserve room in %s: %w", dir, errors.Join(err, fs.Remove(path)))
}

// ReserveLack is how many bytes Reserve would keep and does not yet.
func ReserveLack(fs vfs.FS, dir string, bytes int64) int64 {
	lack, _ := reserveLack(fs, dir, bytes)
	return lack
}

func reserveLack(fs vfs.FS, dir string, bytes int64) (lack, avail int64) {
	u, err := fs.GetDiskUsage(dir)
	if err != nil || u.TotalBytes == 0 {
		return 0, 0
	}
	if _, err := fs.Stat(fs.PathJoin(dir, reserveName)); err == nil {
		return 0, 0
	}
	return min(bytes, int64(u.TotalBytes/16)), int64(u.AvailBytes)
}

// GiveReserve frees what Reserve keeps and reports whether there was anything.
func GiveReserve(fs vfs.FS, dir string) (bool, error) {
	err := fs.Remove(fs.PathJoin(dir, reserveName))
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("give reserved room in %s: %w", dir, err)
	}
	return true, nil
}
