package bookie

import (
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// hookFS calls before ahead of each call that can change what a crash leaves:
// a cut before a call is the same as one after the call before it. An error
// from before is the call's.
type hookFS struct {
	vfs.FS
	before func(op, name string) error
}

func (h *hookFS) Unwrap() vfs.FS { return h.FS }

func (h *hookFS) file(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &hookFile{File: f, h: h, name: name}, nil
}

func (h *hookFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := h.before("create", name); err != nil {
		return nil, err
	}
	f, err := h.FS.Create(name, c)
	return h.file(f, name, err)
}

func (h *hookFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	if err := h.before("open for writing", name); err != nil {
		return nil, err
	}
	f, err := h.FS.OpenReadWrite(name, c, o...)
	return h.file(f, name, err)
}

func (h *hookFS) OpenDir(name string) (vfs.File, error) {
	f, err := h.FS.OpenDir(name)
	return h.file(f, name, err)
}

func (h *hookFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := h.before("reuse", name); err != nil {
		return nil, err
	}
	f, err := h.FS.ReuseForWrite(old, name, c)
	return h.file(f, name, err)
}

func (h *hookFS) Link(old, name string) error {
	if err := h.before("link", name); err != nil {
		return err
	}
	return h.FS.Link(old, name)
}

func (h *hookFS) Remove(name string) error {
	if err := h.before("remove", name); err != nil {
		return err
	}
	return h.FS.Remove(name)
}

func (h *hookFS) RemoveAll(name string) error {
	if err := h.before("remove all", name); err != nil {
		return err
	}
	return h.FS.RemoveAll(name)
}

func (h *hookFS) Rename(old, name string) error {
	if err := h.before("rename", name); err != nil {
		return err
	}
	return h.FS.Rename(old, name)
}

func (h *hookFS) MkdirAll(name string, perm os.FileMode) error {
	if err := h.before("mkdir", name); err != nil {
		return err
	}
	return h.FS.MkdirAll(name, perm)
}

func (h *hookFS) Lock(name string) (io.Closer, error) {
	if err := h.before("lock", name); err != nil {
		return nil, err
	}
	return h.FS.Lock(name)
}

type hookFile struct {
	vfs.File
	h    *hookFS
	name string
}

func (f *hookFile) Write(p []byte) (int, error) {
	if err := f.h.before("write", f.name); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *hookFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.h.before("write at", f.name); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *hookFile) Sync() error {
	if err := f.h.before("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *hookFile) SyncData() error {
	if err := f.h.before("sync data", f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}
