package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// FrameBytesMax is the default limit of a frame's message, in bytes.
const FrameBytesMax = 16 << 20

// frameStep is what is allocated at once for a frame whose bytes have not come
// yet: a liar costs no more.
const frameStep = 256 << 10

// FrameReader cuts a connection's bytes into messages.
type FrameReader struct {
	br  *bufio.Reader
	max int
}

// NewFrameReader reads frames of up to max bytes from r; 0 means FrameBytesMax.
func NewFrameReader(r io.Reader, max int) *FrameReader {
	if max <= 0 {
		max = FrameBytesMax
	}
	return &FrameReader{br: bufio.NewReaderSize(r, 16<<10), max: max}
}

// Wait blocks until a frame has begun.
func (f *FrameReader) Wait() error {
	_, err := f.br.Peek(1)
	return err
}

// Next gives the next message in a buffer of its own. io.EOF means that the
// connection ended between frames.
func (f *FrameReader) Next() ([]byte, error) { return f.next(nil) }

// next is Next into a buffer if it is large enough.
func (f *FrameReader) next(buf []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(f.br, head[:]); err != nil {
		return nil, fmt.Errorf("frame length: %w", err)
	}
	n := int(int32(binary.BigEndian.Uint32(head[:])))
	if n <= 0 || n > f.max {
		return nil, protocolErrorf("frame of %d bytes, want 1 to %d", n, f.max)
	}
	msg := buf[:0]
	if cap(buf) < n {
		msg = make([]byte, 0, min(n, frameStep))
	}
	for len(msg) < n {
		if len(msg) == cap(msg) {
			grown := make([]byte, len(msg), min(n, 4*len(msg)))
			copy(grown, msg)
			msg = grown
		}
		part := msg[len(msg):min(n, cap(msg))]
		if _, err := io.ReadFull(f.br, part); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("frame of %d bytes: %w", n, err)
		}
		msg = msg[:len(msg)+len(part)]
	}
	return msg, nil
}
