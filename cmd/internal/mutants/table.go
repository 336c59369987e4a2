package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
)

// table is the result in Markdown.
func table(mutants []mutant) string {
	var b strings.Builder
	b.WriteString("| mutant | rule | what it does | caught by the simulation: seed, invariant | paper tests that fail |\n|---|---|---|---|---|\n")
	for _, m := range mutants {
		sim := fmt.Sprintf("%d, %s", m.Schedules, m.Invariant)
		switch {
		case m.Paper != "":
			sim = "no invariant breaks: " + m.Paper
		case m.Schedules == 0:
			sim = "**survives**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", m.Name, m.Rule, m.What, sim, paperCell(m))
	}
	return b.String()
}

// paperCell names the first of the tests.
func paperCell(m mutant) string {
	switch {
	case m.Mutant == 0:
		return "(not in quorum)"
	case !m.asked:
		return "(not run)"
	case len(m.tests) == 0 && m.Paper != "":
		return "**survives**"
	case len(m.tests) == 0:
		return "none"
	case len(m.tests) == 1:
		return m.tests[0]
	default:
		return fmt.Sprintf("%s and %d more", m.tests[0], len(m.tests)-1)
	}
}

// verdict is the error that names the bugs that survive.
func verdict(mutants []mutant) error {
	var bad []error
	for _, m := range mutants {
		switch {
		case m.Paper != "" && len(m.tests) == 0:
			bad = append(bad, fmt.Errorf("%s survives the paper tests: %s", m.Name, m.What))
		case m.Paper == "" && m.Schedules == 0:
			bad = append(bad, fmt.Errorf("%s survives the simulation: %s", m.Name, m.What))
		}
	}
	if len(mutants) < 30 {
		bad = append(bad, fmt.Errorf("%d mutants: where are the others?", len(mutants)))
	}
	fmt.Printf("%d mutants, %d survive\n", len(mutants), len(bad))
	return errors.Join(bad...)
}

const begin, end = "<!-- mutants: make mutants writes this table -->\n", "<!-- end of mutants -->\n"

// writeDoc puts the table between the marks of the page.
func writeDoc(path, table string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("%s: no marks for the table", path)
	}
	return os.WriteFile(path, bytes.Join([][]byte{before, []byte(begin), []byte(table), []byte(end), after}, nil), 0o644)
}
