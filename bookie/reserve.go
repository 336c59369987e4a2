package bookie

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/internal/dirs"
)

// reserve keeps room on the disks of all directories, for what must be possible
// on a full one: to start, and to delete.
func (b *Bookie) reserve() {
	for _, dir := range append(append([]string{}, b.o.JournalDirs...), b.o.LedgerDirs...) {
		if err := dirs.Reserve(b.o.FS, dir, b.o.ReserveBytes); err != nil {
			b.log.Warn("no room could be reserved", zap.Error(err))
		}
	}
}

// startJournal starts a journal, on a full disk with the room reserved for it.
func (b *Bookie) startJournal(j *journalRef) error {
	err := j.Start()
	if !vfs.IsNoSpaceError(err) {
		return err
	}
	if had, gerr := b.giveReserve(b.o.JournalDirs[j.id]); !had {
		return errors.Join(err, gerr)
	}
	return j.Start()
}

// makeRoom sees to it that the index of a ledger directory can be changed. It
// is not tried first: an index ends when it cannot write its manifest.
func (b *Bookie) makeRoom(dir string) error {
	u, err := b.o.FS.GetDiskUsage(dir)
	if err != nil || u.TotalBytes == 0 || int64(u.AvailBytes) >= indexRoom {
		return nil
	}
	_, err = b.giveReserve(dir)
	return err
}

func (b *Bookie) giveReserve(dir string) (had bool, err error) {
	had, err = dirs.GiveReserve(b.o.FS, dir)
	if had {
		b.log.Warn("disk is full: the reserved room is used", zap.String("dir", dir))
	}
	return had, err
}

// indexRoom is what a flush leaves free for the index: a manifest that cannot be
// written ends it.
const indexRoom = 2 << 20

// checkRoom refuses to begin to write what the disk has no room for, so far as
// the file system can tell. beside is room that is not to be used.
func (s *shard) checkRoom(bytes, beside int64) error {
	u, err := s.b.o.FS.GetDiskUsage(s.dir)
	if err != nil || u.TotalBytes == 0 {
		return nil
	}
	if need := bytes + bytes/64 + indexRoom + beside; int64(u.AvailBytes) < need {
		return fmt.Errorf("%s: %d bytes are free, %d needed: %w", s.dir, u.AvailBytes, need, syscall.ENOSPC)
	}
	return nil
}

// reserveLack is what a flush must leave of the free room because the reserve was
// given up: only what makes room may use that.
func (s *shard) reserveLack() int64 {
	return dirs.ReserveLack(s.b.o.FS, s.b.o.LedgerDirs[s.id], s.b.o.ReserveBytes)
}

// free is the share of the disk that is free beside the reserve, whether or not
// that is taken; known is false if the file system cannot tell.
func (s *shard) free() (free float64, known bool) {
	u, err := s.b.o.FS.GetDiskUsage(s.dir)
	if err != nil || u.TotalBytes == 0 {
		return 0, false
	}
	return max(0, float64(u.AvailBytes)-float64(s.reserveLack())) / float64(u.TotalBytes), true
}

// low reports whether the directory has so little free space that it takes
// nothing, or did until a short while ago.
func (s *shard) low() bool {
	free, known := s.free()
	return known && free < freeHigh
}
