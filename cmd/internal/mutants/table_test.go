package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func many(of mutant) []mutant {
	var all []mutant
	for range 40 {
		all = append(all, of)
	}
	return all
}

func TestVerdict(t *testing.T) {
	caught := mutant{Mutant: 1, Name: "A", Schedules: 7, Invariant: "I1"}
	require.NoError(t, verdict(many(caught)))
	require.NoError(t, verdict(append(many(caught), mutant{Mutant: 2, Name: "B", Paper: "why", asked: true, tests: []string{"TestX"}})))
	require.ErrorContains(t, verdict(append(many(caught), mutant{Mutant: 3, Name: "C"})), "C survives the simulation")
	require.ErrorContains(t, verdict(append(many(caught), mutant{Mutant: 4, Name: "D", Paper: "why", asked: true})), "D survives the paper tests")
	require.Error(t, verdict([]mutant{caught}), "a list that got lost is no clean one")
}

func TestWriteDoc(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("# X\n"+begin+"old\n"+end+"tail\n"), 0o644))
	require.NoError(t, writeDoc(page, table([]mutant{{Name: "A", Rule: "7", What: "w", Schedules: 3, Invariant: "I4"}})))
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(got), "| A | 7 | w | 3, I4 | (not in quorum) |\n"+end+"tail\n")
	require.NotContains(t, string(got), "old")
	require.NoError(t, os.WriteFile(page, []byte("no marks"), 0o644))
	require.Error(t, writeDoc(page, ""))
}
