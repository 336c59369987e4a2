package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

func report(t *testing.T, problems []problem) {
	t.Helper()
	for _, p := range problems {
		t.Errorf("%s", p)
	}
}

func tree(t *testing.T) []sourceFile {
	t.Helper()
	files, err := parseTree(root)
	require.NoError(t, err)
	require.Greater(t, len(files), 50, "the tree was not found")
	return files
}

func TestLayers(t *testing.T)            { report(t, checkLayers(tree(t))) }
func TestBounds(t *testing.T)            { report(t, checkBounds(tree(t))) }
func TestFilesGoThroughVFS(t *testing.T) { report(t, checkOS(tree(t))) }
func TestPackageComments(t *testing.T)   { report(t, checkPackageComments(tree(t))) }
func TestSizes(t *testing.T)             { report(t, checkSizes(tree(t))) }
func TestTestsDoNotSleep(t *testing.T)   { report(t, checkTests(tree(t))) }

// TestChecksFind proves on a small bad tree that each check can fail.
func TestChecksFind(t *testing.T) {
	dir := t.TempDir()
	write := func(p, text string) {
		p = filepath.Join(dir, p)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	}
	write("stream/a.go", "package stream\nimport (\n_ \"go.uber.org/zap\"\n_ \"github.com/loglode/loglode/ledger\"\n)\nfunc f() {"+strings.Repeat("\n", functionLinesMax)+"}\n")
	write("ledger/a_test.go", "package ledger\nimport \"time\"\nfunc f() { time.Sleep(1) }\n")
	write("ledger/b.go", "// Package ledger is documented.\npackage ledger\nimport _ \"github.com/loglode/loglode/bookie/bookietest\"\nimport \"os\"\nvar _ = os.Remove\nvar _ = os.ErrDeadlineExceeded\n"+strings.Repeat("\n", fileLinesMax))
	files, err := parseTree(dir)
	require.NoError(t, err)
	require.Len(t, checkLayers(files), 2)
	require.Len(t, checkBounds(files), 1)
	require.Len(t, checkOS(files), 1)
	require.Len(t, checkPackageComments(files), 1)
	require.Len(t, checkSizes(files), 2)
	require.Len(t, checkTests(files), 1)
}

// TestReadingPath checks that every file and symbol that docs/reading.md sends
// a newcomer to still exists. It reads marks like `ledger/append.go` and
// `ledger/append.go:Writer.Append`.
func TestReadingPath(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/reading.md"))
	require.NoError(t, err)
	marks := regexp.MustCompile("`([a-z0-9_]+/[a-z0-9_/]+\\.go)(?::([A-Za-z.]+))?`").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(marks), 15, "docs/reading.md names no files")
	for _, m := range marks {
		src, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil {
			t.Errorf("docs/reading.md: %v", err)
			continue
		}
		if m[2] == "" {
			continue
		}
		name := m[2][strings.LastIndexByte(m[2], '.')+1:]
		if !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |\t)` + name + `\b`).Match(src) {
			t.Errorf("docs/reading.md: %s has no %s", m[1], m[2])
		}
	}
}
