package wire

import (
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loglode/loglode/bookie/bk"
)

func TestGoldenAvailability(t *testing.T) {
	type row struct {
		Name    string       `json:"name"`
		Entries []bk.EntryID `json:"entries"`
		Total   int64        `json:"total"`
		Hex     string       `json:"hex"`
	}
	for _, r := range readGolden[row](t, "entry_availability.json") {
		require.Equal(t, r.Hex, hex.EncodeToString(AppendAvailability(nil, slices.Values(r.Entries))), r.Name)
		a, err := DecodeAvailability(unhex(t, r.Hex))
		require.NoError(t, err, r.Name)
		require.Equal(t, r.Total, a.Len(), r.Name)
		require.Equal(t, len(r.Entries), len(slices.Collect(a.All())), r.Name)
		for _, e := range r.Entries {
			require.True(t, a.Contains(e), "%s: %d", r.Name, e)
		}
	}
}

// Runs with a period, which Java's encoder does not make but may.
func TestAvailabilityPeriod(t *testing.T) {
	h := "0000000000000001" + hex.EncodeToString(make([]byte, 56)) +
		"000000000000000a" + "0000000000000010" + "00000002" + "00000003"
	a, err := DecodeAvailability(unhex(t, h))
	require.NoError(t, err)
	want := []bk.EntryID{10, 11, 13, 14, 16, 17}
	require.Equal(t, want, slices.Collect(a.All()))
	require.Equal(t, int64(len(want)), a.Len())
	for e := bk.EntryID(0); e < 30; e++ {
		require.Equal(t, slices.Contains(want, e), a.Contains(e), "%d", e)
	}
}

func TestAvailabilityRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.Int64Range(0, 60)).Draw(t, "ids")
		slices.Sort(ids)
		var want []bk.EntryID
		for _, id := range slices.Compact(ids) {
			want = append(want, bk.EntryID(id))
		}
		a, err := DecodeAvailability(AppendAvailability(nil, slices.Values(want)))
		require.NoError(t, err)
		require.Equal(t, want, slices.Collect(a.All()))
		for e := bk.EntryID(-1); e < 62; e++ {
			require.Equal(t, slices.Contains(want, e), a.Contains(e))
		}
	})
}

func TestAvailabilityRefusesMalformed(t *testing.T) {
	head := "0000000000000001" + hex.EncodeToString(make([]byte, 56))
	for name, h := range map[string]string{
		"short":           "00000000",
		"version 1":       "0000000100000000" + hex.EncodeToString(make([]byte, 56)),
		"group missing":   head,
		"size 0":          head + "0000000000000001" + "0000000000000001" + "00000000" + "00000000",
		"negative first":  head + "ffffffffffffffff" + "ffffffffffffffff" + "00000001" + "00000000",
		"last not first":  head + "0000000000000001" + "0000000000000002" + "00000001" + "00000000",
		"period too few":  head + "0000000000000001" + "0000000000000005" + "00000003" + "00000002",
		"last off period": head + "0000000000000001" + "0000000000000005" + "00000001" + "00000003",
		"past the end":    head + "7fffffffffffffff" + "7fffffffffffffff" + "00000002" + "00000000",
	} {
		_, err := DecodeAvailability(unhex(t, h))
		require.ErrorIs(t, err, ErrMalformed, name)
	}
}

// A long striped ledger is one group in the short form, and says the same.
func TestAvailabilityShort(t *testing.T) {
	stripes := func(yield func(bk.EntryID) bool) {
		for e := range bk.EntryID(900_000) {
			if e%3 != 1 && !yield(e) {
				return
			}
		}
	}
	b := AppendAvailabilityShort([]byte("before"), stripes)[len("before"):]
	require.Len(t, b, availabilityHeaderSize+3*availabilityGroupSize) // 0, then 2 3 and 5 6 and so on, and the end
	set, err := DecodeAvailability(b)
	require.NoError(t, err)
	require.Equal(t, int64(600_000), set.Len())
	require.True(t, slices.Equal(slices.Collect(stripes), slices.Collect(set.All())))
}

// Both forms say what was put in, whatever it was.
func TestAvailabilityFormsAgree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d: set it in this test to replay", seed)
	rng := rand.New(rand.NewPCG(seed, 11))
	for range 500 {
		var ids []bk.EntryID
		for e := bk.EntryID(rng.IntN(3)); len(ids) < rng.IntN(60); e += bk.EntryID(1 + rng.IntN(3)*rng.IntN(2)) {
			ids = append(ids, e)
		}
		for _, form := range [][]byte{AppendAvailability(nil, slices.Values(ids)), AppendAvailabilityShort(nil, slices.Values(ids))} {
			set, err := DecodeAvailability(form)
			require.NoError(t, err)
			require.Equal(t, ids, slices.Collect(set.All()), "%x", form)
		}
	}
}
