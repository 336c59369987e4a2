package quorum

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The switch for seeded bugs is for tests: no file of the product's shell around
// the cores names it.
func TestMutationIsNotUsedInProduction(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../*.go", "../conn/*.go"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, found...)
	}
	checked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		checked++
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				require.NotEqual(t, "Mutation", id.Name, name)
			}
			return true
		})
	}
	require.Greater(t, checked, 5, "where is package ledger?")
}
