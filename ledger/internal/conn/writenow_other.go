//go:build !linux && !darwin

package conn

import (
	"errors"
	"syscall"
)

const canWriteNow = false

const vecMax = 8

func (s *sender) writeNow(syscall.RawConn) error { return errors.ErrUnsupported }
