package wire

import (
	"context"
	"encoding/binary"

	"github.com/apache/thrift/lib/go/thrift"
)

// encoder appends one message. It is the writing half of a Thrift protocol, so
// that generated code runs on it.
type encoder struct {
	thrift.TProtocol // nil: the service has no other types, and does not read here
	b                []byte
}

// frameBegin leaves room for a frame's length; frameEnd fills it in.
func (e *encoder) frameBegin() (at int) {
	at = len(e.b)
	e.b = append(e.b, 0, 0, 0, 0)
	return at
}

func (e *encoder) frameEnd(at int) {
	binary.BigEndian.PutUint32(e.b[at:], uint32(len(e.b)-at-4))
}

func (e *encoder) messageHead(name string, kind thrift.TMessageType, seq int32) {
	e.b = binary.BigEndian.AppendUint32(e.b, thrift.VERSION_1|uint32(kind))
	e.str(name)
	e.b = binary.BigEndian.AppendUint32(e.b, uint32(seq))
}

func (e *encoder) str(s string) {
	e.b = binary.BigEndian.AppendUint32(e.b, uint32(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) WriteStructBegin(context.Context, string) error { return nil }
func (e *encoder) WriteStructEnd(context.Context) error           { return nil }
func (e *encoder) WriteFieldEnd(context.Context) error            { return nil }
func (e *encoder) WriteMapEnd(context.Context) error              { return nil }
func (e *encoder) WriteListEnd(context.Context) error             { return nil }
func (e *encoder) WriteSetEnd(context.Context) error              { return nil }

func (e *encoder) WriteFieldBegin(_ context.Context, _ string, t thrift.TType, id int16) error {
	e.b = append(e.b, byte(t), byte(id>>8), byte(id))
	return nil
}

func (e *encoder) WriteFieldStop(context.Context) error {
	e.b = append(e.b, thrift.STOP)
	return nil
}

func (e *encoder) WriteMapBegin(_ context.Context, k, v thrift.TType, n int) error {
	e.b = append(e.b, byte(k), byte(v))
	e.b = binary.BigEndian.AppendUint32(e.b, uint32(n))
	return nil
}

func (e *encoder) WriteListBegin(_ context.Context, t thrift.TType, n int) error {
	e.b = append(e.b, byte(t))
	e.b = binary.BigEndian.AppendUint32(e.b, uint32(n))
	return nil
}

func (e *encoder) WriteSetBegin(ctx context.Context, t thrift.TType, n int) error {
	return e.WriteListBegin(ctx, t, n)
}

func (e *encoder) WriteBool(_ context.Context, v bool) error {
	var b byte
	if v {
		b = 1
	}
	e.b = append(e.b, b)
	return nil
}

func (e *encoder) WriteI32(_ context.Context, v int32) error {
	e.b = binary.BigEndian.AppendUint32(e.b, uint32(v))
	return nil
}

func (e *encoder) WriteI64(_ context.Context, v int64) error {
	e.b = binary.BigEndian.AppendUint64(e.b, uint64(v))
	return nil
}

func (e *encoder) WriteString(_ context.Context, s string) error {
	e.str(s)
	return nil
}

func (e *encoder) WriteBinary(_ context.Context, p []byte) error {
	e.b = binary.BigEndian.AppendUint32(e.b, uint32(len(p)))
	e.b = append(e.b, p...)
	return nil
}
