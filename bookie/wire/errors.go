package wire

import "errors"

// Conditions that end a connection; test with errors.Is.
var (
	// ErrFrameLength is a length prefix of 0 or above the limit.
	ErrFrameLength = errors.New("frame length out of range")
	// ErrMalformed is a frame whose payload does not follow the protocol.
	ErrMalformed = errors.New("malformed frame")
)
