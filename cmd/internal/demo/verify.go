package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/loglode/loglode/cmd/internal/proc"
)

// follower is a tail process whose output is counted and hashed as it comes.
type follower struct {
	cmd   *exec.Cmd
	lines atomic.Int64
	sum   hash.Hash // read it after done
	done  chan error
	errs  bytes.Buffer
}

func follow(ctx context.Context, c *proc.Cluster) (*follower, error) {
	f := &follower{cmd: c.Command(ctx, "tail", streamName, "--from", "first"), sum: sha256.New(), done: make(chan error, 1)}
	f.cmd.Stderr = &f.errs
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := f.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		in := bufio.NewReaderSize(out, 1<<20)
		for {
			line, err := in.ReadSlice('\n')
			f.sum.Write(line)
			if err == nil {
				f.lines.Add(1)
				continue
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			f.done <- f.cmd.Wait()
			return
		}
	}()
	return f, nil
}

// finish waits until the follower has seen n lines, ends it, and gives the
// checksum of all it saw.
func (f *follower) finish(ctx context.Context, n int64) (string, error) {
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for f.lines.Load() < n {
		select {
		case err := <-f.done:
			return "", fmt.Errorf("tail ended after %d of %d lines: %w: %s", f.lines.Load(), n, err, f.errs.Bytes())
		case <-deadline:
			return "", fmt.Errorf("tail saw %d of %d lines within 30 s of the last append", f.lines.Load(), n)
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-tick.C:
		}
	}
	if err := f.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return "", err
	}
	if err := <-f.done; err != nil {
		return "", fmt.Errorf("tail: %w: %s", err, f.errs.Bytes())
	}
	if got := f.lines.Load(); got != n {
		return "", fmt.Errorf("tail saw %d lines, want %d", got, n)
	}
	return hex.EncodeToString(f.sum.Sum(nil)), nil
}

// replay runs a bounded replay and gives the checksum of its output.
func replay(ctx context.Context, c *proc.Cluster, from string) (sum string, lines int64, took time.Duration, err error) {
	begin := time.Now()
	cmd := c.Command(ctx, "replay", streamName, "--from", from, "--to", "now")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	h := &lineHash{Hash: sha256.New()}
	cmd.Stdout = h
	if err := cmd.Run(); err != nil {
		return "", 0, 0, fmt.Errorf("replay from %s: %w: %s", from, err, errs.Bytes())
	}
	return hex.EncodeToString(h.Sum(nil)), h.lines, time.Since(begin), nil
}

type lineHash struct {
	hash.Hash
	lines int64
}

func (h *lineHash) Write(p []byte) (int, error) {
	h.lines += int64(bytes.Count(p, []byte{'\n'}))
	return h.Hash.Write(p)
}

var _ io.Writer = (*lineHash)(nil)

// verify compares what the tail and two replays saw with the input.
func (d *demo) verify(ctx context.Context) error {
	n, half := len(d.input.lines), d.half()
	want, wantMid := d.input.checksum(0), d.input.checksum(half)
	sum, err := d.tail.finish(ctx, int64(n))
	if err != nil {
		return err
	}
	if sum != want {
		return fmt.Errorf("the tail differs from the input: sha256 %s, want %s", sum, want)
	}
	say("tail: %d lines, same as the input", n)
	check := func(from, want string, lines int) (string, error) {
		sum, got, took, err := replay(ctx, d.cluster, from)
		if err != nil {
			return "", err
		}
		if sum != want || got != int64(lines) {
			return "", fmt.Errorf("replay from %s differs: %d lines, sha256 %s; want %d lines, %s", from, got, sum, lines, want)
		}
		text := fmt.Sprintf("%d lines in %.2f s (%.0f/s)", got, took.Seconds(), float64(got)/took.Seconds())
		say("replay from %s: %s, same as the input", from, text)
		return text, nil
	}
	if d.replayed, err = check("first", want, n); err != nil {
		return err
	}
	d.replayMid, err = check(d.middle.UTC().Format(time.RFC3339Nano), wantMid, n-half)
	return err
}
