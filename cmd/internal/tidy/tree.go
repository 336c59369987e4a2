package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

// sourceFile is one parsed Go file of the tree.
type sourceFile struct {
	Path      string // slash path below the root, e.g. "ledger/doc.go"
	Dir       string // directory of Path, e.g. "ledger"
	Test      bool   // *_test.go
	Generated bool
	Lines     int
	Fset      *token.FileSet
	AST       *ast.File
}

// parseTree parses all Go files below root.
func parseTree(root string) ([]sourceFile, error) {
	var files []sourceFile
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != root && (strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		files = append(files, sourceFile{
			Path: rel, Dir: filepath.ToSlash(filepath.Dir(rel)),
			Test: strings.HasSuffix(name, "_test.go"), Generated: ast.IsGenerated(f),
			Lines: fset.File(f.Pos()).LineCount(), Fset: fset, AST: f,
		})
		return nil
	})
	return files, err
}

// below reports whether slash path p is prefix or lies below it.
func below(p, prefix string) bool {
	return prefix == "" || p == prefix || strings.HasPrefix(p, prefix+"/")
}

func belowAny(p string, prefixes []string) bool {
	for _, x := range prefixes {
		if below(p, x) {
			return true
		}
	}
	return false
}

// longest gives the rows of table whose prefix covers dir, the longest alone
// unless all is set.
func longest(table []layer, dir string) (layer, bool) {
	var best layer
	found := false
	for _, l := range table {
		if below(dir, l.Prefix) && (!found || len(l.Prefix) > len(best.Prefix)) {
			best, found = l, true
		}
	}
	return best, found
}
