package quorum

// Mutation switches on one seeded protocol bug. It exists so that tests can
// show that the simulation catches the bug; production code leaves it at its
// zero value, which a test checks.
type Mutation uint16

// The seeded bugs, named after what they break.
const (
	MutCompleteDuringChange Mutation = 1 << iota // rule 7: complete while an ensemble change is in flight
	MutKeepReplacedAcks                          // rule 18: keep the acknowledgements of a replaced bookie
	MutSegmentAtFailed                           // rule 16: new segment at the last pushed entry, not at LAC + 1
	MutAckAnyGeneration                          // rule 6: count answers of bookies no longer at the position
	MutNoFenceOnRead                             // rule 34: recovery reads without the fence flag
	MutUnknownIsMissing                          // rule 35: errors and silence count as missing
	MutUnknownIsHeard                            // rule 32: errors and silence count as heard
	MutCoverAnyAck                               // rule 32: any Qa answers suffice, not every window
	MutLargestEntryID                            // rule 31: the largest entry id, not the largest LAC
	MutOverwriteConflict                         // rules 17, 38: write over the fresh metadata without testing it
	MutSkipWriteBack                             // rule 36: close without waiting for the write-back
	MutCompleteOutOfOrder                        // rule 7: a later entry completes those before it
	MutMovingLAC                                 // rule 36: write-backs name a LAC that rests on write-backs
	MutTrustNewConnections                       // address reuse: no proof after a reconnect that the ledger is still open
)

func (m Mutation) has(o Mutation) bool { return m&o != 0 }
