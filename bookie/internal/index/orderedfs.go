package index

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// orderedFS makes the name of a new manifest durable before anything else is
// done. Pebble creates the manifest, then a marker that names it, and syncs the
// directory once for both; on a file system that does not keep the order of the
// two a crash could leave the marker alone, and the index would not open.
type orderedFS struct{ vfs.FS }

func (o orderedFS) Unwrap() vfs.FS { return o.FS }

func (o orderedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := o.FS.Create(name, c)
	if err != nil || !strings.HasPrefix(o.PathBase(name), "MANIFEST-") {
		return f, err
	}
	d, err := o.OpenDir(o.PathDir(name))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
