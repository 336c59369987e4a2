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
	for name, o := range map[string]Options{
		"complete during an ensemble change":       {Mutation: quorum.MutCompleteDuringChange},
		"keep the acks of a replaced bookie":       {Mutation: quorum.MutKeepReplacedAcks},
		"new segment at the last entry":            {Mutation: quorum.MutSegmentAtFailed},
		"count acks of any generation":             {Mutation: quorum.MutAckAnyGeneration},
		"recovery reads without the fence flag":    {Mutation: quorum.MutNoFenceOnRead},
		"a timeout counts as missing":              {Mutation: quorum.MutUnknownIsMissing},
		"a timeout counts as heard":                {Mutation: quorum.MutUnknownIsHeard},
		"LAC is the largest entry id":              {Mutation: quorum.MutLargestEntryID},
		"metadata conflicts are written over":      {Mutation: quorum.MutOverwriteConflict},
		"close without waiting for the write-back": {Mutation: quorum.MutSkipWriteBack},
		"complete out of order":                    {Mutation: quorum.MutCompleteOutOfOrder},
		"LAC that rests on write-backs":            {Mutation: quorum.MutMovingLAC},
		"fence answered before it is on disk":      {Bug: BugFenceInMemory},
		"add answered before it is on disk":        {Bug: BugAckBeforeSync},
	} {
		t.Run(name, func(t *testing.T) {
			_, seed, err := sweep(mutantSeeds, o, true)
			require.NotZero(t, seed, "not caught in %d seeds", mutantSeeds)
			t.Logf("caught by seed %d: %v", seed, err)
		})
	}
}
