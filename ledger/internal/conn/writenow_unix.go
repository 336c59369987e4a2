//go:build linux || darwin

package conn

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// canWriteNow says that writeNow works on this system.
const canWriteNow = true

// vecMax is the most slices handed to the kernel in one write.
const vecMax = 8

// writeNow sends as much as the socket takes without waiting. The descriptor
// is in non-blocking mode, as all of Go's sockets are.
func (s *sender) writeNow(raw syscall.RawConn) error {
	if s.onFD == nil {
		s.onFD = s.writeFD // made once, not for every write
	}
	s.err = nil
	if err := raw.Write(s.onFD); err != nil {
		return err
	}
	return s.err
}

// writeFD always reports true: it never waits for the socket.
func (s *sender) writeFD(fd uintptr) bool {
	for !s.empty() {
		s.fill()
		want := 0
		for _, b := range s.vec {
			want += len(b)
		}
		n, err := s.writeVec(int(fd))
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			return true
		}
		if err != nil {
			s.err = err
			return true
		}
		s.advance(n)
		if n < want {
			return true
		}
	}
	return true
}

func (s *sender) writeVec(fd int) (int, error) {
	if len(s.vec) == 1 {
		return unix.Write(fd, s.vec[0])
	}
	return unix.Writev(fd, s.vec)
}
