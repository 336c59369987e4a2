// Command mutants shows that the tests of the protocol core catch protocol bugs.
// Package quorum holds seeded bugs behind the build tag mutants, package
// ledgersim some more in its bookies and shells. For each, the command runs
// simulated schedules until one breaks an invariant, and the paper tests of
// package quorum; it prints a table, and fails if a bug survives.
//
//	mutants [-n 100000] [-short] [-doc docs/simulation.md]
//
// A bug that breaks no invariant, and says why, is for the paper tests alone.
// -short asks those about such bugs only. -doc writes the table into the page.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

func main() {
	n := flag.Uint64("n", 100_000, "schedules that must suffice to catch a bug")
	short := flag.Bool("short", false, "run the paper tests only for bugs that the simulation cannot catch")
	doc := flag.String("doc", "", "page to write the table into")
	flag.Parse()
	if err := run(*n, *short, *doc); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

const (
	quorumDir = "ledger/internal/quorum"
	simDir    = "ledger/internal/ledgersim"

	// paperLimit bounds one run of the paper tests: a bug may make them hang.
	paperLimit = 2 * time.Minute
)

// mutant is one seeded bug and what caught it. The JSON comes from ledgersim.
type mutant struct {
	Mutant    int    `json:"mutant"` // in quorum, 0 for one in ledgersim
	Name      string `json:"name"`
	Rule      string `json:"rule"`
	What      string `json:"what"`
	Paper     string `json:"paper"` // why no invariant breaks
	Schedules uint64 `json:"schedules"`
	Invariant string `json:"invariant"`
	Violation string `json:"violation"`

	tests []string // paper tests that fail
	asked bool     // the paper tests were run
}

func run(n uint64, short bool, doc string) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	paper, sim := filepath.Join(dir, "quorum.test"), filepath.Join(dir, "ledgersim.test")
	if err := build(paper, quorumDir); err != nil {
		return err
	}
	if err := build(sim, simDir); err != nil {
		return err
	}
	if failed, err := paperTests(paper, 0); err != nil || len(failed) > 0 {
		return fmt.Errorf("paper tests fail without a bug: %v %w", failed, err)
	}
	mutants, err := simulate(sim, n)
	if err != nil {
		return err
	}
	for i := range mutants {
		m := &mutants[i]
		if m.Mutant == 0 || short && m.Paper == "" {
			continue
		}
		m.asked = true
		if m.tests, err = paperTests(paper, m.Mutant); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	os.Stdout.WriteString(table(mutants))
	if doc != "" {
		if err := writeDoc(doc, table(mutants)); err != nil {
			return err
		}
	}
	return verdict(mutants)
}

func build(out, pkg string) error {
	cmd := exec.Command("go", "test", "-c", "-tags", "mutants", "-o", out, "./"+pkg)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// simulate runs ledgersim's hunt for every bug.
func simulate(bin string, n uint64) ([]mutant, error) {
	cmd := exec.Command(bin, "-test.run", "^TestMutants$", "-test.timeout", "0", "-mutants.json", "-mutants.n", strconv.FormatUint(n, 10))
	cmd.Dir = simDir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("ledgersim: %w\n%s", err, out)
	}
	var mutants []mutant
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		if !bytes.HasPrefix(sc.Bytes(), []byte("{")) {
			continue
		}
		var m mutant
		if err := json.Unmarshal(sc.Bytes(), &m); err != nil {
			return nil, fmt.Errorf("ledgersim: %q: %w", sc.Text(), err)
		}
		mutants = append(mutants, m)
	}
	return mutants, nil
}

var failLine = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// paperTests runs the tests of quorum with bug id and gives those that fail.
func paperTests(bin string, id int) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), paperLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.timeout", (paperLimit / 2).String(), "-mutant", strconv.Itoa(id))
	cmd.Dir = quorumDir
	out, err := cmd.CombinedOutput()
	var failed []string
	for _, m := range failLine.FindAllSubmatch(out, -1) {
		failed = append(failed, string(m[1]))
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil, nil
	case !errors.As(err, &exit):
		return nil, err
	case len(failed) == 0:
		return []string{"(hangs or panics)"}, nil
	}
	return failed, nil
}
