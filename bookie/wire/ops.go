package wire

import "fmt"

// Op is an operation of the protocol. Its number is that of OperationType in
// version 3. On the wire: do not renumber.
type Op uint8

// The operations.
const (
	OpRead          Op = 1
	OpAdd           Op = 2
	OpRangeRead     Op = 3 // never implemented by anyone
	OpRangeAdd      Op = 4 // never implemented by anyone
	OpAuth          Op = 5
	OpWriteLAC      Op = 6
	OpReadLAC       Op = 7
	OpGetBookieInfo Op = 8
	OpStartTLS      Op = 9
	OpForce         Op = 10
	OpListEntries   Op = 11
	OpBatchRead     Op = 12
	opCount         Op = 13
)

// opRow says how each protocol version knows an operation.
type opRow struct {
	name     string
	v2       uint32 // opcode in version 2, 0 = has no codec there
	v3       bool   // has a message in version 3
	answered bool   // version 3 knows the number, even if only to refuse it
}

// opTable is the one table of operations.
var opTable = [opCount]opRow{
	OpRead:          {"READ_ENTRY", v2OpRead, true, true},
	OpAdd:           {"ADD_ENTRY", v2OpAdd, true, true},
	OpRangeRead:     {"RANGE_READ_ENTRY", 0, false, true},
	OpRangeAdd:      {"RANGE_ADD_ENTRY", 0, false, true},
	OpAuth:          {"AUTH", v2OpAuth, true, true},
	OpWriteLAC:      {"WRITE_LAC", 0, true, true},
	OpReadLAC:       {"READ_LAC", 0, true, true},
	OpGetBookieInfo: {"GET_BOOKIE_INFO", 0, true, true},
	OpStartTLS:      {"START_TLS", 0, true, true},
	OpForce:         {"FORCE_LEDGER", 0, true, true},
	OpListEntries:   {"GET_LIST_OF_ENTRIES_OF_LEDGER", 0, true, true},
	OpBatchRead:     {"BATCH_READ_ENTRY", v2OpBatchRead, false, true},
}

func (o Op) String() string {
	if o < opCount && opTable[o].name != "" {
		return opTable[o].name
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Known reports whether o is a number of the protocol, implemented or not.
func (o Op) Known() bool { return o < opCount && opTable[o].answered }

// InV3 reports whether o has a message in version 3. A known operation
// without one is answered EBADREQ.
func (o Op) InV3() bool { return o < opCount && opTable[o].v3 }

// v2Code is the opcode of o in version 2; it panics if o has none, which is a
// bug of the caller.
func (o Op) v2Code() uint32 {
	if o >= opCount || opTable[o].v2 == 0 {
		panic(fmt.Sprintf("wire: %s has no encoding in protocol version 2", o))
	}
	return opTable[o].v2
}

// Opcodes of version 2. On the wire: do not renumber.
const (
	v2OpAdd       = 1
	v2OpRead      = 2
	v2OpAuth      = 3
	v2OpBatchRead = 7
)

// opFromV2 is the operation of a version 2 opcode, 0 if there is none.
func opFromV2(code uint32) Op {
	switch code {
	case v2OpAdd:
		return OpAdd
	case v2OpRead:
		return OpRead
	case v2OpAuth:
		return OpAuth
	case v2OpBatchRead:
		return OpBatchRead
	default:
		return 0
	}
}
