package wire

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// v3FirstByte opens every version 3 message: field 1, length-delimited.
const v3FirstByte = 0x0a

// V3RecoveryPriority is the header priority of recovery reads and adds.
const V3RecoveryPriority = 100

// canonical gives fields in the order of their numbers, as Java does.
var canonical = proto.MarshalOptions{Deterministic: true}

// lean leaves out what nobody here looks at: a request may wait for long, and
// should hold no more than what it asks.
var lean = proto.UnmarshalOptions{DiscardUnknown: true}

// DecodeRequestV3 decodes the payload of a version 3 request. Bytes fields are
// copies; unknown fields are dropped. It fails with ErrMalformed on what does not parse, on a missing
// required field and on an unknown version or operation; the connection has to
// be closed then.
func DecodeRequestV3(payload []byte) (*bkpb.Request, error) {
	m := new(bkpb.Request)
	if err := lean.Unmarshal(payload, m); err != nil {
		return nil, fmt.Errorf("version 3 request: %w: %w", ErrMalformed, err)
	}
	return m, checkV3Header(m.Header)
}

// DecodeResponseV3 decodes the payload of a version 3 answer. Bytes fields are
// copies. It fails as DecodeRequestV3 does.
func DecodeResponseV3(payload []byte) (*bkpb.Response, error) {
	m := new(bkpb.Response)
	if err := lean.Unmarshal(payload, m); err != nil {
		return nil, fmt.Errorf("version 3 answer: %w: %w", ErrMalformed, err)
	}
	return m, checkV3Header(m.Header)
}

// checkV3Header refuses the enum values that proto2 calls unknown: in a
// required field they count as missing.
func checkV3Header(h *bkpb.Header) error {
	if v := h.GetVersion(); v < bkpb.ProtocolVersion_VERSION_ONE || v > bkpb.ProtocolVersion_VERSION_THREE {
		return fmt.Errorf("version 3 header: unknown protocol version %d: %w", v, ErrMalformed)
	}
	if o := h.GetOperation(); o < 0 || o > bkpb.OperationType(opCount) || !Op(o).Known() {
		return fmt.Errorf("version 3 header: unknown operation %d: %w", o, ErrMalformed)
	}
	return nil
}

// AppendV3 appends the frame of a version 3 request or answer.
func AppendV3(dst []byte, m proto.Message) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst, err := canonical.MarshalAppend(dst, m)
	if err != nil {
		return nil, fmt.Errorf("encode version 3 message: %w", err)
	}
	size := len(dst) - start - LengthSize
	if size+LengthSize > MaxFrame {
		return nil, fmt.Errorf("encode version 3 message: %d bytes, limit is %d: %w", size, MaxFrame-LengthSize, ErrFrameLength)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(size))
	return dst, nil
}

// V3Header is the header of a request of ours.
func V3Header(op Op, txnID uint64, priority uint32) *bkpb.Header {
	h := &bkpb.Header{
		Version:   bkpb.ProtocolVersion_VERSION_THREE.Enum(),
		Operation: bkpb.OperationType(op).Enum(),
		TxnId:     proto.Uint64(txnID),
	}
	if priority > 0 {
		h.Priority = proto.Uint32(priority)
	}
	return h
}
