package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// LengthSize is the size in bytes of the length in front of each payload.
const LengthSize = 4

// MaxFrame is the largest frame in bytes, its length prefix included, of both
// sides: 5 MiB. One byte more closes the connection.
const MaxFrame = 5 << 20

// Buffer sizes of a FrameReader in bytes.
const (
	readBufferMin     = 16 << 10
	readBufferTypical = 256 << 10
)

// shrinkAfter is the number of fills in a row that needed no more than a
// quarter of the buffer after which it halves.
const shrinkAfter = 64

// FrameReader cuts a stream of bytes into frames. One Fill is one read; after
// it, Next gives each complete frame that the read brought, in place:
//
//	for {
//		if err := fr.Fill(); err != nil { … }
//		for {
//			frame, err := fr.Next()
//			if err != nil { … }          // close the connection
//			if frame == nil { break }
//			…                            // frame is good until the next Fill
//		}
//	}
//
// The buffer starts at 16 KiB, doubles up to 256 KiB while reads fill it, and
// beyond that, up to MaxFrame, only as bytes of one larger frame really
// arrive; it shrinks again when it is not needed. A length prefix alone makes
// it allocate nothing.
//
// It has no lock: one goroutine reads.
type FrameReader struct {
	r        io.Reader
	buf      []byte
	start    int // first byte that Next has not given out
	end      int // end of the bytes read
	maxFrame int
	quiet    int // fills in a row that would have done with a smaller buffer
}

// NewFrameReader reads frames of up to MaxFrame bytes from r.
func NewFrameReader(r io.Reader) *FrameReader { return NewFrameReaderLimit(r, MaxFrame) }

// NewFrameReaderLimit reads frames of up to maxFrame bytes, prefix included.
func NewFrameReaderLimit(r io.Reader, maxFrame int) *FrameReader {
	return &FrameReader{r: r, maxFrame: maxFrame}
}

// Fill reads once, blocking until there is at least one byte. An error of the
// reader is returned as it is, and io.ErrUnexpectedEOF for an end inside a
// frame; Fill may be called again after one that is temporary, such as a
// deadline. Frames given out before are no longer valid.
func (f *FrameReader) Fill() error {
	f.makeRoom()
	free := len(f.buf) - f.end
	n, err := f.r.Read(f.buf[f.end:])
	f.end += n
	f.adapt(n == free)
	if n > 0 || err == nil {
		return nil // an error that came with bytes comes again
	}
	if err == io.EOF && f.end > f.start {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Next gives the payload of the next complete frame, nil if there is none and
// Fill must be called. It fails with ErrFrameLength for a length of 0 or above
// the limit.
func (f *FrameReader) Next() ([]byte, error) {
	have := f.buf[f.start:f.end]
	if len(have) < LengthSize {
		return nil, nil
	}
	n := binary.BigEndian.Uint32(have)
	if n == 0 || uint64(n)+LengthSize > uint64(f.maxFrame) {
		return nil, fmt.Errorf("%d bytes, want 1 to %d: %w", n, f.maxFrame-LengthSize, ErrFrameLength)
	}
	total := int(n) + LengthSize
	if len(have) < total {
		return nil, nil
	}
	f.start += total
	return have[LengthSize:total:total], nil
}

// Buffered is the number of bytes that wait for the rest of their frame, once
// Next has given nil.
func (f *FrameReader) Buffered() int { return f.end - f.start }

// Release drops the buffer if it is empty, so that an idle connection holds
// none. The next Fill makes a small one.
func (f *FrameReader) Release() {
	if f.start == f.end {
		f.buf, f.start, f.end, f.quiet = nil, 0, 0, 0
	}
}

// makeRoom moves an incomplete frame to the front, and makes a larger buffer
// if that frame fills the one there is.
func (f *FrameReader) makeRoom() {
	if f.buf == nil {
		f.buf = make([]byte, min(readBufferMin, f.maxFrame))
	}
	if f.start > 0 {
		f.end = copy(f.buf, f.buf[f.start:f.end])
		f.start = 0
	}
	if f.end == len(f.buf) {
		f.resize(min(2*len(f.buf), f.maxFrame))
	}
}

// adapt grows the buffer when a read has filled it, and shrinks it after many
// that left most of it empty.
func (f *FrameReader) adapt(filled bool) {
	switch size := len(f.buf); {
	case filled && size < readBufferTypical:
		f.quiet = 0
		f.resize(min(2*size, f.maxFrame))
	case f.end > size/4 || size <= readBufferMin:
		f.quiet = 0
	default:
		if f.quiet++; f.quiet >= shrinkAfter {
			f.quiet = 0
			f.resize(size / 2)
		}
	}
}

func (f *FrameReader) resize(size int) {
	if size == len(f.buf) {
		return
	}
	buf := make([]byte, size)
	f.end = copy(buf, f.buf[f.start:f.end])
	f.start = 0
	f.buf = buf
}
