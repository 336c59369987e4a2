package ledgersim

import (
	"fmt"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// The same options give the same history, on a runner that is new and on one
// that has run others.
func TestOneSeedIsOneHistory(t *testing.T) {
	history := func(r *Runner, seed uint64) (lines []string) {
		_, v := r.Run(Options{Seed: seed, Trace: func(line string) { lines = append(lines, line) }})
		require.Nil(t, v, "seed %d", seed)
		return lines
	}
	var used Runner
	for seed := uint64(1); seed <= 40; seed++ {
		var fresh Runner
		require.Equal(t, history(&fresh, seed), history(&used, seed), "seed %d", seed)
	}
}

// A failure is shrunk to one with fewer features that breaks the same invariant
// and replays.
func TestShrink(t *testing.T) {
	_, failed := Sweep(1, 2000, Options{Bug: BugAckBeforeSync}, true)
	require.NotNil(t, failed)
	small := Shrink(*failed)
	require.Equal(t, failed.Violation.Invariant, small.Violation.Invariant)
	var r Runner
	_, again := r.Run(small.Options)
	require.Equal(t, small.Violation, again, "it replays")
	features := func(o Options) int {
		r.s.reset(o)
		r.s.setup()
		return bits.OnesCount32(uint32(r.s.prof.on))
	}
	require.Less(t, features(small.Options), features(failed.Options))
	require.Contains(t, small.String(), fmt.Sprintf("-sim.seed %d -sim.salt %d -sim.off %#x", small.Options.Seed, small.Options.Salt, uint32(small.Options.Off)))
}

// Every quorum of up to six bookies, every kind and every feature are drawn.
func TestWeatherIsOfEveryKind(t *testing.T) {
	quorums, kinds, names := map[string]bool{}, map[kind]bool{}, Features(0)
	var r Runner
	for seed := range uint64(20_000) {
		r.s.reset(Options{Seed: seed})
		r.s.setup()
		q := r.s.q
		quorums[fmt.Sprint(q.Ensemble, q.Write, q.Ack)] = true
		kinds[r.s.prof.kind] = true
		names |= r.s.prof.on
		require.NoError(t, q.Validate())
		require.GreaterOrEqual(t, len(r.s.bookies), q.Ensemble)
	}
	require.Len(t, quorums, 56, "E 1 to 6, Qw 1 to E, Qa 1 to Qw")
	require.Len(t, kinds, 4)
	require.Equal(t, featEnd-1, names)
	require.Len(t, featureNames, bits.Len32(uint32(featEnd))-1)
}
