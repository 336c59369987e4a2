// Command fuzzall runs every fuzz target of the tree for a while, one after the
// other, and ends with the first finding.
//
//	fuzzall -time 10s [-match REGEXP]
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

type target struct{ dir, name string }

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

func main() {
	each := flag.Duration("time", 10*time.Second, "for each target")
	match := flag.String("match", "", "only targets whose package and name match")
	flag.Parse()
	want, err := regexp.Compile(*match)
	if err == nil {
		err = run(want, *each)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
		os.Exit(1)
	}
}

func run(want *regexp.Regexp, each time.Duration) error {
	targets, err := find(".")
	if err != nil {
		return err
	}
	n := 0
	for _, t := range targets {
		if !want.MatchString(t.dir + "." + t.name) {
			continue
		}
		n++
		fmt.Printf("%s %s for %v\n", t.dir, t.name, each)
		cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", each.String(), "./"+t.dir)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s %s: %w", t.dir, t.name, err)
		}
	}
	if n == 0 {
		return fmt.Errorf("no fuzz target matches %q", want)
	}
	fmt.Printf("%d fuzz targets without a finding\n", n)
	return nil
}

func find(root string) (all []target, err error) {
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, m := range fuzzFunc.FindAllSubmatch(text, -1) {
			all = append(all, target{dir: filepath.ToSlash(filepath.Dir(p)), name: string(m[1])})
		}
		return nil
	})
	return all, err
}
