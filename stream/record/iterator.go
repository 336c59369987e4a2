package record

import (
	"encoding/binary"
	"fmt"

	"github.com/pierrec/lz4/v4"

	"github.com/loglode/loglode/stream"
)

// View is one record of an entry. Its payload points into the entry, or into a
// buffer of the iterator: it is valid until the iterator's next Reset.
type View struct {
	stream.Record
	Flags        Flags
	Position     int64 // user records of the segment up to this one
	LastPosition int64 // same up to the last one of a set that is not expanded; else Position
}

// Iterator walks the records of one entry. It keeps its buffers from entry to
// entry, so that one in use allocates nothing per record. It is not safe for
// concurrent use.
//
//	it.Reset(entry, true, stream.DLSN{Segment: 3, Entry: 9})
//	for it.Next() {
//		v := it.View()
//	}
//	return it.Err()
type Iterator struct {
	// KeepSets leaves record sets packed: one View each, with FlagSet.
	KeepSets bool

	area []byte // records not yet walked
	size int    // of the whole area, for offsets
	at   stream.DLSN
	view View
	err  error

	set      []byte // inner records not yet walked
	setLeft  int
	setIndex int64
	setHead  View // position and txid of the set

	unpacked []byte // the area, if it was compressed
	sets     []byte // unpacked record sets of this entry
}

// Reset starts on an entry. enveloped says which of the two shapes it has, at
// is its place (the slot is ignored). Errors show in Err. entry must not change
// while its views are in use.
func (it *Iterator) Reset(entry []byte, enveloped bool, at stream.DLSN) {
	at.Slot = 0
	it.at, it.err, it.set, it.setLeft, it.sets = at, nil, nil, 0, it.sets[:0]
	it.area = entry
	if enveloped {
		it.area, it.err = it.open(entry)
	}
	it.size = len(it.area)
}

// View is the record that Next found.
func (it *Iterator) View() View { return it.view }

// Err tells why the walk ended early: nil, or a *stream.CorruptError.
func (it *Iterator) Err() error { return it.err }

// Slots is the number of slots that the walk has passed.
func (it *Iterator) Slots() int64 { return it.at.Slot }

// Next goes to the next record. It is false at the end of the entry and at an
// error.
func (it *Iterator) Next() bool {
	for it.err == nil {
		if it.setLeft > 0 {
			return it.nextInner()
		}
		if len(it.area) == 0 || !it.nextOuter() {
			return false
		}
		if it.view.Flags&FlagSet == 0 {
			it.at.Slot++
			return true
		}
		if it.KeepSets {
			return it.keepSet()
		}
		it.openSet()
	}
	return false
}

// nextOuter parses one record of the area into view.
func (it *Iterator) nextOuter() bool {
	if len(it.area) < HeaderSize {
		it.fail("record header", fmt.Sprintf("%d bytes", HeaderSize), fmt.Sprint(len(it.area)))
		return false
	}
	word := binary.BigEndian.Uint64(it.area)
	n := int32(binary.BigEndian.Uint32(it.area[16:]))
	if n < 0 {
		it.area = nil // a negative length ends the entry
		return false
	}
	if int(n) > len(it.area)-HeaderSize {
		it.fail("record payload", fmt.Sprintf("at most %d bytes", len(it.area)-HeaderSize), fmt.Sprint(n))
		return false
	}
	it.view = View{
		Record: stream.Record{
			DLSN:    it.at,
			TxID:    stream.TxID(binary.BigEndian.Uint64(it.area[8:])),
			Payload: it.area[HeaderSize : HeaderSize+n : HeaderSize+n],
		},
		Flags:    Flags(word) & flagsMask,
		Position: int64(word >> positionShift & positionMask),
	}
	it.view.LastPosition = it.view.Position
	it.area = it.area[HeaderSize+n:]
	return true
}

func (it *Iterator) fail(what, want, got string) {
	it.err = corrupt(fmt.Sprintf("entry %d:%d, %s", it.at.Segment, it.at.Entry, what), it.size-len(it.area), want, got)
}

func (it *Iterator) keepSet() bool {
	n, err := SetCount(it.view.Payload)
	if err != nil {
		it.err = fmt.Errorf("entry %d:%d: %w", it.at.Segment, it.at.Entry, err)
		return false
	}
	it.view.LastPosition = it.view.Position + int64(n) - 1
	it.at.Slot += int64(n)
	return true
}

// openSet makes the set in view the source of the next records.
func (it *Iterator) openSet() {
	p := it.view.Payload
	n, err := SetCount(p)
	if err == nil {
		it.set, err = it.unpackSet(p)
	}
	if err != nil {
		it.err = fmt.Errorf("entry %d:%d: %w", it.at.Segment, it.at.Entry, err)
		return
	}
	it.setHead, it.setLeft, it.setIndex = it.view, n, 0
}

func (it *Iterator) unpackSet(p []byte) ([]byte, error) {
	word := binary.BigEndian.Uint32(p)
	if v := word & setVersionMask; v != setVersion {
		return nil, corrupt("record set, version", 0, fmt.Sprintf("%#x", setVersion), fmt.Sprintf("%#x", v))
	}
	// Views of an earlier set of this entry may still point into sets: it only
	// grows, and when it must move, the old bytes stay with the old views.
	data, grown, err := unpack(p[8:], word&codecMask, p[SetHeaderSize:], it.sets, "record set")
	it.sets = grown
	return data, err
}

func (it *Iterator) nextInner() bool {
	if len(it.set) < 4 {
		it.fail("record of a set", "4 bytes of length", fmt.Sprint(len(it.set)))
		return false
	}
	n := int32(binary.BigEndian.Uint32(it.set))
	if n < 0 || int(n) > len(it.set)-4 {
		it.fail("record of a set", fmt.Sprintf("0 to %d bytes", len(it.set)-4), fmt.Sprint(n))
		return false
	}
	it.view = View{
		Record:   stream.Record{DLSN: it.at, TxID: it.setHead.TxID, Payload: it.set[4 : 4+n : 4+n]},
		Position: it.setHead.Position + it.setIndex,
	}
	it.view.LastPosition = it.view.Position
	it.set = it.set[4+n:]
	it.setLeft--
	it.setIndex++
	it.at.Slot++
	return true
}

// open gives the records in an envelope.
func (it *Iterator) open(entry []byte) ([]byte, error) {
	if len(entry) < EnvelopeSize {
		return nil, corrupt(it.where("envelope"), 0, fmt.Sprintf("at least %d bytes", EnvelopeSize), fmt.Sprint(len(entry)))
	}
	if entry[0] != envelopeVersion {
		return nil, corrupt(it.where("envelope version"), 0, fmt.Sprint(envelopeVersion), fmt.Sprint(entry[0]))
	}
	codec := binary.BigEndian.Uint32(entry[1:]) & codecMask
	area, grown, err := unpack(entry[5:], codec, entry[EnvelopeSize:], it.unpacked[:0], "envelope")
	it.unpacked = grown
	if err != nil {
		return nil, fmt.Errorf("entry %d:%d: %w", it.at.Segment, it.at.Entry, err)
	}
	return area, nil
}

func (it *Iterator) where(what string) string {
	return fmt.Sprintf("entry %d:%d, %s", it.at.Segment, it.at.Entry, what)
}

// unpack reads the two lengths at the start of lengths, raw and data, and gives
// the raw bytes of data: as they are, or decompressed behind what scratch
// holds. Codes 2 and 3 are undefined and taken for "none", as Java does.
func unpack(lengths []byte, codec uint32, data, scratch []byte, what string) (raw, grown []byte, err error) {
	rawSize := int32(binary.BigEndian.Uint32(lengths))
	dataSize := int32(binary.BigEndian.Uint32(lengths[4:]))
	if dataSize < 0 || int(dataSize) > len(data) {
		return nil, scratch, corrupt(what+", data length", -1, fmt.Sprintf("0 to %d", len(data)), fmt.Sprint(dataSize))
	}
	data = data[:dataSize]
	if codec != uint32(stream.CompressionLZ4) {
		if codec == uint32(stream.CompressionNone) && rawSize != dataSize {
			return nil, scratch, corrupt(what+", raw length", -1, fmt.Sprint(dataSize), fmt.Sprint(rawSize))
		}
		return data, scratch, nil
	}
	if rawSize < 0 || rawSize > DecodedSizeMax {
		return nil, scratch, corrupt(what+", raw length", -1, fmt.Sprintf("0 to %d", DecodedSizeMax), fmt.Sprint(rawSize))
	}
	start := len(scratch)
	if cap(scratch)-start < int(rawSize) {
		scratch = make([]byte, 0, rawSize)
		start = 0
	}
	scratch = scratch[:start+int(rawSize)]
	dst := scratch[start:]
	n := 0
	if rawSize > 0 { // the decompressor takes no empty destination
		if n, err = lz4.UncompressBlock(data, dst); err != nil {
			return nil, scratch, corrupt(what+", lz4 block", -1, fmt.Sprintf("%d bytes", rawSize), err.Error())
		}
	}
	if n != int(rawSize) {
		return nil, scratch, corrupt(what+", lz4 block", -1, fmt.Sprintf("%d bytes", rawSize), fmt.Sprint(n))
	}
	return dst, scratch, nil
}
