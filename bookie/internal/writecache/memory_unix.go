//go:build unix

package writecache

import "golang.org/x/sys/unix"

// allocate gives memory outside the Go heap, where it would let the garbage
// collector double it. Pages that were never touched take none.
func allocate(bytes int) (buf []byte, free func()) {
	m, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]byte, 0, bytes), func() {}
	}
	return m[:0], func() {
		if err := unix.Munmap(m); err != nil {
			panic("writecache: unmap: " + err.Error()) // only of memory that was not mapped
		}
	}
}
