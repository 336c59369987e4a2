// Command benchrun measures Loglode on one machine: it starts etcd, three
// bookies and two proxies, each its own process on loopback, and loads them with
// `loglode bench`, one scenario after the other. Results go to stdout as text
// and to out/bench.jsonl as one JSON object a line.
//
//	benchrun -binary bin/loglode [-duration 20s] [-only REGEXP]
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/loglode/loglode/benchmarks"
	"github.com/loglode/loglode/cmd/internal/proc"
)

// scenario is one run of `loglode bench`.
type scenario struct {
	name string
	args []string
}

var scenarios = []scenario{
	{"ledger, 1 outstanding", []string{"ledger", "--outstanding", "1"}},
	{"ledger, 1,000/s", []string{"ledger", "--rate", "1000"}},
	{"ledger, 1,000 outstanding", []string{"ledger", "--outstanding", "1000"}},
	{"ledger, 1,000 outstanding, 100 B", []string{"ledger", "--outstanding", "1000", "--size", "100"}},
	{"100 ledgers, 10 outstanding each", []string{"ledger", "--ledgers", "100", "--outstanding", "1000"}},
	{"100 ledgers, 100 outstanding each", []string{"ledger", "--ledgers", "100", "--outstanding", "10000"}},
	{"sequential read", []string{"read", "--entries", "300000", "--passes", "3"}},
	{"stream, append to tail, 1,000/s", []string{"tail", "--rate", "1000"}},
	{"stream, 1 outstanding", []string{"append", "--outstanding", "1"}},
	{"stream, 10,000 outstanding", []string{"append", "--outstanding", "10000"}},
	{"stream through proxy, 1,000/s", []string{"tail", "--rate", "1000", "--via", "proxy"}},
	{"stream through proxy, 10,000 outstanding", []string{"append", "--outstanding", "10000", "--via", "proxy"}},
}

type runner struct {
	binary   string
	dir      string
	duration time.Duration
	reps     int
	only     *regexp.Regexp
	out      *os.File
}

func main() {
	var r runner
	only := flag.String("only", "", "scenarios whose name matches this `regexp`")
	flag.StringVar(&r.binary, "binary", "bin/loglode", "the loglode binary")
	flag.StringVar(&r.dir, "dir", "", "`directory` for data (default: a temporary one)")
	flag.DurationVar(&r.duration, "duration", 10*time.Second, "of each run")
	flag.IntVar(&r.reps, "reps", 1, "runs of each scenario")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if r.only, err = regexp.Compile(*only); err == nil {
		err = r.run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchrun:", err)
		os.Exit(1)
	}
}

func (r *runner) run(ctx context.Context) (err error) {
	if err := os.MkdirAll("out", 0o755); err != nil {
		return err
	}
	if r.out, err = os.Create("out/bench.jsonl"); err != nil {
		return err
	}
	defer r.out.Close()
	dir, err := os.MkdirTemp(r.dir, "loglode-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := proc.StartCluster(ctx, proc.Options{Binary: r.binary, Dir: filepath.Clean(dir), Bookies: 3, Proxies: 2})
	if c != nil {
		defer c.StopAll()
	}
	if err != nil {
		return err
	}
	for _, s := range scenarios {
		if !r.only.MatchString(s.name) {
			continue
		}
		for range r.reps {
			if err := r.measure(ctx, c, s); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

// measure runs one scenario and prints what it saw. The servers' processor time
// is that of bookies and proxies; etcd is left out.
func (r *runner) measure(ctx context.Context, c *proc.Cluster, s scenario) error {
	args := append([]string{"bench"}, s.args...)
	args = append(args, "-o", "json", "--duration", r.duration.String(), "--timeout", "60s")
	for _, p := range append(append([]*proc.Process{}, c.Bookies...), c.Proxies...) {
		args = append(args, "--server-pid", strconv.Itoa(p.PID()))
	}
	cmd := c.Command(ctx, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var res benchmarks.Result
		if err := dec.Decode(&res); err != nil {
			return err
		}
		res.Name = s.name
		if err := res.WriteText(os.Stdout); err != nil {
			return err
		}
		if err := res.WriteJSON(r.out); err != nil {
			return err
		}
	}
	return nil
}
