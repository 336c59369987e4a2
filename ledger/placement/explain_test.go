package placement

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExplainSaysWhyEachBookie(t *testing.T) {
	bs := inZones("aabbcd")
	bs[1].Status, bs[3].Status = Quarantined, ReadOnly
	bs[4].Status, bs[5].Status = Gone, Draining
	for i := range bs {
		bs[i].Labels = map[string]string{"disk": "ssd"}
	}
	bs = append(bs, inZones("aabbcdeef")[6:]...)
	bs[6].Labels = map[string]string{"disk": "ssd"} // zone e; b007 of e and b008 of f have no label
	r := Request{Quorum: quorum(3, 3, 2), Policy: policy(t, "zones=3,require:disk=ssd"), Bookies: bs, Rand: seeded(1)}
	e := Explain(r)
	require.NoError(t, e.Err)
	require.ElementsMatch(t, []string{string(id(0)), string(id(2)), string(id(6))}, []string{string(e.Ensemble[0]), string(e.Ensemble[1]), string(e.Ensemble[2])})
	require.Equal(t, []Finding{{Rule: Rule{LevelZone, false, 3}, Got: 3}}, e.Findings)
	reasons := map[int]string{
		0: "chosen: alone in its places within its write sets",
		1: "quarantined: used only where others do not suffice",
		3: "read-only: it refuses adds",
		4: "not registered",
		5: "draining: used only where others do not suffice",
		7: "lacks disk=ssd",
	}
	require.Len(t, e.Bookies, len(bs))
	for i, v := range e.Bookies {
		require.Equal(t, id(i), v.ID)
		if want, ok := reasons[i]; ok {
			require.Equal(t, want, v.Reason, "%s", v.ID)
		}
		require.Equal(t, v.Position >= 0, i == 0 || i == 2 || i == 6)
	}
	require.InDelta(t, 1.0/3, e.Bookies[0].Share, 1e-9)
	require.Zero(t, e.Bookies[1].Share)
}

func TestExplainSaysWhatAnotherChoiceWouldCost(t *testing.T) {
	bs := inZones("aabc")
	r := Request{Quorum: quorum(3, 3, 2), Bookies: bs, Rand: seeded(1)}
	got, err := Choose(r)
	require.NoError(t, err)
	spare := 0
	if got[0] == id(0) || got[1] == id(0) || got[2] == id(0) {
		spare = 1
	}
	e := ExplainEnsemble(r, got)
	require.Contains(t, e.Bookies[spare].Reason, "the draw took another")

	r.Policy = policy(t, "zones=3")
	ensemble := ids(bs)[1:]
	e = ExplainEnsemble(r, ensemble)
	require.Equal(t, "fits at position 0 too: the draw took another", e.Bookies[0].Reason)
	bs[0].Zone = "d"
	bs[1].Zone = "b"
	e = ExplainEnsemble(r, ensemble)
	require.Equal(t, 2, e.Findings[0].Got)
	require.Equal(t, []WriteSet{{Positions: []int{0, 1, 2}, Got: 2}}, e.Findings[0].Below)
	require.Contains(t, e.Bookies[1].Reason, "shares rack /-/b/- with b002:3181 in a write set")
	bs[1].Zone, bs[0].Zone = "a", "c"
	bs = append(bs, Bookie{ID: id(9), Location: Location{Zone: "c"}})
	r.Bookies = bs[1:]
	e = ExplainEnsemble(r, ensemble)
	require.Equal(t, "fits at position 2 too: the draw took another", e.Bookies[3].Reason)

	// A rule that is broken anyway is no reason against another bookie.
	r.Policy = policy(t, "zones=3,regions=3")
	e = ExplainEnsemble(r, ensemble)
	require.Equal(t, "fits at position 2 too: the draw took another", e.Bookies[3].Reason)
	r.Policy = policy(t, "zones=3")

	// A bookie of an old ensemble of which nothing is known.
	e = ExplainEnsemble(r, append(ids(bs)[1:3], "old:1"))
	last := e.Bookies[len(e.Bookies)-1]
	require.Equal(t, "old:1", string(last.ID))
	require.Equal(t, "chosen: gone; alone in its places within its write sets", last.Reason)
}

func TestExplainOfAFailure(t *testing.T) {
	r := Request{Quorum: quorum(3, 3, 2), Policy: policy(t, "zones=3,strict"), Bookies: inZones("aabb"), Rand: seeded(1)}
	e := Explain(r)
	require.ErrorContains(t, e.Err, "2 can be reached")
	require.Nil(t, e.Ensemble)
	require.Empty(t, e.Findings)
	for _, v := range e.Bookies {
		require.Equal(t, "usable", v.Reason)
		require.Equal(t, -1, v.Position)
	}
}

func TestExplainWouldBreakARule(t *testing.T) {
	bs := inZones("abc")
	bs = append(bs, Bookie{ID: id(3), Location: Location{Region: "x", Zone: "a"}}, Bookie{ID: id(4), Location: Location{Zone: "a"}})
	r := Request{Quorum: quorum(2, 2, 2), Policy: policy(t, "regions=2"), Bookies: bs, Rand: seeded(1)}
	e := ExplainEnsemble(r, ids(bs[2:4]))
	require.Equal(t, "fits at position 0 too: the draw took another", e.Bookies[0].Reason)
	r.Policy.Write.Zones = 2
	bs[4].Region = "x"
	e = ExplainEnsemble(r, ids(bs[3:5]))
	require.Equal(t, 1, e.Findings[0].Got)
	e = ExplainEnsemble(r, ids(bs[2:4]))
	require.Equal(t, "fits at position 1 too: the draw took another", e.Bookies[4].Reason)
	r.Quorum = quorum(3, 2, 2)
	e = ExplainEnsemble(r, ids([]Bookie{bs[0], bs[3], bs[4]}))
	require.Equal(t, []WriteSet{{Positions: []int{1, 2}, Got: 1}}, e.Findings[0].Below)
}
