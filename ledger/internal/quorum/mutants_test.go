//go:build mutants

package quorum

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

var mutant = flag.Int("mutant", 0, "seeded bug to switch on, 0 for none")

func TestMain(m *testing.M) {
	flag.Parse()
	Seed(*mutant)
	m.Run()
}

// The list of bugs and their names in the code are in step.
func TestMutantsAreListed(t *testing.T) {
	list := Mutants()
	require.Len(t, list, int(mutEnd)-1)
	for _, m := range list {
		require.NotEmpty(t, m.Name)
		require.NotEmpty(t, m.Rule, m.Name)
		require.NotEmpty(t, m.What, m.Name)
	}
}
