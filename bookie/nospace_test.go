package bookie

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/memstore"
)

// faults gives each call that it matches an error while it is armed.
type faults struct {
	vfs.FS
	armed atomic.Bool
	err   error
	match func(op, name string) bool
}

func newFaults(mem vfs.FS, err error, match func(op, name string) bool) *faults {
	f := &faults{err: err, match: match}
	f.FS = &hookFS{FS: mem, before: func(op, name string) error {
		if f.armed.Load() && f.match(op, name) {
			return &vfsError{op, name, f.err}
		}
		return nil
	}}
	return f
}

type vfsError struct {
	op, name string
	err      error
}

func (e *vfsError) Error() string { return fmt.Sprintf("%s %s: %v", e.op, e.name, e.err) }
func (e *vfsError) Unwrap() error { return e.err }

// listed is a bookie's registration as a test sees it.
type listed struct {
	cluster *layout.Cluster
	reg     *Registration
}

func register(t *testing.T, b *Bookie) *listed {
	t.Helper()
	store := memstore.New()
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return registerIn(t, b, store)
}

func registerIn(t *testing.T, b *Bookie, store metadata.Store) *listed {
	t.Helper()
	c := testCluster(t, store)
	reg, err := b.Register(t.Context(), RegisterOptions{Cluster: c, ID: "b1:1"})
	require.NoError(t, err)
	return &listed{c, reg}
}

func testCluster(t *testing.T, store metadata.Store) *layout.Cluster {
	t.Helper()
	_, err := layout.Init(t.Context(), store, "/bk")
	if !errors.Is(err, metadata.ErrExists) { // by another client of the same tree
		require.NoError(t, err)
	}
	c, err := layout.Open(t.Context(), store, "/bk")
	require.NoError(t, err)
	return c
}

// within waits up to 5 s until the bookie is listed as writable or read-only.
func (l *listed) within(t *testing.T, writable bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(50 * time.Millisecond) {
		list, err := l.cluster.Bookies(t.Context())
		require.NoError(t, err)
		if len(list.Writable) == 1 == writable && len(list.ReadOnly) == 1 != writable {
			return
		}
		require.True(t, time.Now().Before(deadline), "after 5 s: %+v", list)
	}
}

func hasSuffix(name string, in ...string) bool {
	for _, s := range in {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

// TestDiskFull takes the room away from each kind of write in turn: the bookie
// turns read-only and is listed so, what was acknowledged is there while it is
// full, after a crash and after it has room again, and it turns writable by
// itself.
func TestDiskFull(t *testing.T) {
	for name, match := range map[string]func(op, name string) bool{
		"journal write":    func(op, name string) bool { return op == "write at" && hasSuffix(name, ".journal") },
		"journal roll":     func(op, name string) bool { return op == "open for writing" && hasSuffix(name, ".journal") },
		"entry log create": func(op, name string) bool { return op == "create" && isEntryLog(name) },
		"entry log write":  func(op, name string) bool { return op == "write" && isEntryLog(name) },
		"index create":     func(op, name string) bool { return op == "create" && hasSuffix(name, ".sst") },
		"index write":      func(op, name string) bool { return op == "write" && hasSuffix(name, ".sst") },
		"everything": func(op, name string) bool {
			return strings.HasPrefix(op, "write") && hasSuffix(name, ".sst", ".log", ".journal") || op == "create"
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testDiskFull(t, match) })
		})
	}
}

func testDiskFull(t *testing.T, match func(op, name string) bool) {
	mem := vfs.NewCrashableMem()
	fs := newFaults(mem, syscall.ENOSPC, match)
	o := smallOptions(fs)
	o.FlushInterval = time.Second
	b := open(t, o)
	l := register(t, b)
	s := newStory()
	e := bk.EntryID(0)
	step := func() {
		s.add(b, 0, body(1+bk.LedgerID(e%3), e, strings.Repeat("x", 1000)))
		e++
		s.wg.Wait()
		<-time.After(20 * time.Millisecond)
	}
	for range 10 {
		step()
	}
	fs.armed.Store(true)
	for n := 0; b.State() == Writable; n++ {
		require.Less(t, n, 1000, "the bookie must turn read-only")
		step()
	}
	require.Equal(t, ReadOnly, b.State())
	l.within(t, false)
	s.fence(b, 3)
	s.add(b, AddRecovery|AddHighPriority, body(3, 1_000, "recovery"))
	s.wg.Wait()
	files, err := mem.List("/l/current")
	require.NoError(t, err)
	<-time.After(time.Minute)
	later, err := mem.List("/l/current")
	require.NoError(t, err)
	require.LessOrEqual(t, len(later), len(files)+1, "tries leave no files behind")
	now := s.snapshot()
	for k, want := range now.entries {
		got, status := b.Read(k.l, k.e, nil)
		require.Equal(t, bk.StatusOK, status)
		require.Equal(t, want, got)
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})

	fs.armed.Store(false)
	l.within(t, true)
	require.Equal(t, Writable, b.State())
	require.Equal(t, bk.StatusOK, add(b, 0, body(7, 0, "room again"))[0])
	for range 5 {
		step()
	}
	require.NoError(t, l.reg.Close(t.Context()))
	require.NoError(t, b.Close())
	for _, at := range []struct {
		fs   vfs.FS
		want acked
	}{{mem, s.snapshot()}, {crashed, now}} {
		c := open(t, smallOptions(at.fs))
		require.NoError(t, at.want.verify(c))
		require.NoError(t, c.Close())
	}
}

// TestFencesGoOnWithoutANextJournalFile: until the last file is full, only
// plain adds are refused.
func TestFencesGoOnWithoutANextJournalFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFaults(vfs.NewMem(), syscall.ENOSPC, func(op, name string) bool { return op == "open for writing" })
		fs.armed.Store(false)
		b := open(t, smallOptions(fs))
		synctest.Wait() // the second file is ready
		fs.armed.Store(true)
		for e := bk.EntryID(0); b.State() == Writable; e++ {
			require.Equal(t, bk.StatusOK, add(b, 0, body(1, e, strings.Repeat("x", 1000)))[0])
			synctest.Wait()
		}
		require.Equal(t, bk.StatusReadOnly, add(b, 0, body(1, 1000, "x"))[0])
		require.Equal(t, bk.StatusOK, b.Fence(t.Context(), 1, testKey))
		require.Equal(t, bk.StatusOK, add(b, AddRecovery|AddHighPriority, body(1, 1000, "x"))[0])
		require.Equal(t, bk.StatusOK, b.Force(t.Context(), 1))
		require.NoError(t, b.Close())
	})
}

// TestIndexThatCannotWriteItsManifest ends in the failed state: no process dies,
// nothing hangs, everything acknowledged is there and is found by the next start.
func TestIndexThatCannotWriteItsManifest(t *testing.T) {
	for _, op := range []string{"write", "sync"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testManifest(t, op) })
		})
	}
}

func testManifest(t *testing.T, op string) {
	mem := vfs.NewCrashableMem()
	fs := newFaults(mem, syscall.EIO, func(o, name string) bool { return o == op && strings.Contains(name, "MANIFEST-") })
	b := open(t, smallOptions(fs))
	l := register(t, b)
	s := newStory()
	for e := range bk.EntryID(20) {
		s.add(b, 0, body(1+bk.LedgerID(e%3), e, "x"))
	}
	s.wg.Wait()
	fs.armed.Store(true)
	require.Error(t, b.Flush())
	fs.armed.Store(false) // too late: its manifest has an unknown end
	require.Error(t, b.Flush())
	require.Equal(t, Failed, b.State())
	l.within(t, false)
	require.Equal(t, bk.StatusReadOnly, add(b, 0, body(1, 100, "x"))[0])
	require.Equal(t, bk.StatusIO, add(b, AddHighPriority, body(1, 100, "x"))[0])
	s.fence(b, 2)
	want := s.snapshot()
	require.Len(t, want.fenced, 1, "the journal still takes it")
	for k := range want.entries {
		_, status := b.Read(k.l, k.e, nil)
		require.Equal(t, bk.StatusOK, status)
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, l.reg.Close(context.Background()))
	require.Error(t, b.Close(), "what the write cache holds is not in the index")
	for _, fs := range []vfs.FS{mem, crashed} {
		c := open(t, smallOptions(fs))
		require.NoError(t, want.verify(c))
		require.NoError(t, c.Flush())
		require.NoError(t, c.Close())
	}
}
