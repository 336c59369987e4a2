package ledgersim

import (
	"github.com/loglode/loglode/ledger/internal/quorum"
	"testing"
)

func TestTune(t *testing.T) {
	for name, o := range map[string]Options{
		"nofence": {Mutation: quorum.MutNoFenceOnRead}, "heard": {Mutation: quorum.MutUnknownIsHeard},
		"coverany": {Mutation: quorum.MutCoverAnyAck}, "unpub": {Mutation: quorum.MutMovingLAC},
		"missing": {Mutation: quorum.MutUnknownIsMissing}, "seg": {Mutation: quorum.MutSegmentAtFailed}, "gen": {Mutation: quorum.MutAckAnyGeneration},
		"skip": {Mutation: quorum.MutSkipWriteBack}, "bugfence": {Bug: BugFenceInMemory},
	} {
		n := 0
		first := uint64(0)
		for s := uint64(1); s <= 4000; s++ {
			o.Seed = s
			if _, err := Run(o); err != nil {
				n++
				if first == 0 {
					first = s
				}
			}
		}
		t.Logf("%s: %d of 4000, first %d", name, n, first)
	}
}
