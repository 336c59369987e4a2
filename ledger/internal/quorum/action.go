package quorum

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
)

// Slot names one stay of a bookie at one position of the ensemble. A
// replacement changes Gen, so an answer of the bookie before it does not match.
type Slot struct {
	Pos int
	Gen uint32
}

// ActionKind says what the shell is to do.
type ActionKind uint8

// What a Writer or a Recovery can ask for. The fields of Action that a kind
// uses are named with it.
const (
	// ActSend: send the add of Entry to Bookie, answer with Ack or Fail for
	// Slot. A Writer gives no such action for a first send, which Push
	// describes: only for the copies an ensemble change moved. A Recovery gives
	// one for every copy of a write-back (a RECOVERY_ADD with high priority).
	ActSend ActionKind = iota + 1

	// ActFailed: the entries Entry to Last (closed range) failed with Err and
	// will never complete in this handle. They may still turn up in the ledger
	// (rule 11). It comes at most once, and after the completions it follows.
	ActFailed

	// ActPick: choose a bookie for every position in Change.Failed, answer with
	// Replace or NoBookies.
	ActPick

	// ActUpdate: write Metadata by compare-and-set over the version that the
	// core last learned (at construction, by Updated, or by Conflict). Answer
	// with exactly one of Updated, Conflict, UpdateFailed. When the outcome is
	// unknown, read back and answer Conflict with what is stored: the core
	// finds its own write in it (rule 48). Metadata may be what is stored
	// already: it is to be written all the same, to get a new version.
	ActUpdate

	// ActFinished: the core is done, Err says how it ended. Nothing follows.
	// Writer: nil when the ledger is closed at this writer's LAC. Recovery: nil
	// when the ledger is closed, at what Result says.
	ActFinished

	// ActReadLAC (Recovery): read the last entry of position Slot.Pos from
	// Bookie with the fence flag and the master key, answer with LACAnswer.
	ActReadLAC

	// ActRead (Recovery): read Entry from Bookie; with fence flag, master key
	// and high priority when Fence is set. Answer with ReadAnswer for Slot.Pos.
	ActRead

	// ActFrame (Recovery): build the add of the recovered Entry with its
	// payload, LAC and Length; the ActSends of its copies follow.
	ActFrame

	// ActForce (Writer of a deferred-sync ledger): force the ledger at Bookie,
	// answer with ForceAck or ForceFail for Force and Slot.
	ActForce
)

func (k ActionKind) String() string {
	names := [...]string{"", "send", "failed", "pick", "update", "finished", "readlac", "read", "frame", "force"}
	if int(k) < len(names) && k > 0 {
		return names[k]
	}
	return fmt.Sprintf("ActionKind(%d)", uint8(k))
}

// Action is one thing for the shell to do. Which fields count depends on Kind.
type Action struct {
	Kind     ActionKind
	Fence    bool
	Slot     Slot
	Bookie   bk.BookieID
	Entry    bk.EntryID
	Last     bk.EntryID
	LAC      bk.EntryID
	Length   int64
	Force    uint32
	Metadata Metadata
	Change   Change
	Err      error
}

// Change is a question for replacement bookies. Its slices are the shell's to
// keep.
type Change struct {
	Ensemble []bk.BookieID // the current ensemble, by position
	Failed   []int         // positions to fill, rising
	Avoid    []bk.BookieID // bookies that failed just now, some no longer in Ensemble
}

// Pick is the replacement chosen for one position.
type Pick struct {
	Pos    int
	Bookie bk.BookieID
}

// Outcome is what one answer to a read proves.
type Outcome uint8

// The three values of a read answer. Only Missing may shorten a ledger.
const (
	Unknown Outcome = iota // proves nothing: error, silence, damage
	Valid                  // the entry, its digest and ids checked
	Missing                // certainly not stored at that bookie
)

func (o Outcome) String() string {
	return [...]string{"unknown", "valid", "missing"}[o%3]
}

// Classify maps the result of a read at one bookie to what it proves: nil is
// Valid, bk.ErrNoSuchEntry and bk.ErrNoSuchLedger are Missing, anything else,
// a wrong digest above all, is Unknown. An error that joins several is Unknown
// whatever it joins: only a plain chain down to one of the two proves absence.
func Classify(err error) Outcome {
	if err == nil {
		return Valid
	}
	for err != nil {
		if err == bk.ErrNoSuchEntry || err == bk.ErrNoSuchLedger { //nolint:errorlint // the chain is walked here
			return Missing
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return Unknown
		}
		err = u.Unwrap()
	}
	return Unknown
}
