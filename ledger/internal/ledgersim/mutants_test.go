//go:build mutants

package ledgersim

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/ledger/internal/quorum"
)

var (
	mutantN    = flag.Uint64("mutants.n", 100_000, "schedules that must suffice to catch a seeded bug")
	mutantJSON = flag.Bool("mutants.json", false, "print one line of JSON a bug")
)

// result is what became of one seeded bug.
type result struct {
	Mutant    int    `json:"mutant"` // of quorum, 0 for one of bookies and shells
	Name      string `json:"name"`
	Rule      string `json:"rule"`
	What      string `json:"what"`
	Paper     string `json:"paper,omitempty"`
	Schedules uint64 `json:"schedules"` // until it was caught, 0 if it was not
	Invariant string `json:"invariant,omitempty"`
	Violation string `json:"violation,omitempty"`
}

// hunt runs seeds from 1 on until one catches the bug.
func hunt(o Options) (schedules uint64, v *Violation) {
	const batch = 500
	for first := uint64(1); first <= *mutantN; first += batch {
		if _, failed := Sweep(first, batch, o, true); failed != nil {
			return failed.Options.Seed, failed.Violation
		}
	}
	return 0, nil
}

// Each seeded protocol bug that breaks an invariant is caught by one of the seeds
// from 1 on that make sim runs.
func TestMutants(t *testing.T) {
	defer quorum.Seed(0)
	for _, m := range quorum.Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			quorum.Seed(m.ID)
			report(t, result{Mutant: m.ID, Name: m.Name, Rule: m.Rule, What: m.What, Paper: m.Paper}, Options{})
		})
	}
	quorum.Seed(0)
	for _, b := range bugs {
		t.Run(b.Name, func(t *testing.T) {
			report(t, result{Name: b.Name, Rule: b.Rule, What: b.What}, Options{Bug: b.Bug})
		})
	}
}

func report(t *testing.T, r result, o Options) {
	if r.Paper == "" {
		var v *Violation
		if r.Schedules, v = hunt(o); v != nil {
			r.Invariant, r.Violation = v.Invariant, v.What
		}
	}
	if *mutantJSON {
		line, err := json.Marshal(r)
		require.NoError(t, err)
		fmt.Println(string(line))
		return
	}
	if r.Paper == "" {
		require.NotZero(t, r.Schedules, "not caught in %d schedules: %s", *mutantN, r.What)
		t.Logf("caught by seed %d: %s: %s", r.Schedules, r.Invariant, r.Violation)
	}
}

// bugs are the seeded bugs outside the core.
var bugs = []struct {
	Bug  Bug
	Name string
	Rule string
	What string
}{
	{BugFenceInMemory, "FenceInMemory", "R02", "a bookie answers a fence before it is on disk"},
	{BugAckBeforeSync, "AckBeforeSync", "durability", "a bookie answers an add before it is on disk"},
	{BugLimboMissing, "LimboMissing", "44", "a bookie that lost its disk says \"no entry\", not \"unknown\""},
	{BugLimboUnfenced, "LimboUnfenced", "I3", "a bookie that lost its disk lets the old writer go on"},
	{BugNoTombstone, "NoTombstone", "24", "a bookie forgets the fence of a deleted ledger"},
	{BugRereadStale, "RereadStale", "48", "a lost compare-and-set is followed by a read that may be stale"},
	{BugNoDoubt, "NoDoubt", "51, address reuse", "the shell does not tell of new connections"},
	{BugForceUnsynced, "ForceUnsynced", "12", "a bookie answers a force before its journal is synced"},
}

// Without the fence on the entry reads of a recovery the case happens.
func TestR01_HappensWithoutTheFence(t *testing.T) {
	defer quorum.Seed(0)
	for _, m := range quorum.Mutants() {
		if m.Name == "ReadUnfenced" {
			quorum.Seed(m.ID)
		}
	}
	x := newR01(t)
	x.script(t)
	require.True(t, x.lost(), "the acknowledged entry is lost")
	lost := 0
	for seed := range uint64(3000) {
		if r01Order(t, seed) {
			lost++
		}
	}
	require.NotZero(t, lost, "some order must lose the entry: the orders are too tame")
}
