package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loglode/loglode/bookie/bk"
)

func bookies(n int) []bk.BookieID {
	var b []bk.BookieID
	for i := range n {
		b = append(b, bk.BookieID(fmt.Sprintf("b%d:3181", i)))
	}
	return b
}

func TestRule1ChooseDistinctWritable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "bookies")
		want := rapid.IntRange(1, 8).Draw(t, "ensemble")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		avoided := rapid.IntRange(0, n).Draw(t, "avoided")
		all := bookies(n)
		listed := append(slices.Clone(all), all...) // a listing with repeats
		avoid := func(b bk.BookieID) bool { return slices.Index(all, b) < avoided }

		got, err := Choose(rng, want, listed, avoid)
		if want > n {
			var facts *NotEnoughError
			require.ErrorAs(t, err, &facts)
			require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
			require.Equal(t, NotEnoughError{Need: want, Have: n}, *facts)
			return
		}
		require.NoError(t, err)
		require.Len(t, got, want)
		used := 0
		for i, b := range got {
			require.Contains(t, all, b)
			require.NotContains(t, got[:i], b)
			if avoid(b) {
				used++
			}
		}
		require.Equal(t, max(0, want-(n-avoided)), used, "avoided bookies are used only when the others do not suffice")
	})
}

func TestRule15ReplaceKeepsOtherPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.IntRange(1, 6).Draw(t, "ensemble")
		spare := rapid.IntRange(0, 6).Draw(t, "spare")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		all := bookies(e + spare)
		ens := all[:e]
		positions := rapid.SliceOfNDistinct(rapid.IntRange(0, e-1), 1, e, rapid.ID[int]).Draw(t, "positions")
		justFailed := all[e : e+rapid.IntRange(0, spare).Draw(t, "justFailed")]
		usable := spare - len(justFailed)

		got, err := Replace(rng, ens, positions, all, justFailed, nil)
		require.Equal(t, bookies(e + spare)[:e], ens, "the old ensemble is not changed")
		if len(positions) > usable {
			require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
			return
		}
		require.NoError(t, err)
		for i, b := range got {
			if !slices.Contains(positions, i) {
				require.Equal(t, ens[i], b)
				continue
			}
			require.NotContains(t, ens, b)
			require.NotContains(t, justFailed, b)
			require.NotContains(t, got[:i], b)
		}
	})
}

func TestRule52SeedRepeatsChoice(t *testing.T) {
	pick := func(seed uint64) []bk.BookieID {
		got, err := Choose(rand.New(rand.NewPCG(seed, 1)), 3, bookies(9), nil)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, pick(7), pick(7))
	seen := map[bk.BookieID]bool{}
	for seed := range uint64(200) {
		seen[pick(seed)[0]] = true
	}
	require.Len(t, seen, 9, "every bookie is chosen sooner or later")
}
