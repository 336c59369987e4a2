package ledgersim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/ledger/internal/quorum"
)

// mutantSeeds is how many seeds must suffice to catch a seeded bug: those that
// TestSim runs.
const mutantSeeds = 2000

// Each seeded protocol bug breaks an invariant in one of the schedules that
// TestSim runs: the simulation looks at the places where such bugs live.
func TestMutants(t *testing.T) {
	for _, m := range []struct {
		name string
		o    Options
	}{
		{"complete during an ensemble change", Options{Mutation: quorum.MutCompleteDuringChange}},
		{"keep the acks of a replaced bookie", Options{Mutation: quorum.MutKeepReplacedAcks}},
		{"new segment at the last entry", Options{Mutation: quorum.MutSegmentAtFailed}},
		{"count acks of any generation", Options{Mutation: quorum.MutAckAnyGeneration}},
		{"recovery reads without the fence flag", Options{Mutation: quorum.MutNoFenceOnRead}},
		{"a timeout counts as missing", Options{Mutation: quorum.MutUnknownIsMissing}},
		{"a timeout counts as heard", Options{Mutation: quorum.MutUnknownIsHeard}},
		{"LAC is the largest entry id", Options{Mutation: quorum.MutLargestEntryID}},
		{"metadata conflicts are written over", Options{Mutation: quorum.MutOverwriteConflict}},
		{"close without waiting for the write-back", Options{Mutation: quorum.MutSkipWriteBack}},
		{"complete out of order", Options{Mutation: quorum.MutCompleteOutOfOrder}},
		{"LAC that rests on write-backs", Options{Mutation: quorum.MutMovingLAC}},
		{"fence answered before it is on disk", Options{Bug: BugFenceInMemory}},
		{"add answered before it is on disk", Options{Bug: BugAckBeforeSync}},
	} {
		t.Run(m.name, func(t *testing.T) {
			_, seed, err := sweep(1, mutantSeeds, m.o, true)
			require.Error(t, err, "not caught in %d seeds", mutantSeeds)
			t.Logf("caught by seed %d: %v", seed, err)
		})
	}
}
