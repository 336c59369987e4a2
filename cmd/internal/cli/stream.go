package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/stream"
)

func (a *app) streamCommand() *cobra.Command {
	return group("stream", "Create, list, show, truncate, seal and remove streams",
		a.streamCreateCommand(), a.streamListCommand(), a.streamShowCommand(),
		a.streamRemoveCommand(), a.streamTruncateCommand(), a.streamSealCommand())
}

func (a *app) streamCreateCommand() *cobra.Command {
	var c stream.Config
	var compression string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a stream", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := stream.ParseName(args[0])
			if err != nil {
				return err
			}
			if q := c.Quorum; q.Ensemble == 0 || q.Write == 0 || q.Ack == 0 {
				return usageError{fmt.Errorf("--ensemble %d, --write-quorum %d, --ack-quorum %d: want 1 or more", q.Ensemble, q.Write, q.Ack)}
			}
			if c.Compression, err = stream.ParseCompression(compression); err != nil {
				return err
			}
			return a.withNamespace(cmd.Context(), func(ctx context.Context, ns *namespace.Namespace) error {
				return ns.Create(ctx, name, c)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&c.Quorum.Ensemble, "ensemble", 3, "bookies of each segment")
	f.IntVar(&c.Quorum.Write, "write-quorum", 3, "copies of each entry")
	f.IntVar(&c.Quorum.Ack, "ack-quorum", 2, "synced copies that make an entry durable")
	f.Int64Var(&c.Roll.SizeBytes, "roll-size", 0, "bytes of a segment before the next is started (0 = 256 MiB)")
	f.DurationVar(&c.Roll.Every, "roll-every", 0, "age of a segment before the next is started (0 = 2h, negative = never)")
	f.DurationVar(&c.Retention.Age, "retention", 0, "delete completed segments that are older (0 = keep)")
	f.StringVar(&c.Placement, "placement", "", "`POLICY` for the bookies of all segments (default: that of each writer)")
	f.StringVar(&compression, "compression", "none", "of entries: none or lz4")
	f.StringToStringVar(&c.Labels, "label", nil, "`key=value` for people and tools; may be repeated")
	return cmd
}

func (a *app) streamListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls [PREFIX]", Short: "List streams", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := ""
			if len(args) == 1 {
				prefix = args[0]
			}
			return a.withNamespace(cmd.Context(), func(ctx context.Context, ns *namespace.Namespace) error {
				t := table{Columns: []string{"name"}}
				for info, err := range ns.List(ctx, prefix) {
					if err != nil {
						return err
					}
					t.Rows = append(t.Rows, []any{string(info.Name)})
				}
				return a.print(t)
			})
		},
	}
}

func (a *app) streamShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show the segments of a stream", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStream(cmd.Context(), args[0], func(ctx context.Context, s *namespace.Stream) error {
				ctx, cancel := a.bounded(ctx)
				defer cancel()
				t := table{Columns: []string{"segment", "ledger", "state", "records", "first_txid", "last_txid", "last_dlsn", "completed"}}
				for seg, err := range s.Segments(ctx) {
					if err != nil {
						return err
					}
					t.Rows = append(t.Rows, segmentRow(seg))
				}
				return a.print(t)
			})
		},
	}
}

func (a *app) streamRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Delete a stream and its ledgers", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := stream.ParseName(args[0])
			if err != nil {
				return err
			}
			return a.withNamespace(cmd.Context(), func(ctx context.Context, ns *namespace.Namespace) error {
				return ns.Delete(ctx, name)
			})
		},
	}
}

func (a *app) streamTruncateCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "truncate NAME --to POS", Short: "Give up all records before a position", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pos, err := parsePosition("--to", to)
			if err != nil {
				return err
			}
			return a.withStream(cmd.Context(), args[0], func(ctx context.Context, s *namespace.Stream) error {
				ctx, cancel := a.bounded(ctx)
				defer cancel()
				if err := s.Truncate(ctx, pos); err != nil {
					return err
				}
				_, err := s.Purge(ctx) // else the ledgers go when the next segment starts
				return err
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "first `POS` that stays")
	mustRequire(cmd, "to")
	return cmd
}

func (a *app) streamSealCommand() *cobra.Command {
	return &cobra.Command{
		Use: "seal NAME", Short: "End a stream: no more appends, readers reach an end", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStream(cmd.Context(), args[0], func(ctx context.Context, s *namespace.Stream) error {
				ctx, cancel := a.bounded(ctx)
				defer cancel()
				return s.Seal(ctx)
			})
		},
	}
}

// positionHelp is what the help of each POS flag says.
const positionHelp = "a DLSN (1:20:0 or base64), txid:N, RFC 3339, a time ago (-2h), first, last or now"

func parsePosition(flag, text string) (stream.Position, error) {
	p, err := stream.ParsePosition(text, time.Now())
	if err != nil {
		return p, fmt.Errorf("%s: %w", flag, err)
	}
	return p, nil
}

// mustRequire marks a flag as required; it can only fail on a flag that the
// command does not have.
func mustRequire(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil {
		panic(err)
	}
}
