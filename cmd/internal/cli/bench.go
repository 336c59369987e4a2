package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loglode/loglode/benchmarks"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/stream"
)

func (a *app) benchCommand() *cobra.Command {
	return group("bench", "Load a running system and measure it",
		a.benchLedgerCommand(), a.benchReadCommand(), a.benchAppendCommand(), a.benchTailCommand())
}

// benchFlags are what all of bench takes.
type benchFlags struct {
	load    benchmarks.Load
	quorum  bk.Quorum
	cluster string
	via     string
}

func (b *benchFlags) add(f *pflag.FlagSet) {
	f.Float64Var(&b.load.Rate, "rate", 0, "records per second on a fixed schedule, timed from when each was due (0 = as fast as --outstanding allows)")
	f.IntVar(&b.load.Outstanding, "outstanding", 1000, "most records in flight")
	f.IntVar(&b.load.SizeBytes, "size", 1024, "payload bytes of a record")
	f.DurationVar(&b.load.Duration, "duration", 10*time.Second, "how long to measure")
	f.DurationVar(&b.load.Warmup, "warmup", 2*time.Second, "how long to run before measuring")
	f.IntSliceVar(&b.load.ServerPIDs, "server-pid", nil, "process ids whose CPU time and memory count as the servers'")
	f.IntVar(&b.quorum.Ensemble, "ensemble", 3, "bookies of each ledger")
	f.IntVar(&b.quorum.Write, "write-quorum", 3, "copies of each entry")
	f.IntVar(&b.quorum.Ack, "ack-quorum", 2, "synced copies that make an entry durable")
}

// benchResult prints a result as text for -o table, else as a line of JSON.
func (a *app) benchResult(results ...benchmarks.Result) error {
	for _, r := range results {
		write := r.WriteText
		if a.output != "table" {
			write = r.WriteJSON
		}
		if err := write(a.out); err != nil {
			return err
		}
	}
	return nil
}

// benchClient connects to the bookies for longer than one operation's timeout.
func (a *app) benchClient(ctx context.Context, cluster string) (*ledger.Client, error) {
	uri, err := a.clusterURI(ctx, cluster)
	if err != nil {
		return nil, err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return ledger.Connect(ctx, uri, a.ledgerOptions)
}

func (a *app) benchLedgerCommand() *cobra.Command {
	var b benchFlags
	ledgers := 1
	cmd := &cobra.Command{
		Use: "ledger", Short: "Append entries to new ledgers", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.load.Validate(); err != nil {
				return usageError{err}
			}
			c, err := a.benchClient(cmd.Context(), b.cluster)
			if err != nil {
				return err
			}
			res, err := benchmarks.Ledgers(cmd.Context(), c, b.quorum, ledgers, b.load)
			if err == nil {
				err = a.benchResult(res)
			}
			return closing(err, c.Close)
		},
	}
	b.add(cmd.Flags())
	metadataFlag(cmd, &b.cluster)
	cmd.Flags().IntVar(&ledgers, "ledgers", 1, "ledgers written at once")
	return cmd
}

func (a *app) benchReadCommand() *cobra.Command {
	var b benchFlags
	var entries int64
	var passes int
	cmd := &cobra.Command{
		Use: "read", Short: "Write a ledger and read it from first to last", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if entries < 1 || passes < 1 {
				return usageError{fmt.Errorf("--entries %d, --passes %d: want at least 1", entries, passes)}
			}
			c, err := a.benchClient(cmd.Context(), b.cluster)
			if err != nil {
				return err
			}
			res, err := benchmarks.SequentialRead(cmd.Context(), c, b.quorum, entries, passes, b.load)
			if err == nil {
				err = a.benchResult(res...)
			}
			return closing(err, c.Close)
		},
	}
	b.add(cmd.Flags())
	metadataFlag(cmd, &b.cluster)
	cmd.Flags().Int64Var(&entries, "entries", 200_000, "entries to write")
	cmd.Flags().IntVar(&passes, "passes", 3, "times to read them")
	return cmd
}

func (a *app) benchAppendCommand() *cobra.Command {
	var b benchFlags
	cmd := &cobra.Command{
		Use: "append", Short: "Append records to a new stream", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.benchStream(cmd.Context(), b, func(ctx context.Context, w appender, _ *namespace.Stream) (benchmarks.Result, error) {
				return benchmarks.Append(ctx, w, b.load)
			})
		},
	}
	b.add(cmd.Flags())
	cmd.Flags().StringVar(&b.via, "via", "library", "`who` writes: library or proxy")
	return cmd
}

func (a *app) benchTailCommand() *cobra.Command {
	var b benchFlags
	cmd := &cobra.Command{
		Use: "tail", Short: "Append records to a new stream and time a tailing reader", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.benchStream(cmd.Context(), b, func(ctx context.Context, w appender, s *namespace.Stream) (benchmarks.Result, error) {
				return benchmarks.Tail(ctx, w, s, b.load)
			})
		},
	}
	b.add(cmd.Flags())
	cmd.Flags().StringVar(&b.via, "via", "library", "`who` writes: library or proxy")
	return cmd
}

// benchStream runs fn on a stream of its own, which it deletes at the end.
func (a *app) benchStream(ctx context.Context, b benchFlags, fn func(context.Context, appender, *namespace.Stream) (benchmarks.Result, error)) error {
	if err := b.load.Validate(); err != nil {
		return usageError{err}
	}
	name := stream.Name(fmt.Sprintf("bench-%d", time.Now().UnixNano()))
	q := stream.Quorum{Ensemble: b.quorum.Ensemble, Write: b.quorum.Write, Ack: b.quorum.Ack}
	err := a.withNamespace(ctx, func(ctx context.Context, ns *namespace.Namespace) error {
		return ns.Create(ctx, name, stream.Config{Quorum: q})
	})
	if err != nil {
		return err
	}
	err = a.withStream(ctx, string(name), func(ctx context.Context, s *namespace.Stream) error {
		w, closeAll, err := a.openAppender(ctx, string(name), appendFlags{via: b.via, writeWait: a.timeout})
		if err != nil {
			return err
		}
		res, err := fn(ctx, w, s)
		if err == nil {
			err = a.benchResult(res)
		}
		return closing(closing(err, w.Close), closeAll)
	})
	return closing(err, func() error {
		return a.withNamespace(context.WithoutCancel(ctx), func(ctx context.Context, ns *namespace.Namespace) error {
			return ns.Delete(ctx, name)
		})
	})
}
