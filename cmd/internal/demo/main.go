// Command demo is the main job on real input, with real processes: one etcd,
// three bookies and two write proxies, each its own process. It appends text
// while a tail follows, the first half through the library and the second
// through the proxies, kills a bookie and the proxy that owns the stream with
// SIGKILL in the middle and restarts them later, then replays the stream from
// the first record and from a time in the middle, and compares checksums with
// the input. It exits non-zero if anything differs.
//
//	demo -binary bin/loglode [-input FILE]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/loglode/loglode/cmd/internal/proc"
)

func main() {
	var d demo
	flag.StringVar(&d.binary, "binary", "bin/loglode", "the loglode binary")
	flag.StringVar(&d.inputPath, "input", "", "text `file` to append (default: Go's own sources)")
	flag.IntVar(&d.maxLines, "lines", 1_000_000, "most lines to take of Go's own sources")
	flag.BoolVar(&d.keep, "keep", false, "keep the data directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, 4*time.Minute, fmt.Errorf("the demo did not end within 4 minutes"))
	err := d.run(ctx)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: FAILED:", err)
		os.Exit(1)
	}
}

const streamName = "demo"

// demo is one run.
type demo struct {
	binary    string
	inputPath string
	maxLines  int
	keep      bool

	dir       string
	input     *input
	cluster   *proc.Cluster
	killed    []string // what was killed, for the report
	kills     []time.Time
	middle    time.Time // between the last record of the first half and the first of the second
	first     phase
	second    phase
	tail      *follower
	replayed  string
	replayMid string
}

func (d *demo) run(ctx context.Context) (err error) {
	begin := time.Now()
	if d.dir, err = os.MkdirTemp("", "loglode-demo-"); err != nil {
		return err
	}
	defer func() {
		if d.cluster != nil {
			d.cluster.StopAll()
		}
		if d.keep || err != nil {
			fmt.Println("data and logs are in", d.dir)
			return
		}
		os.RemoveAll(d.dir)
	}()
	say("reading input")
	if d.input, err = readInput(d.inputPath, runtime.GOROOT()+"/src", d.maxLines); err != nil {
		return err
	}
	say("%d lines, %.1f MB from %s", len(d.input.lines), float64(d.input.bytes)/1e6, d.input.source)
	if err := d.startCluster(ctx); err != nil {
		return err
	}
	if d.tail, err = follow(ctx, d.cluster); err != nil {
		return err
	}
	if err := d.appendFirstHalf(ctx); err != nil {
		return fmt.Errorf("append through the library: %w", err)
	}
	if err := d.appendSecondHalf(ctx); err != nil {
		return fmt.Errorf("append through the proxies: %w", err)
	}
	if err := d.verify(ctx); err != nil {
		return err
	}
	d.report(time.Since(begin))
	return nil
}

func (d *demo) startCluster(ctx context.Context) (err error) {
	d.cluster, err = proc.StartCluster(ctx, proc.Options{Binary: d.binary, Dir: d.dir, Bookies: 3, Proxies: 2})
	if err != nil {
		return err
	}
	err = d.cluster.Client(ctx, "stream", "create", streamName, "--ensemble", "3", "--write-quorum", "3", "--ack-quorum", "2")
	if err == nil {
		say("up: etcd, 3 bookies, 2 write proxies, each its own process; E=3 Qw=3 Qa=2")
	}
	return err
}

var start = time.Now()

func say(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
}
