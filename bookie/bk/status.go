package bk

import "fmt"

// Status is a bookie's answer to one request, independent of the protocol
// version that carries it. Its zero value is StatusOK.
type Status uint8

// The statuses of the protocol. Their numbers here are ours; the numbers on
// the wire are in statusTable.
const (
	StatusOK Status = iota
	StatusNoLedger
	StatusNoEntry
	StatusBadRequest
	StatusIO
	StatusUnauthorized
	StatusBadVersion
	StatusFenced
	StatusReadOnly
	StatusTooManyRequests
	StatusUnknownLedgerState
	statusCount
)

type statusRow struct {
	name string
	v2   int32 // on the wire: do not renumber
	v3   int32 // on the wire: do not renumber
	err  error
}

// statusTable is the one table between wire codes and errors, for both
// protocol versions.
var statusTable = [statusCount]statusRow{
	StatusOK:              {"EOK", 0, 0, nil},
	StatusNoLedger:        {"ENOLEDGER", 1, 402, ErrNoSuchLedger},
	StatusNoEntry:         {"ENOENTRY", 2, 403, ErrNoSuchEntry},
	StatusBadRequest:      {"EBADREQ", 100, 404, ErrBadRequest},
	StatusIO:              {"EIO", 101, 501, ErrBookieIO},
	StatusUnauthorized:    {"EUA", 102, 502, ErrUnauthorized},
	StatusBadVersion:      {"EBADVERSION", 103, 503, ErrBadVersion},
	StatusFenced:          {"EFENCED", 104, 504, ErrFenced},
	StatusReadOnly:        {"EREADONLY", 105, 505, ErrReadOnly},
	StatusTooManyRequests: {"ETOOMANYREQUESTS", 106, 506, ErrTooManyRequests},
	// A v2 client must never see 107: its decoder drops the connection. EIO
	// says the same to it: an error, not a missing entry.
	StatusUnknownLedgerState: {"EUNKNOWNLEDGERSTATE", 101, 507, ErrUnknownLedgerState},
}

func (s Status) String() string {
	if s < statusCount {
		return statusTable[s].name
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// V2 is the status as a return code of protocol version 2.
func (s Status) V2() int32 { return statusTable[s].v2 }

// V3 is the status as a StatusCode of protocol version 3.
func (s Status) V3() int32 { return statusTable[s].v3 }

// Err is the condition that the status stands for, nil for StatusOK.
func (s Status) Err() error { return statusTable[s].err }

// StatusFromV2 maps a return code of protocol version 2. A real bookie can
// send 107, which ought not to be on that wire; it is taken for what it means.
func StatusFromV2(code int32) (Status, bool) {
	if code == 107 {
		return StatusUnknownLedgerState, true
	}
	for s := range statusTable {
		if statusTable[s].v2 == code {
			return Status(s), true
		}
	}
	return StatusIO, false
}

// StatusFromV3 maps a StatusCode of protocol version 3.
func StatusFromV3(code int32) (Status, bool) {
	for s := range statusTable {
		if statusTable[s].v3 == code {
			return Status(s), true
		}
	}
	return StatusIO, false
}

// Missing reports whether the status is one of the two that certainly say "the
// entry is not here". Every other status but OK is "unknown": it proves
// nothing and may never shorten a ledger.
func (s Status) Missing() bool { return s == StatusNoLedger || s == StatusNoEntry }
