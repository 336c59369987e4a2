package wire

import (
	"errors"
	"fmt"
)

// Conditions of a connection; test with errors.Is.
var (
	// ErrProtocol: the peer sent bytes that are not this protocol, or that
	// break one of its limits. The connection is closed.
	ErrProtocol = errors.New("proxy protocol broken")
	// ErrConnClosed: the connection ended before the reply came: the call may
	// have been carried out.
	ErrConnClosed = errors.New("connection to proxy closed")
)

// Types of an ApplicationError that this package uses. On the wire: do not
// renumber.
const (
	TypeUnknownMethod = 1
	TypeInternalError = 6
)

// ApplicationError is a failure outside the status codes: a Thrift exception
// message.
type ApplicationError struct {
	Type    int32
	Message string
}

func (e *ApplicationError) Error() string {
	return fmt.Sprintf("proxy: application exception type %d: %s", e.Type, e.Message)
}

func protocolErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}
