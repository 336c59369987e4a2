package quorum

// mutation names one seeded protocol bug. The bugs exist so that tests can show
// that the suite catches them: where the code asks seeded(mutX), a build with
// the tag mutants may do the wrong thing. In any other build seeded is false at
// compile time and nothing of it is left.
type mutation uint8

// The seeded bugs; mutation_on.go says what each breaks.
const (
	mutNone mutation = iota

	mutAckQuorumLess
	mutAckAnyGeneration
	mutDoubleAckCounts
	mutFailureCounts
	mutCompleteOutOfOrder
	mutCompleteDuringChange
	mutLACAhead
	mutFencedIsFailure
	mutIgnoreLateFailure
	mutSegmentAtFailed
	mutSegmentAtLAC
	mutSegmentTwice
	mutTwoChanges
	mutKeepReplacedAcks
	mutNoResend
	mutNoReexamine
	mutChangeInRecovery
	mutOverwriteConflict
	mutNoBarrier
	mutTrustConnection
	mutNeverReplaceLate
	mutGoOnWithTooFew

	mutCloseAtLastPushed
	mutCloseWithFailedBytes
	mutCloseOverClosed

	mutForceFirstAnswer
	mutForceCoversLater
	mutDeferredAcksCount
	mutDeferredChanges
	mutKeepUnforced

	mutRecoverUnmarked
	mutRecoverStale
	mutLACReadUnfenced
	mutReadUnfenced
	mutLargestEntryID
	mutUnknownIsHeard
	mutCoverAnyAck
	mutRecoverBelowSegment
	mutUnknownIsMissing
	mutOneMissingEnds
	mutSkipWriteBack
	mutMovingLAC
	mutForgetSegments
	mutLengthOfAnswer
	mutCloseOverSwaps
	mutOwnResult

	mutMissingWins
	mutFirstErrorFails
	mutClosedMoves
	mutLACMovesBack
	mutReadPastLAC
	mutPollErrorsAreEmpty
	mutPollOneEmpty
	mutEnd
)
