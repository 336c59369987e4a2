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

func id(i int) bk.BookieID { return bk.BookieID(fmt.Sprintf("b%03d:3181", i)) }

func ids(bs []Bookie) []bk.BookieID {
	var out []bk.BookieID
	for _, b := range bs {
		out = append(out, b.ID)
	}
	return out
}

// plain gives n good bookies of which no location is known.
func plain(n int) []Bookie {
	var b []Bookie
	for i := range n {
		b = append(b, Bookie{ID: id(i)})
	}
	return b
}

// inZones gives one good bookie for each letter of zones, in the zone of that
// name.
func inZones(zones string) []Bookie {
	b := plain(len(zones))
	for i := range b {
		b[i].Zone = zones[i : i+1]
	}
	return b
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func quorum(e, w, a int) bk.Quorum { return bk.Quorum{Ensemble: e, Write: w, Ack: a} }

func policy(t require.TestingT, text string) Policy {
	p, err := ParsePolicy(text)
	require.NoError(t, err)
	return p
}

// byID gives the bookies of an ensemble as bs has them.
func byID(t require.TestingT, bs []Bookie, ensemble []bk.BookieID) []Bookie {
	var out []Bookie
	for _, id := range ensemble {
		i := slices.IndexFunc(bs, func(b Bookie) bool { return b.ID == id })
		require.GreaterOrEqual(t, i, 0, "%s is not a bookie that was offered", id)
		out = append(out, bs[i])
	}
	return out
}

func zonesOf(t require.TestingT, bs []Bookie, ensemble []bk.BookieID) string {
	s := ""
	for _, b := range byID(t, bs, ensemble) {
		s += b.Zone
	}
	return s
}

func TestRule1ChooseDistinctWritable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "bookies")
		want := rapid.IntRange(1, 8).Draw(t, "ensemble")
		rng := seeded(rapid.Uint64().Draw(t, "seed"))
		avoided := rapid.IntRange(0, n).Draw(t, "avoided")
		all := plain(n)
		for i := range avoided {
			all[i].Status = rapid.SampledFrom([]Status{Draining, Quarantined}).Draw(t, "status")
		}
		others := plain(n + 2)[n:]
		others[0].Status, others[1].Status = ReadOnly, Gone
		listed := slices.Concat(all, others, all) // a listing with repeats

		got, err := Choose(Request{Quorum: quorum(want, want, 1), Bookies: listed, Rand: rng})
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
		for i, b := range byID(t, all, got) {
			require.NotContains(t, got[:i], b.ID)
			if b.Status != Good {
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
		rng := seeded(rapid.Uint64().Draw(t, "seed"))
		all := plain(e + spare)
		ens := ids(all[:e])
		positions := rapid.SliceOfNDistinct(rapid.IntRange(0, e-1), 1, e, rapid.ID[int]).Draw(t, "positions")
		justFailed := ids(all[e : e+rapid.IntRange(0, spare).Draw(t, "justFailed")])
		usable := spare - len(justFailed)
		r := Request{Quorum: quorum(e, e, 1), Bookies: all, Rand: rng}

		check := func(got []bk.BookieID, positions []int) {
			for i, b := range got {
				if !slices.Contains(positions, i) {
					require.Equal(t, ens[i], b)
					continue
				}
				require.NotContains(t, ens, b)
				require.NotContains(t, justFailed, b)
				require.NotContains(t, got[:i], b)
			}
		}
		got, err := Replace(r, ens, positions, justFailed)
		require.Equal(t, ids(plain(e + spare)[:e]), ens, "the old ensemble is not changed")
		some, done, someErr := ReplaceSome(r, ens, positions, justFailed)
		if len(positions) > usable {
			require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
			if usable == 0 {
				require.ErrorIs(t, someErr, bk.ErrNotEnoughBookies)
				return
			}
			require.NoError(t, someErr)
			require.Equal(t, positions[:usable], done, "some are better than none")
			check(some, done)
			return
		}
		require.NoError(t, err)
		check(got, positions)
		require.NoError(t, someErr)
		require.Equal(t, positions, done)
	})
}

func TestRule52SeedRepeatsChoice(t *testing.T) {
	pick := func(seed uint64, bs []Bookie) []bk.BookieID {
		got, err := Choose(Request{Quorum: quorum(3, 3, 2), Bookies: bs, Rand: seeded(seed)})
		require.NoError(t, err)
		return got
	}
	backwards := plain(9)
	slices.Reverse(backwards)
	seen := map[bk.BookieID]bool{}
	for seed := range uint64(200) {
		require.Equal(t, pick(seed, plain(9)), pick(seed, backwards), "seed %d", seed)
		seen[pick(seed, plain(9))[0]] = true
	}
	require.Len(t, seen, 9, "every bookie is chosen sooner or later")
}

func TestRule52ReadOnlyServesRecoveryAlone(t *testing.T) {
	bs := plain(3)
	bs[2].Status = ReadOnly
	r := Request{Quorum: quorum(2, 2, 1), Bookies: bs, Rand: seeded(1)}
	_, err := Replace(r, ids(bs[:2]), []int{0}, nil)
	require.ErrorIs(t, err, bk.ErrNotEnoughBookies, "it would refuse every add")
	r.Recovery = true
	got, err := Replace(r, ids(bs[:2]), []int{0}, nil)
	require.NoError(t, err)
	require.Equal(t, bs[2].ID, got[0])
	r.Bookies = append(bs, Bookie{ID: id(3), Status: Quarantined})
	for seed := range uint64(50) {
		r.Rand = seeded(seed)
		got, err = Replace(r, ids(bs[:2]), []int{0}, nil)
		require.NoError(t, err)
		require.Equal(t, id(3), got[0], "one that takes adds comes first")
	}
}

// Six bookies in three zones, written to in threes: all write sets are in all
// zones only if the zones follow each other twice in the same order.
func TestWriteSetsNotOnlyTheEnsembleSpread(t *testing.T) {
	bs := inZones("aabbcc")
	for _, text := range []string{"", "zones=3", "zones=3,strict"} {
		for seed := range uint64(100) {
			got, err := Choose(Request{Quorum: quorum(6, 3, 2), Policy: policy(t, text), Bookies: bs, Rand: seeded(seed)})
			require.NoError(t, err)
			z := zonesOf(t, bs, got)
			require.Equal(t, z[:3], z[3:], "seed %d, policy %q", seed, text)
		}
	}
}

func TestStrictNamesWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		zones, policy string
		q             bk.Quorum
		says          string
	}{
		{"aaab", "zones=3,strict", quorum(3, 3, 2), "each write set of 3 must be in 3 zones, 2 can be reached (usable bookies are in 2: /-/a /-/b)"},
		{"aaaab", "zones=2,strict", quorum(4, 2, 2), "each write set of 2 must be in 2 zones, 1 can be reached (usable bookies are in 2: /-/a /-/b)"},
		{"abcd", "zones=3,strict", quorum(2, 2, 2), "each write set of 2 must be in 3 zones, 2 can be reached (usable bookies are in 4"},
		{"aabb", "ack-zones=2,strict", quorum(3, 3, 2), "each ack quorum of 2 must be in 2 zones, 1 can be reached"},
		{"abcd", "zones=2,racks=3,regions=2,strict", quorum(3, 3, 2), "each write set of 3 must be in 2 regions, 1 can be reached (usable bookies are in 1: /-)"},
	} {
		_, err := Choose(Request{Quorum: c.q, Policy: policy(t, c.policy), Bookies: inZones(c.zones), Rand: seeded(1)})
		var unmet *UnmetError
		require.ErrorAs(t, err, &unmet, "%+v", c)
		require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
		require.ErrorIs(t, err, ErrUnmet)
		require.ErrorContains(t, err, c.says)
		require.False(t, unmet.Together)
	}
}

func TestStrictNamesRulesThatExcludeEachOther(t *testing.T) {
	// Four racks are in region r alone, and two neighbours of region s must
	// share a rack.
	var bs []Bookie
	for i, at := range []string{"/r/z/1", "/r/z/2", "/r/z/3", "/r/z/4", "/s/z/1", "/s/z/1"} {
		l, err := ParseLocation(at)
		require.NoError(t, err)
		bs = append(bs, Bookie{ID: id(i), Location: l})
	}
	for text, fails := range map[string]bool{"racks=3,strict": false, "regions=2,strict": false, "racks=3,regions=2,strict": true} {
		_, err := Choose(Request{Quorum: quorum(4, 3, 2), Policy: policy(t, text), Bookies: bs, Rand: seeded(1)})
		if !fails {
			require.NoError(t, err, text)
			continue
		}
		var unmet *UnmetError
		require.ErrorAs(t, err, &unmet)
		require.True(t, unmet.Together)
		require.Equal(t, Rule{Level: LevelRack, Want: 3}, unmet.Rule)
		require.Equal(t, 2, unmet.Have)
		require.ErrorContains(t, err, "2 can be reached beside the policy's other rules")
	}
}

func TestRequiredLabels(t *testing.T) {
	bs := inZones("aabbcc")
	for i := range bs {
		bs[i].Labels = map[string]string{"disk": []string{"ssd", "hdd"}[i%2]}
	}
	r := Request{Quorum: quorum(3, 3, 2), Policy: policy(t, "require:disk=ssd"), Bookies: bs, Rand: seeded(1)}
	got, err := Choose(r)
	require.NoError(t, err)
	for _, b := range byID(t, bs, got) {
		require.Equal(t, "ssd", b.Labels["disk"])
	}
	r.Policy = policy(t, "require:disk=ssd,require:zone=a")
	_, err = Choose(r)
	var facts *NotEnoughError
	require.ErrorAs(t, err, &facts)
	require.Equal(t, NotEnoughError{Need: 3, Have: 1, Unfit: 5}, *facts)
	require.ErrorContains(t, err, "5 more lack a required label")
}

// A policy that is not strict rather breaks a rule than takes a bookie that
// failed lately: in an outage of a zone each new ledger would meet it.
func TestRule52BestEffortRatherBreaksARule(t *testing.T) {
	bs := inZones("aabbcc")
	bs[4].Status, bs[5].Status = Quarantined, Quarantined
	for seed := range uint64(50) {
		r := Request{Quorum: quorum(3, 3, 2), Policy: policy(t, "zones=3"), Bookies: bs, Rand: seeded(seed)}
		got, err := Choose(r)
		require.NoError(t, err)
		require.NotContains(t, zonesOf(t, bs, got), "c")
		r.Policy.Strict = true
		got, err = Choose(r)
		require.NoError(t, err)
		require.Contains(t, zonesOf(t, bs, got), "c", "a strict one takes it, but only one")
		r.Policy.Write.Zones = 2
		got, err = Choose(r)
		require.NoError(t, err)
		require.NotContains(t, zonesOf(t, bs, got), "c", "nor if the rule does not need it")
	}
}

func TestShareFollowsWeightAndFreeSpace(t *testing.T) {
	const draws = 4000
	share := func(bs []Bookie, text string) float64 {
		n := 0
		rng := seeded(7)
		for range draws {
			got, err := Choose(Request{Quorum: quorum(1, 1, 1), Policy: policy(t, text), Bookies: bs, Rand: rng})
			require.NoError(t, err)
			if got[0] == bs[0].ID {
				n++
			}
		}
		return float64(n) / draws
	}
	bs := plain(5)
	require.InDelta(t, 0.2, share(bs, ""), 0.02)
	bs[0].Weight = 4
	require.InDelta(t, 0.5, share(bs, ""), 0.03)
	bs[0].Weight = 0
	for i := range bs {
		bs[i].FreeBytes = 100
	}
	bs[0].FreeBytes = 50
	require.InDelta(t, 0.5/4.5, share(bs, ""), 0.02)
	bs[0].FreeBytes = 1_000_000
	require.InDelta(t, 4.0/8, share(bs, ""), 0.03, "no more than freeFactorMax of the others")
	require.InDelta(t, 0.2, share(bs, "even-disks"), 0.02)
}
