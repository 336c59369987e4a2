package tidy

import (
	"fmt"
	"go/ast"
	"strconv"
	"strings"
)

// problem is one broken rule, told with its place.
type problem string

func imports(f sourceFile) []string {
	var out []string
	for _, i := range f.AST.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err == nil {
			out = append(out, p)
		}
	}
	return out
}

// checkLayers finds imports of this module that the layer table forbids.
func checkLayers(files []sourceFile) (out []problem) {
	for _, f := range files {
		for _, imp := range imports(f) {
			to, ours := strings.CutPrefix(imp, module)
			if !ours || mayImport(f, to) {
				continue
			}
			out = append(out, problem(fmt.Sprintf("%s: %s may not import %s (see the layer table in cmd/internal/tidy/rules.go)", f.Path, f.Dir, to)))
		}
	}
	return out
}

func mayImport(f sourceFile, to string) bool {
	asTest := f.Test || belowAny(f.Dir, testOnly)
	if belowAny(to, testOnly) && !asTest {
		return false
	}
	l, ok := longest(layers, f.Dir)
	if !ok {
		return false
	}
	if below(to, l.Prefix) || belowAny(to, l.May) || contains(l.May, "public") && isPublic(to) {
		return true
	}
	if !asTest {
		return false
	}
	for _, row := range testMay {
		if below(f.Dir, row.Prefix) && belowAny(to, row.May) {
			return true
		}
	}
	return false
}

func isPublic(p string) bool { return !strings.Contains("/"+p+"/", "/internal/") }

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// checkBounds finds third-party imports outside the places they belong to.
func checkBounds(files []sourceFile) (out []problem) {
	for _, f := range files {
		if f.Generated {
			continue
		}
		for _, imp := range imports(f) {
			b, ok := boundOf(imp)
			if !ok || b.TestsFree && (f.Test || belowAny(f.Dir, testOnly)) {
				continue
			}
			if b.Only != nil && !belowAny(f.Dir, b.Only) && !f.Test {
				out = append(out, problem(fmt.Sprintf("%s: %s may be imported only below %v", f.Path, imp, b.Only)))
			}
			if belowAny(f.Dir, b.Never) {
				out = append(out, problem(fmt.Sprintf("%s: %s may not be imported below %v", f.Path, imp, b.Never)))
			}
		}
	}
	return out
}

// checkOS finds uses of package os where files must go through vfs.
func checkOS(files []sourceFile) (out []problem) {
	for _, f := range files {
		if f.Test || belowAny(f.Dir, osOnly) || belowAny(f.Dir, testOnly) || !contains(imports(f), "os") {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "os" && !contains(osMay, sel.Sel.Name) {
				out = append(out, problem(fmt.Sprintf("%s: os.%s may be used only below %v: files go through vfs", f.Fset.Position(sel.Pos()), sel.Sel.Name, osOnly)))
			}
			return true
		})
	}
	return out
}

// boundOf gives the row of bounds with the longest import prefix of imp.
func boundOf(imp string) (best bound, ok bool) {
	for _, b := range bounds {
		if below(imp, b.Import) && len(b.Import) > len(best.Import) {
			best, ok = b, true
		}
	}
	return best, ok
}

// checkPackageComments finds packages that do not say what they are.
func checkPackageComments(files []sourceFile) (out []problem) {
	said, seen := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		if f.Test || f.Generated {
			continue
		}
		seen[f.Dir] = true
		if f.AST.Doc != nil && strings.TrimSpace(f.AST.Doc.Text()) != "" {
			said[f.Dir] = true
		}
	}
	for dir := range seen {
		if !said[dir] {
			out = append(out, problem(fmt.Sprintf("%s: no package comment", dir)))
		}
	}
	return out
}

// checkSizes finds files and functions that are too long to read.
func checkSizes(files []sourceFile) (out []problem) {
	for _, f := range files {
		if f.Generated {
			continue
		}
		if f.Lines > fileLinesMax {
			out = append(out, problem(fmt.Sprintf("%s: %d lines, at most %d", f.Path, f.Lines, fileLinesMax)))
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			n := f.Fset.Position(fn.End()).Line - f.Fset.Position(fn.Pos()).Line + 1
			limit := functionLinesMax
			if f.Test {
				limit = testFunctionLinesMax
			}
			if n > limit {
				out = append(out, problem(fmt.Sprintf("%s: function %s has %d lines, at most %d", f.Path, fn.Name.Name, n, limit)))
			}
		}
	}
	return out
}

// checkTests finds what tests must not do: sleep and hope, or skip.
func checkTests(files []sourceFile) (out []problem) {
	banned := map[string]string{
		"time.Sleep": "wait for the event instead (synctest, a channel)",
		"t.Skip":     "a test runs or does not exist", "t.Skipf": "a test runs or does not exist", "t.SkipNow": "a test runs or does not exist",
	}
	for _, f := range files {
		if !f.Test {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			name := x.Name + "." + sel.Sel.Name
			if why, bad := banned[name]; bad {
				out = append(out, problem(fmt.Sprintf("%s: %s: %s", f.Fset.Position(call.Pos()), name, why)))
			}
			return true
		})
	}
	return out
}
