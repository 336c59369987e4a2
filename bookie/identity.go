package bookie

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/dirs"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

// Identity is who a bookie is in its cluster, for the cookie check at start.
type Identity struct {
	ID      bk.BookieID
	Cluster *layout.Cluster
}

// ErrIdentity says that a bookie's directories, its cookie in metadata and its
// options do not belong together. The error text names the part that differs
// and what to do about it.
var ErrIdentity = errors.New("bookie identity check failed")

const cookieName = "VERSION"

// checkIdentity compares the cookie of each directory with the one in metadata.
// A bookie that has none anywhere is new, and gets them. A bookie that lost a
// directory must not answer "no such entry" for what it held.
func (b *Bookie) checkIdentity(ctx context.Context) error {
	id := b.o.Identity
	if id == nil {
		return nil
	}
	want := layout.Cookie{
		BookieID: string(id.ID), JournalDirs: strings.Join(b.o.JournalDirs, ","), LedgerDirs: layout.JoinDirs(b.o.LedgerDirs),
		InstanceID: id.Cluster.InstanceID(),
	}
	stored, _, err := id.Cluster.Cookie(ctx, id.ID)
	registered := err == nil
	if err != nil && !errors.Is(err, metadata.ErrNotFound) {
		return fmt.Errorf("cookie of bookie %s: %w", id.ID, err)
	}
	var have, lack []string
	for _, dir := range append(append([]string{}, b.o.JournalDirs...), b.o.LedgerDirs...) {
		text, ok, err := readCookie(b.o.FS, dir)
		if err != nil {
			return err
		}
		if !ok {
			lack = append(lack, dir)
			continue
		}
		have = append(have, dir)
		if err := compareCookie("data directory "+dir, text, want); err != nil {
			return err
		}
	}
	if registered {
		if err := compareCookie("metadata", stored, want); err != nil {
			return err
		}
	}
	return b.settleCookies(ctx, want, registered, have, lack)
}

// settleCookies decides on a bookie whose cookies agree as far as it has them.
func (b *Bookie) settleCookies(ctx context.Context, want layout.Cookie, registered bool, have, lack []string) error {
	id := b.o.Identity
	switch {
	case registered && len(lack) == 0:
		return nil
	case registered && len(have) == 0:
		return fmt.Errorf("bookie %s has a cookie in metadata, but %s is empty: its disks were lost or are not mounted; "+
			"mount them, or have the cluster re-replicate the bookie and delete its cookie: %w", id.ID, strings.Join(lack, ", "), ErrIdentity)
	case registered:
		return fmt.Errorf("bookie %s: data directory %s has no cookie although others have one: it was lost or is not mounted: %w",
			id.ID, strings.Join(lack, ", "), ErrIdentity)
	case len(have) > 0 && !b.halfMade(lack):
		return fmt.Errorf("bookie %s has data in %s, but no cookie in metadata: it was removed from the cluster, or the metadata was lost; "+
			"empty the directories to join as a new bookie: %w", id.ID, strings.Join(have, ", "), ErrIdentity)
	}
	for _, dir := range lack {
		if err := mustBeEmpty(b.o.FS, dir); err != nil {
			return err
		}
	}
	text := want.Marshal()
	for _, dir := range lack {
		if err := writeCookie(b.o.FS, dir, text); err != nil {
			return err
		}
	}
	err := id.Cluster.CreateCookie(ctx, id.ID, text)
	if err != nil {
		return fmt.Errorf("store cookie of bookie %s: %w", id.ID, err)
	}
	return nil
}

// halfMade tells whether a first start ended between its cookies: nothing but
// them is in any directory.
func (b *Bookie) halfMade(_ []string) bool {
	for _, dir := range append(append([]string{}, b.o.JournalDirs...), b.o.LedgerDirs...) {
		if mustBeEmpty(b.o.FS, dir) != nil {
			return false
		}
	}
	return true
}

func compareCookie(where string, text []byte, want layout.Cookie) error {
	got, err := layout.ParseCookie(text)
	if err != nil {
		return fmt.Errorf("cookie in %s: %w", where, errors.Join(ErrIdentity, err))
	}
	for _, f := range []struct{ name, got, want, help string }{
		{"cluster (instance id)", got.InstanceID, want.InstanceID, "it belongs to another cluster: give another directory, or the metadata URI of its own cluster"},
		{"bookie id", got.BookieID, want.BookieID, "it belongs to another bookie: give that one's id, or another directory"},
		{"journal directories", got.JournalDirs, want.JournalDirs, "give the directories that the bookie was made with"},
		{"ledger directories", got.LedgerDirs, want.LedgerDirs, "give the directories that the bookie was made with"},
	} {
		if f.got != f.want {
			return fmt.Errorf("cookie in %s: %s is %q, want %q: %s: %w", where, f.name, f.got, f.want, f.help, ErrIdentity)
		}
	}
	return nil
}

func readCookie(fs vfs.FS, dir string) (text []byte, ok bool, err error) {
	path := fs.PathJoin(dirs.Current(fs, dir), cookieName)
	text, ok, err = dirs.ReadFile(fs, path)
	if err != nil {
		return nil, false, fmt.Errorf("read cookie %s: %w", path, err)
	}
	return text, ok, nil
}

func writeCookie(fs vfs.FS, dir string, text []byte) error {
	cur := dirs.Current(fs, dir)
	if err := dirs.WriteFile(fs, cur, cookieName, text); err != nil {
		return fmt.Errorf("write cookie in %s: %w", cur, err)
	}
	return nil
}

func mustBeEmpty(fs vfs.FS, dir string) error {
	names, err := fs.List(dirs.Current(fs, dir))
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, n := range names {
		if n != cookieName && n != dirs.TempName(cookieName) {
			return fmt.Errorf("data directory %s has no cookie but holds %s: its cookie was lost, or it is no directory of this bookie: %w",
				dir, n, ErrIdentity)
		}
	}
	return nil
}
