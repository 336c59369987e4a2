package conn

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// deferredSync is the bit of an add's write flags. On the wire: do not renumber.
const deferredSync = 1

// wire is the operation's number on the wire.
func (o Op) wire() wire.Op {
	switch o {
	case OpBatchRead:
		return wire.OpBatchRead
	case OpRecoveryAdd, OpDeferredAdd, OpRecoveryAddV2:
		return wire.OpAdd
	case OpReadLAC:
		return wire.OpReadLAC
	case OpWriteLAC:
		return wire.OpWriteLAC
	case OpForce:
		return wire.OpForce
	default:
		return wire.OpRead
	}
}

// encode gives the frame of a call, n bytes at the start of a chunk.
func (l *link) encode(c *Call) (chunk *Chunk, n int, err error) {
	var frame []byte
	var buf [128]byte
	switch c.Op {
	case OpRead:
		frame = wire.AppendReadRequest(buf[:0], 0, c.Ledger, c.Entry, nil)
	case OpFenceReadV2:
		flags := wire.FlagFence
		if c.Entry != bk.InvalidEntryID {
			flags |= wire.FlagHighPriority
		}
		frame = wire.AppendReadRequest(buf[:0], flags, c.Ledger, c.Entry, c.Key)
	case OpRecoveryAddV2:
		frame = wire.AppendAddRequest(buf[:0], wire.FlagRecoveryAdd|wire.FlagHighPriority, c.Key, len(c.Payload))
		if frame = append(frame, c.Payload...); len(frame) > wire.MaxFrame {
			return nil, 0, fmt.Errorf("%s of ledger %d entry %d: frame of %d bytes: %w", c.Op, c.Ledger, c.Entry, len(frame), wire.ErrFrameLength)
		}
	case OpBatchRead:
		frame = wire.AppendBatchReadRequest(buf[:0], wire.BatchRead{
			Ledger: c.Ledger, First: c.Entry, RequestID: int64(c.id), MaxCount: c.Count, MaxSize: c.MaxBytes,
		})
	default:
		m, err := c.messageV3()
		if err != nil {
			return nil, 0, err
		}
		if frame, err = wire.AppendV3(buf[:0], m); err != nil {
			return nil, 0, fmt.Errorf("%s of ledger %d entry %d: %w", c.Op, c.Ledger, c.Entry, err)
		}
	}
	chunk = l.pool.chunks.Get(len(frame))
	copy(chunk.mem, frame)
	return chunk, len(frame), nil
}

// messageV3 is the request in protocol version 3.
func (c *Call) messageV3() (*bkpb.Request, error) {
	l, e := proto.Int64(int64(c.Ledger)), proto.Int64(int64(c.Entry))
	var priority uint32
	if c.Op == OpFenceRead || c.Op == OpRecoveryAdd {
		priority = wire.V3RecoveryPriority
	}
	m := &bkpb.Request{Header: wire.V3Header(c.Op.wire(), c.id, priority)}
	switch c.Op {
	case OpFenceRead:
		m.ReadRequest = &bkpb.ReadRequest{LedgerId: l, EntryId: e, MasterKey: c.Key[:],
			Flag: bkpb.ReadRequest_FENCE_LEDGER.Enum()}
	case OpLongPoll:
		m.ReadRequest = &bkpb.ReadRequest{LedgerId: l, EntryId: proto.Int64(int64(bk.InvalidEntryID)),
			PreviousLac: e, TimeOut: proto.Int64(c.Wait.Milliseconds()), Flag: bkpb.ReadRequest_ENTRY_PIGGYBACK.Enum()}
	case OpRecoveryAdd:
		m.AddRequest = &bkpb.AddRequest{LedgerId: l, EntryId: e, MasterKey: c.Key[:], Body: c.Payload,
			Flag: bkpb.AddRequest_RECOVERY_ADD.Enum()}
	case OpDeferredAdd:
		m.AddRequest = &bkpb.AddRequest{LedgerId: l, EntryId: e, MasterKey: c.Key[:], Body: c.Payload,
			WriteFlags: proto.Int32(deferredSync)}
	case OpReadLAC:
		m.ReadLacRequest = &bkpb.ReadLacRequest{LedgerId: l}
	case OpWriteLAC:
		m.WriteLacRequest = &bkpb.WriteLacRequest{LedgerId: l, Lac: e, MasterKey: c.Key[:], Body: c.Payload}
	case OpForce:
		m.ForceLedgerRequest = &bkpb.ForceLedgerRequest{LedgerId: l}
	default:
		return nil, fmt.Errorf("%s has no message: %w", c.Op, bk.ErrBadRequest)
	}
	return m, nil
}
