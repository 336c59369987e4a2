package index

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// retryPause is the least time from a failed call to the next file pebble
// makes: it tries failed flushes again at once, and for ever.
const retryPause = 250 * time.Millisecond

var errStopped = errors.New("index: nothing is written any more")

// guardFS is what pebble writes through. It does five things.
//
// It makes the name of a new manifest durable before anything else is done.
// Pebble creates the manifest, then a marker that names it, and syncs the
// directory once for both; on a file system that does not keep the order of the
// two a crash could leave the marker alone, and the index would not open.
//
// It slows down retries.
//
// It stops the index when a directory cannot be synced: pebble would panic. The
// caller of that sync is told that it worked; Index.Flush knows better.
//
// It ends an Open whose manifest cannot be written: pebble would try again
// without end, in a goroutine that Open waits for. Pebble is told that it worked
// (see opening), and meets the error with the next file that it makes.
//
// Once the index has failed (stop), it refuses everything that changes the
// disk: what pebble would do next to files whose state it does not know may do
// harm, and the next start finds them as the failure left them.
type guardFS struct {
	vfs.FS
	closing chan struct{} // closed by Index.Close
	opened  atomic.Bool   // by Index.Open
	fatal   func(error)   // what to do when the index must stop

	mu      sync.Mutex // guards what follows
	stopped error
	failed  time.Time // when a call failed last
}

func (g *guardFS) Unwrap() vfs.FS { return g.FS }

// stop refuses all further changes; it reports whether it is the first.
func (g *guardFS) stop(err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped != nil {
		return false
	}
	g.stopped = err
	return true
}

// err tells why nothing is written any more, nil while it is.
func (g *guardFS) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped
}

// change runs a call that changes the disk.
func (g *guardFS) change(call func() error) error {
	if err := g.err(); err != nil {
		return fmt.Errorf("%w: %w", errStopped, err)
	}
	err := call()
	if err != nil {
		g.noteFailure()
	}
	return err
}

func (g *guardFS) noteFailure() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = time.Now()
}

// resting reports whether a failure is too fresh to try again, or final, or the
// index is not open yet: an Open that fails does not wait for compactions before
// it frees the memory that they use.
func (g *guardFS) resting() bool {
	if !g.opened.Load() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped != nil || time.Since(g.failed) < retryPause
}

// pause waits after a failure before a table is made, without end once stopped,
// until Close. Pebble holds no mutex then; it may when it makes another file.
func (g *guardFS) pause(name string) {
	if !strings.HasSuffix(name, ".sst") {
		return
	}
	g.mu.Lock()
	stopped, left := g.stopped != nil, retryPause-time.Since(g.failed)
	g.mu.Unlock()
	if stopped && g.opened.Load() {
		<-g.closing
		return
	}
	if stopped {
		left = retryPause // Open goes on to its end meanwhile
	}
	if left <= 0 {
		return
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.closing:
	}
}

func (g *guardFS) Create(name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	g.pause(name)
	err = g.change(func() error {
		f, err = g.FS.Create(name, c)
		if err != nil || !strings.HasPrefix(g.PathBase(name), "MANIFEST-") {
			return err
		}
		d, err := g.FS.OpenDir(g.PathDir(name))
		if err == nil {
			err = errors.Join(d.Sync(), d.Close())
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		return nil
	})
	if err != nil && g.opening(name) {
		g.fatal(fmt.Errorf("create %s: %w", name, err))
		return vfs.NewMem().Create("discarded", c)
	}
	return g.file(f, name, err)
}

func (g *guardFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	g.pause(name)
	err = g.change(func() error {
		f, err = g.FS.ReuseForWrite(old, name, c)
		return err
	})
	return g.file(f, name, err)
}

func (g *guardFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (f vfs.File, err error) {
	err = g.change(func() error {
		f, err = g.FS.OpenReadWrite(name, c, o...)
		return err
	})
	return g.file(f, name, err)
}

func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardDir{File: f, g: g, name: name}, nil
}

func (g *guardFS) Link(old, name string) error {
	return g.change(func() error { return g.FS.Link(old, name) })
}

func (g *guardFS) Remove(name string) error {
	return g.change(func() error { return g.FS.Remove(name) })
}

func (g *guardFS) RemoveAll(name string) error {
	return g.change(func() error { return g.FS.RemoveAll(name) })
}

func (g *guardFS) Rename(old, name string) error {
	return g.change(func() error { return g.FS.Rename(old, name) })
}

func (g *guardFS) MkdirAll(name string, perm os.FileMode) error {
	return g.change(func() error { return g.FS.MkdirAll(name, perm) })
}

func (g *guardFS) Lock(name string) (c io.Closer, err error) {
	err = g.change(func() error {
		c, err = g.FS.Lock(name)
		return err
	})
	return c, err
}

type guardDir struct {
	vfs.File
	g    *guardFS
	name string
}

func (d *guardDir) Sync() error {
	if err := d.g.change(d.File.Sync); err != nil {
		d.g.fatal(fmt.Errorf("sync index directory %s: %w", d.name, err))
	}
	return nil
}
