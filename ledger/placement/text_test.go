package placement

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loglode/loglode/bookie/bk"
)

func TestPolicyText(t *testing.T) {
	for text, want := range map[string]Policy{
		"":                                       {},
		"default":                                {},
		"zones=2":                                {Write: Minimums{Zones: 2}},
		"regions=2,ack-regions=2,racks=3,strict": {Write: Minimums{Racks: 3, Regions: 2}, Ack: Minimums{Regions: 2}, Strict: true},
		"spread=none , even-disks":               {Spread: SpreadNone, EvenDisks: true},
		"require:disk=ssd,require:zone=a":        {Require: map[string]string{"disk": "ssd", "zone": "a"}},
	} {
		got, err := ParsePolicy(text)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), "%s: %+v", text, got)
	}
	for text, says := range map[string]string{
		"zone=2":                                "zones=N",
		"zones=0":                               "1 or more",
		"zones=+2":                              "1 or more",
		"zones":                                 "1 or more",
		"zones=2,zones=3":                       "twice",
		"zones=99999":                           "0 to 32768",
		"strict=yes":                            "no value",
		"spread=planet":                         "spread=zone",
		"require:disk":                          "want 1 to 256",
		"require:=x":                            "want 1 to 256",
		"require:a=b/c":                         "cannot be",
		"zones=2,,":                             "want racks",
		"require:k=" + strings.Repeat("x", 300): "want 1 to 256",
	} {
		_, err := ParsePolicy(text)
		require.ErrorIs(t, err, ErrInvalidPolicy, text)
		require.ErrorContains(t, err, says, text)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestPolicyTextBackAndForth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Strict: rapid.Bool().Draw(t, "strict"), EvenDisks: rapid.Bool().Draw(t, "even"),
			Spread: Spread(rapid.IntRange(0, int(SpreadNone)).Draw(t, "spread")),
		}
		for _, l := range levels {
			*p.Write.at(l) = rapid.IntRange(0, 9).Draw(t, "write")
			*p.Ack.at(l) = rapid.IntRange(0, 9).Draw(t, "ack")
		}
		p.Require = rapid.MapOfN(rapid.StringMatching(`[a-z:.]{1,8}`), rapid.StringMatching(`[a-zé0-9]{1,8}`), 0, 3).Draw(t, "require")
		got, err := ParsePolicy(p.String())
		require.NoError(t, err)
		require.True(t, p.Equal(got), "%v: %v", p, got)
	})
}

func TestTopologyText(t *testing.T) {
	top, err := ParseTopology(`
# racks of the first hall
10.0.0.1        /eu/a/r1  disk=ssd weight=2.5
10.0.0.1:3182   /eu/b/r2  # one port lives elsewhere
host-3          /r3
host-4          /b/-
`)
	require.NoError(t, err)
	for id, want := range map[string]string{
		"10.0.0.1:3181": "/eu/a/r1", "10.0.0.1:3182": "/eu/b/r2", "host-3:1": "/-/-/r3", "host-4": "/-/b/-",
	} {
		got, ok := top.Lookup(bk.BookieID(id))
		require.True(t, ok, id)
		require.Equal(t, want, got.String())
	}
	_, ok := top.Lookup("10.0.0.2:3181")
	require.False(t, ok)
	s, _ := top.Lookup("10.0.0.1:9")
	require.Equal(t, Site{Location: Location{"eu", "a", "r1"}, Labels: map[string]string{"disk": "ssd"}, Weight: 2.5}, s)

	for text, says := range map[string]string{
		"a":             `line 1: want HOST`,
		"\na r1":        `line 2: location "r1"`,
		"a /1/2/3/4":    "want /rack",
		"a //b":         "want 1 to 256",
		"a /b x":        "KEY=VALUE",
		"a /b x=":       "want 1 to 256",
		"a /b weight=0": "weight",
		"a /b\na /c":    `line 2: "a" is given twice`,
	} {
		_, err := ParseTopology(text)
		require.ErrorIs(t, err, ErrInvalidTopology, text)
		require.ErrorContains(t, err, says, text)
	}
}

func TestDocumentedTopology(t *testing.T) {
	text, err := os.ReadFile("../../docs/placement.md")
	require.NoError(t, err)
	_, example, ok := strings.Cut(string(text), "```\n# host")
	require.True(t, ok)
	example, _, _ = strings.Cut(example, "\n```")
	top, err := ParseTopology("#" + example)
	require.NoError(t, err)
	require.Equal(t, Topology{
		"10.0.0.1":      {Location: Location{"eu", "a", "r7"}, Labels: map[string]string{"disk": "ssd"}, Weight: 2},
		"10.0.0.2:3181": {Location: Location{Zone: "b", Rack: "r1"}},
		"10.0.0.3":      {Location: Location{Zone: "b"}},
	}, top)
	for _, p := range []string{"zones=3,strict", "ack-regions=2", "require:disk=ssd,zones=2", "spread=none"} {
		require.Contains(t, string(text), "`"+p+"`")
		_, err := ParsePolicy(p)
		require.NoError(t, err)
	}
}

func FuzzPolicyText(f *testing.F) {
	for _, s := range []string{"", "zones=2,strict", "ack-regions=2,spread=none", "require:disk=ssd,even-disks", "zones=2,zones=2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePolicy(text)
		if err != nil {
			return
		}
		again, err := ParsePolicy(p.String())
		if err != nil || !p.Equal(again) {
			t.Fatalf("%q gives %q, and that %v, %v", text, p, again, err)
		}
	})
}

func FuzzTopologyText(f *testing.F) {
	f.Add("a /b/c/d k=v weight=2 # x\n\nb:1 /-/x\n")
	f.Add("a /\nb")
	f.Fuzz(func(t *testing.T, text string) {
		top, err := ParseTopology(text)
		if err != nil {
			return
		}
		for name, s := range top {
			if l, err := ParseLocation(s.Location.String()); err != nil || l != s.Location {
				t.Fatalf("%q: location %q: %v, %v", name, s.Location, l, err)
			}
		}
	})
}
