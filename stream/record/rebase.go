package record

import "encoding/binary"

// Rebase changes the position that the entry's records count from: it is for an
// entry that was filled for one segment and goes into the next one.
func (b *Builder) Rebase(position int64) {
	delta := position - (b.sum.Position - int64(b.sum.User))
	if delta == 0 {
		return
	}
	for at := EnvelopeSize; at < len(b.buf); {
		word := binary.BigEndian.Uint64(b.buf[at:])
		pos := uint64(int64(word>>positionShift&positionMask) + delta)
		word = word&^(positionMask<<positionShift) | pos&positionMask<<positionShift
		binary.BigEndian.PutUint64(b.buf[at:], word)
		at += HeaderSize + int(binary.BigEndian.Uint32(b.buf[at+16:]))
	}
	b.sum.Position += delta
}

// CapBytes is the size of the buffers that the builder keeps.
func (b *Builder) CapBytes() int { return cap(b.buf) + cap(b.packed) }
