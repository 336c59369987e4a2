package wire

import (
	"context"
	"encoding/binary"

	"github.com/apache/thrift/lib/go/thrift"
)

// itemsMax bounds the items of one container, whatever the frame limit.
const itemsMax = 1 << 16

// depthMax bounds the nesting of skipped fields.
const depthMax = 16

// decoder reads one message in place. It is the reading half of a Thrift
// protocol, so that generated code runs on it; each read checks the bytes left
// first.
type decoder struct {
	thrift.TProtocol // nil: the service has no other types, and does not write here
	b                []byte
	off              int
}

func (d *decoder) left() int { return len(d.b) - d.off }

func (d *decoder) take(n int) ([]byte, error) {
	if n < 0 || n > d.left() {
		return nil, protocolErrorf("%d bytes wanted at offset %d of a message of %d", n, d.off, len(d.b))
	}
	p := d.b[d.off : d.off+n : d.off+n]
	d.off += n
	return p, nil
}

func (d *decoder) u8() (byte, error) {
	p, err := d.take(1)
	if err != nil {
		return 0, err
	}
	return p[0], nil
}

func (d *decoder) i32() (int32, error) {
	p, err := d.take(4)
	if err != nil {
		return 0, err
	}
	return int32(binary.BigEndian.Uint32(p)), nil
}

// sized reads a length and that many bytes.
func (d *decoder) sized() ([]byte, error) {
	n, err := d.i32()
	if err != nil {
		return nil, err
	}
	return d.take(int(n))
}

// messageHead reads the head of a message, strict or old.
func (d *decoder) messageHead() (name string, kind thrift.TMessageType, seq int32, err error) {
	word, err := d.i32()
	if err != nil {
		return "", 0, 0, err
	}
	var raw []byte
	if word < 0 {
		if uint32(word)&thrift.VERSION_MASK != thrift.VERSION_1 {
			return "", 0, 0, protocolErrorf("version word %#x", uint32(word))
		}
		kind = thrift.TMessageType(word & 0xff)
		if raw, err = d.sized(); err != nil {
			return "", 0, 0, err
		}
	} else {
		if raw, err = d.take(int(word)); err != nil {
			return "", 0, 0, err
		}
		k, err := d.u8()
		if err != nil {
			return "", 0, 0, err
		}
		kind = thrift.TMessageType(k)
	}
	seq, err = d.i32()
	return string(raw), kind, seq, err
}

func (d *decoder) ReadStructBegin(context.Context) (string, error) { return "", nil }
func (d *decoder) ReadStructEnd(context.Context) error             { return nil }
func (d *decoder) ReadFieldEnd(context.Context) error              { return nil }
func (d *decoder) ReadMapEnd(context.Context) error                { return nil }
func (d *decoder) ReadListEnd(context.Context) error               { return nil }
func (d *decoder) ReadSetEnd(context.Context) error                { return nil }

func (d *decoder) ReadFieldBegin(context.Context) (string, thrift.TType, int16, error) {
	t, err := d.u8()
	if err != nil || t == thrift.STOP {
		return "", thrift.STOP, 0, err
	}
	p, err := d.take(2)
	if err != nil {
		return "", 0, 0, err
	}
	return "", thrift.TType(t), int16(binary.BigEndian.Uint16(p)), nil
}

// container checks a container's size before anything is made of that size:
// every item takes at least itemBytes.
func (d *decoder) container(itemBytes int) (int, error) {
	n, err := d.i32()
	if err != nil {
		return 0, err
	}
	if n < 0 || n > itemsMax || int(n)*itemBytes > d.left() {
		return 0, protocolErrorf("container of %d items with %d bytes left", n, d.left())
	}
	return int(n), nil
}

func (d *decoder) ReadMapBegin(context.Context) (k, v thrift.TType, size int, err error) {
	p, err := d.take(2)
	if err != nil {
		return 0, 0, 0, err
	}
	k, v = thrift.TType(p[0]), thrift.TType(p[1])
	size, err = d.container(leastBytes(k) + leastBytes(v))
	return k, v, size, err
}

func (d *decoder) ReadListBegin(context.Context) (thrift.TType, int, error) {
	t, err := d.u8()
	if err != nil {
		return 0, 0, err
	}
	n, err := d.container(leastBytes(thrift.TType(t)))
	return thrift.TType(t), n, err
}

func (d *decoder) ReadSetBegin(ctx context.Context) (thrift.TType, int, error) {
	return d.ReadListBegin(ctx)
}

// leastBytes is the size of the smallest value of a type.
func leastBytes(t thrift.TType) int {
	switch t {
	case thrift.I16:
		return 2
	case thrift.I32, thrift.STRING:
		return 4
	case thrift.I64, thrift.DOUBLE:
		return 8
	case thrift.UUID:
		return 16
	case thrift.MAP:
		return 6
	case thrift.LIST, thrift.SET:
		return 5
	default:
		return 1
	}
}

func (d *decoder) ReadBool(context.Context) (bool, error) {
	b, err := d.u8()
	return b == 1, err
}

func (d *decoder) ReadI32(context.Context) (int32, error) { return d.i32() }

func (d *decoder) ReadI64(context.Context) (int64, error) {
	p, err := d.take(8)
	if err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(p)), nil
}

func (d *decoder) ReadString(context.Context) (string, error) {
	p, err := d.sized()
	return string(p), err
}

// ReadBinary gives a slice of the frame itself.
func (d *decoder) ReadBinary(context.Context) ([]byte, error) { return d.sized() }

func (d *decoder) Skip(ctx context.Context, t thrift.TType) error {
	return d.skip(ctx, t, depthMax)
}

func (d *decoder) skip(ctx context.Context, t thrift.TType, depth int) error {
	if depth == 0 {
		return protocolErrorf("nested deeper than %d", depthMax)
	}
	switch t {
	case thrift.STRING:
		_, err := d.sized()
		return err
	case thrift.STRUCT:
		for {
			_, ft, _, err := d.ReadFieldBegin(ctx)
			if err != nil || ft == thrift.STOP {
				return err
			}
			if err := d.skip(ctx, ft, depth-1); err != nil {
				return err
			}
		}
	case thrift.LIST, thrift.SET:
		et, n, err := d.ReadListBegin(ctx)
		return d.skipItems(ctx, n, depth, err, et)
	case thrift.MAP:
		kt, vt, n, err := d.ReadMapBegin(ctx)
		return d.skipItems(ctx, n, depth, err, kt, vt)
	case thrift.BOOL, thrift.BYTE, thrift.I16, thrift.I32, thrift.I64, thrift.DOUBLE, thrift.UUID:
		_, err := d.take(leastBytes(t))
		return err
	default:
		return protocolErrorf("field type %d", t)
	}
}

func (d *decoder) skipItems(ctx context.Context, n, depth int, err error, types ...thrift.TType) error {
	for ; err == nil && n > 0; n-- {
		for _, t := range types {
			if err = d.skip(ctx, t, depth-1); err != nil {
				return err
			}
		}
	}
	return err
}
