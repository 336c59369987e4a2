package layout

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata/layout/internal/bkpb"
)

// RepairTree is the key of a cluster's under-replication tree: which ledgers
// lack copies, who repairs which, who is auditor. This package knows its keys
// and values.
type RepairTree string

// RepairTree gives the key of this cluster's.
func (c *Cluster) RepairTree() RepairTree { return RepairTree(c.scope + "/underreplication") }

// RepairLayout is the value of Layout. Refuse to work with any other; see
// CheckRepairLayout.
const RepairLayout = "type: \"BASIC\"\nversion: 1\n"

// Layout is the key whose value says how the tree is made.
func (r RepairTree) Layout() string { return string(r) + "/LAYOUT" }

// Ledgers is the key below which all marked ledgers are, four levels of
// directories down.
func (r RepairTree) Ledgers() string { return string(r) + "/ledgers" }

// Ledger is the key of a marked ledger; its value is a Missing.
func (r RepairTree) Ledger(id bk.LedgerID) string {
	x := fmt.Sprintf("%016x", uint64(id))
	return fmt.Sprintf("%s/%s/%s/%s/%s/%s", r.Ledgers(), x[:4], x[4:8], x[8:12], x[12:], repairName(id))
}

// Lock is the ephemeral key of who repairs a ledger; its value is a holder.
func (r RepairTree) Lock(id bk.LedgerID) string { return string(r) + "/locks/" + repairName(id) }

// Disabled is the key that pauses all repair while it exists; its value is
// empty.
func (r RepairTree) Disabled() string { return string(r) + "/disable" }

// LostBookieDelay is the key of how long a bookie is away before it counts as
// lost, decimal seconds as text.
func (r RepairTree) LostBookieDelay() string { return string(r) + "/lostBookieRecoveryDelay" }

// Election is the key whose value is the auditor, a holder. Its children are
// the votes.
func (r RepairTree) Election() string { return string(r) + "/auditorelection" }

// Vote is the prefix of an ephemeral, sequential vote; its value is a holder,
// and the lowest number wins.
func (r RepairTree) Vote() string { return r.Election() + "/V_" }

// LedgersChecked, PlacementChecked and ReplicasChecked are the keys of when the
// auditor has last done each of its rounds; see MarshalCheckTime.
func (r RepairTree) LedgersChecked() string   { return string(r) + "/checkallledgersctime" }
func (r RepairTree) PlacementChecked() string { return string(r) + "/placementpolicycheckctime" }
func (r RepairTree) ReplicasChecked() string  { return string(r) + "/replicascheckctime" }

const repairMark = "urL"

func repairName(id bk.LedgerID) string { return fmt.Sprintf("%s%010d", repairMark, id) }

// RepairID gives the ledger that the last component of a Ledger or Lock key
// stands for, false if it stands for none.
func RepairID(name string) (bk.LedgerID, bool) {
	text, ok := strings.CutPrefix(name, repairMark)
	id, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || id < 0 || repairName(bk.LedgerID(id)) != name {
		return 0, false
	}
	return bk.LedgerID(id), true
}

func repairCorrupt(what string, err error) error {
	return &bk.CorruptError{Where: "under-replication, " + what, Offset: -1, Want: "protobuf", Got: err.Error()}
}

// readText takes text of a later version too: fields that are not known are
// passed over.
var readText = prototext.UnmarshalOptions{DiscardUnknown: true}

// CheckRepairLayout checks a value of Layout; ErrLayout.
func CheckRepairLayout(text []byte) error {
	var pb bkpb.LedgerRereplicationLayoutFormat
	if err := readText.Unmarshal(text, &pb); err != nil {
		return fmt.Errorf("under-replication tree: %w: %w", ErrLayout, repairCorrupt("LAYOUT", err))
	}
	if pb.GetType() != "BASIC" || pb.GetVersion() != 1 {
		return fmt.Errorf("under-replication tree: type %q, version %d: %w", pb.GetType(), pb.GetVersion(), ErrLayout)
	}
	return nil
}

// Missing says which copies of a ledger are lost.
type Missing struct {
	Bookies []bk.BookieID
	Since   time.Time // to the millisecond; zero: not stored
}

// Marshal gives the stored text.
func (m Missing) Marshal() []byte {
	var t textWriter
	for _, b := range m.Bookies {
		t.quoted("replica", string(b))
	}
	if !m.Since.IsZero() {
		t.number("ctime", m.Since.UnixMilli())
	}
	return []byte(t.String())
}

// ParseMissing decodes what Marshal made; bk.ErrCorrupt.
func ParseMissing(text []byte) (Missing, error) {
	var pb bkpb.UnderreplicatedLedgerFormat
	if err := readText.Unmarshal(text, &pb); err != nil {
		return Missing{}, repairCorrupt("ledger", err)
	}
	var m Missing
	for _, r := range pb.GetReplica() {
		m.Bookies = append(m.Bookies, bk.BookieID(r))
	}
	if pb.Ctime != nil {
		m.Since = time.UnixMilli(pb.GetCtime())
	}
	return m, nil
}

// MarshalHolder gives the value of a lock, a vote or the elected auditor.
func MarshalHolder(who bk.BookieID) []byte {
	var t textWriter
	t.quoted("bookieId", string(who))
	return []byte(t.String())
}

// ParseHolder decodes what MarshalHolder made; bk.ErrCorrupt.
func ParseHolder(text []byte) (bk.BookieID, error) {
	var pb bkpb.LockDataFormat
	if err := readText.Unmarshal(text, &pb); err != nil {
		return "", repairCorrupt("holder", err)
	}
	return bk.BookieID(pb.GetBookieId()), nil
}

// MarshalCheckTime gives the value of LedgersChecked and its like, to the
// millisecond.
func MarshalCheckTime(at time.Time) ([]byte, error) {
	return proto.Marshal(&bkpb.CheckTimeFormat{Ctime: proto.Int64(at.UnixMilli())})
}

// ParseCheckTime decodes what MarshalCheckTime made; bk.ErrCorrupt.
func ParseCheckTime(b []byte) (time.Time, error) {
	var pb bkpb.CheckTimeFormat
	if err := proto.Unmarshal(b, &pb); err != nil {
		return time.Time{}, repairCorrupt("time of a check", err)
	}
	return time.UnixMilli(pb.GetCtime()), nil
}
