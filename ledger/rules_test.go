package ledger_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every rule of reading, tailing and recovering (25-46) has a test here that
// names it and runs the client against bookies, and every case of reads and
// recoveries one that names the case, here or in the core and its simulation.
func TestRulesAndCasesHaveTheirTests(t *testing.T) {
	here := testNames(t, "*_test.go")
	rule := regexp.MustCompile(`Rule(\d+)`)
	rules := map[int][]string{}
	for _, name := range here {
		// TestRule31And34And36...: all of them.
		for _, m := range rule.FindAllStringSubmatch(regexp.MustCompile(`And(\d+)`).ReplaceAllString(name, "Rule$1"), -1) {
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			rules[n] = append(rules[n], name)
		}
	}
	for n := 25; n <= 46; n++ {
		require.NotEmpty(t, rules[n], "rule %d has no test", n)
	}
	all := strings.Join(append(here, testNames(t, "internal/*/*_test.go")...), " ") + " "
	for _, c := range []string{"R01", "R02", "R03", "R04", "R05", "R06", "R07", "R08", "R22", "R41"} {
		require.Regexp(t, `Test`+c+`[^0-9]`, all)
	}
}

// testNames are the tests in the files of a pattern.
func testNames(t *testing.T, pattern string) (names []string) {
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}
