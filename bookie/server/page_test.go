package server_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/wire-tests.md names tests that exist, and every test of the protocol.
func TestPageOfWireTests(t *testing.T) {
	const root = "../.."
	exist := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, dir := range []string{"bookie", "bookie/bk", "bookie/wire", "bookie/server", "ledger", "ledger/internal/conn"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range declared.FindAllSubmatch(text, -1) {
				exist[string(m[1])] = true
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/wire-tests.md"))
	require.NoError(t, err)
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(page, -1) {
		named[string(m[1])] = true
		require.True(t, exist[string(m[1])], "the page names %s, which does not exist", m[1])
	}
	require.Greater(t, len(named), 90)
	section := regexp.MustCompile(`^TestWire\d`)
	for name := range exist {
		if section.MatchString(name) {
			require.True(t, named[name], "the page does not name %s", name)
		}
	}
}
