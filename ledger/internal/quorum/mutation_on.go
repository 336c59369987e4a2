//go:build mutants

package quorum

const mutantsBuilt = true

// active is the bug that is switched on. Only Seed sets it, while no core runs.
var active mutation

func seeded(m mutation) bool { return active == m }

// Mutant is one seeded bug.
type Mutant struct {
	ID   int
	Name string
	Rule string // that it breaks
	What string // it does instead

	// Paper names what kills it where the simulation cannot: it breaks no
	// invariant.
	Paper string
}

// Seed switches bug id on and all others off; 0 switches all off.
func Seed(id int) { active = mutation(id) }

// Mutants are the seeded bugs of this package.
func Mutants() []Mutant {
	for i := range mutants {
		mutants[i].ID = i + 1
	}
	return mutants
}

// mutants has one element a mutation, in their order.
var mutants = []Mutant{
	{Name: "AckQuorumLess", Rule: "6", What: "an entry is complete with one answer less than the ack quorum"},
	{Name: "AckAnyGeneration", Rule: "6", What: "answers of a bookie that was replaced count"},
	{Name: "DoubleAckCounts", Rule: "6", What: "one bookie's answer counts twice when it comes twice"},
	{Name: "FailureCounts", Rule: "6", What: "a timeout counts as an answer"},
	{Name: "CompleteOutOfOrder", Rule: "7", What: "a later entry completes those before it"},
	{Name: "CompleteDuringChange", Rule: "7", What: "entries complete while an ensemble change is in flight"},
	{Name: "LACAhead", Rule: "5", What: "the LAC in an entry is the last entry pushed"},
	{Name: "FencedIsFailure", Rule: "9", What: "fenced is a failure like any other", Paper: "the ensemble change that it starts meets the metadata of the recovery"},
	{Name: "IgnoreLateFailure", Rule: "8", What: "a failure that comes after the ack quorum is ignored", Paper: "an under-replicated entry is no lost one"},
	{Name: "SegmentAtFailed", Rule: "16", What: "the new segment starts at the last entry pushed"},
	{Name: "SegmentAtLAC", Rule: "16", What: "the new segment starts at the LAC, not behind it"},
	{Name: "SegmentTwice", Rule: "16", What: "a segment is added where the last one starts, not replaced"},
	{Name: "TwoChanges", Rule: "14", What: "a second change starts while one is in flight"},
	{Name: "KeepReplacedAcks", Rule: "18", What: "acks of a replaced bookie are kept"},
	{Name: "NoResend", Rule: "18", What: "pending entries are not sent to the new bookie"},
	{Name: "NoReexamine", Rule: "18", What: "the head of the queue is not looked at again after a change"},
	{Name: "ChangeInRecovery", Rule: "17", What: "a change that finds the ledger in recovery is tried again"},
	{Name: "OverwriteConflict", Rule: "17, 38", What: "metadata conflicts are written over"},
	{Name: "NoBarrier", Rule: "48", What: "a change with an unknown outcome is not voided before the writer goes on without"},
	{Name: "TrustConnection", Rule: "address reuse", What: "a bookie is trusted over a new connection without proof that the ledger is open"},
	{Name: "NeverReplaceLate", Rule: "20", What: "a late change never comes"},
	{Name: "GoOnWithTooFew", Rule: "15", What: "without another bookie the writer goes on although entries cannot complete"},
	{Name: "CloseAtLastPushed", Rule: "21", What: "the close keeps entries that are not confirmed"},
	{Name: "CloseWithFailedBytes", Rule: "21", What: "the length at the close has the bytes of failed adds"},
	{Name: "CloseOverClosed", Rule: "22", What: "a ledger that another client closed elsewhere counts as closed by this writer"},
	{Name: "ForceFirstAnswer", Rule: "12", What: "the first answer ends a force"},
	{Name: "ForceCoversLater", Rule: "12", What: "a force covers what completed after it was sent"},
	{Name: "DeferredAcksCount", Rule: "12", What: "acks of a deferred-sync ledger move the LAC"},
	{Name: "DeferredChanges", Rule: "12", What: "a deferred-sync ledger changes its ensemble"},
	{Name: "KeepUnforced", Rule: "12", What: "a deferred-sync ledger goes on after a bookie may have lost what it acknowledged"},
	{Name: "RecoverUnmarked", Rule: "30", What: "recovery does not mark the ledger", Paper: "a writer that changes the ensemble meanwhile makes the close lose its compare-and-set"},
	{Name: "RecoverStale", Rule: "30", What: "recovery goes on with old segments after a conflict"},
	{Name: "LACReadUnfenced", Rule: "31", What: "the LAC reads of a recovery do not fence"},
	{Name: "ReadUnfenced", Rule: "34", What: "the entry reads of a recovery do not fence"},
	{Name: "LargestEntryID", Rule: "31", What: "the largest entry id is taken for the LAC"},
	{Name: "UnknownIsHeard", Rule: "32", What: "errors and silence count as heard"},
	{Name: "CoverAnyAck", Rule: "32", What: "any Qa answers suffice, not every window"},
	{Name: "RecoverBelowSegment", Rule: "33", What: "recovery starts below the last segment"},
	{Name: "UnknownIsMissing", Rule: "35", What: "errors and silence count as missing"},
	{Name: "OneMissingEnds", Rule: "35, 39", What: "one bookie without the entry ends the ledger"},
	{Name: "SkipWriteBack", Rule: "36", What: "the ledger is closed before entries are written back"},
	{Name: "MovingLAC", Rule: "36", What: "write-backs name a LAC that rests on write-backs"},
	{Name: "ForgetSegments", Rule: "37", What: "the close leaves out the segments changed in memory"},
	{Name: "LengthOfAnswer", Rule: "38", What: "the length is that of the entry that came with the LAC"},
	{Name: "CloseOverSwaps", Rule: "38, 49", What: "the close writes over what re-replication changed"},
	{Name: "OwnResult", Rule: "38", What: "a recovery that lost the close reports its own end"},
	{Name: "MissingWins", Rule: "43", What: "one replica without the entry makes the read say missing"},
	{Name: "FirstErrorFails", Rule: "41", What: "a read fails with its first error"},
	{Name: "ClosedMoves", Rule: "25", What: "a hint moves the LAC of a closed ledger", Paper: "no bookie that tells the truth gives such a hint"},
	{Name: "LACMovesBack", Rule: "27", What: "a lower hint moves the LAC back"},
	{Name: "ReadPastLAC", Rule: "28", What: "a normal read may pass the LAC by one"},
	{Name: "PollErrorsAreEmpty", Rule: "29", What: "errors end a poll like empty answers", Paper: "news that come late are no wrong ones"},
	{Name: "PollOneEmpty", Rule: "29", What: "one empty answer ends a poll", Paper: "news that come late are no wrong ones"},
}
