package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// input is the text to append, in lines without their newline.
type input struct {
	source string
	lines  [][]byte
	bytes  int64
}

const leastLines = 500_000 // of Go's own sources

// readInput reads path, or the Go sources below src if path is empty.
func readInput(path, src string, most int) (*input, error) {
	in := &input{source: path}
	if path != "" {
		return in, in.readFile(path, int(^uint(0)>>1))
	}
	in.source = src
	err := filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") {
			return err
		}
		if len(in.lines) >= most {
			return filepath.SkipAll
		}
		return in.readFile(p, most)
	})
	if err == nil && len(in.lines) < leastLines {
		err = fmt.Errorf("%s has %d lines of Go, want at least %d", src, len(in.lines), leastLines)
	}
	return in, err
}

func (in *input) readFile(p string, most int) error {
	text, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	sc := bufio.NewReader(bytes.NewReader(text))
	for len(in.lines) < most {
		line, err := sc.ReadBytes('\n')
		if err != nil && len(line) == 0 {
			break
		}
		line = bytes.TrimSuffix(line, []byte{'\n'})
		in.lines = append(in.lines, line)
		in.bytes += int64(len(line)) + 1
	}
	return nil
}

// checksum is the SHA-256 of the lines from first on, each with a newline.
func (in *input) checksum(first int) string {
	h := sha256.New()
	for _, l := range in.lines[first:] {
		h.Write(l)
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil))
}
