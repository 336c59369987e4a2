package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Without the tag mutants no seeded bug can be switched on.
func TestNoBugIsSeededInProduction(t *testing.T) {
	if built := mutantsBuilt; built {
		return // the build that is for them
	}
	for m := mutNone; m <= mutEnd; m++ {
		require.False(t, seeded(m), "mutation %d", m)
	}
}
