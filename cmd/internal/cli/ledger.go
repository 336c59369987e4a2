package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata/layout"
)

func (a *app) ledgerCommand() *cobra.Command {
	return group("ledger", "List, show and read ledgers", a.ledgerListCommand(), a.ledgerShowCommand(), a.ledgerReadCommand())
}

func (a *app) ledgerListCommand() *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use: "ls", Short: "List the ledgers of a cluster", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLedgers(cmd.Context(), cluster, func(ctx context.Context, c *ledger.Client) error {
				t := table{Columns: []string{"ledger"}}
				for id, err := range c.List(ctx) {
					if err != nil {
						return err
					}
					t.Rows = append(t.Rows, []any{int64(id)})
				}
				return a.print(t)
			})
		},
	}
	metadataFlag(cmd, &cluster)
	return cmd
}

func parseLedgerID(s string) (bk.LedgerID, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 0 {
		return bk.InvalidLedgerID, usageError{fmt.Errorf("ledger %q: want a number of 0 or more", s)}
	}
	return bk.LedgerID(id), nil
}

func (a *app) ledgerShowCommand() *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show the metadata of a ledger", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseLedgerID(args[0])
			if err != nil {
				return err
			}
			return a.withLedgers(cmd.Context(), cluster, func(ctx context.Context, c *ledger.Client) error {
				m, err := c.Metadata(ctx, id)
				if err != nil {
					return err
				}
				return a.print(ledgerTable(id, m))
			})
		},
	}
	metadataFlag(cmd, &cluster)
	return cmd
}

// ledgerTable has a row for each fragment: a run of entries with one ensemble.
// Custom metadata are "key=value"; a value that is no printable text is quoted.
func ledgerTable(id bk.LedgerID, m *layout.LedgerMetadata) table {
	t := table{Columns: []string{"ledger", "state", "quorum", "digest", "last_entry", "length", "first_entry", "ensemble", "custom"}}
	quorum := fmt.Sprintf("%d/%d/%d", m.Quorum.Ensemble, m.Quorum.Write, m.Quorum.Ack)
	custom := make([]string, 0, len(m.Custom))
	for _, k := range slices.Sorted(maps.Keys(m.Custom)) {
		v := string(m.Custom[k])
		if q := strconv.Quote(v); q != `"`+v+`"` {
			v = q
		}
		custom = append(custom, k+"="+v)
	}
	for _, s := range m.Segments {
		names := make([]string, len(s.Ensemble))
		for i, b := range s.Ensemble {
			names[i] = string(b)
		}
		t.Rows = append(t.Rows, []any{int64(id), m.State.String(), quorum, m.Digest.String(), int64(m.LastEntry), m.Length, int64(s.First), names, custom})
	}
	return t
}

func (a *app) ledgerReadCommand() *cobra.Command {
	var cluster string
	var first, last int64
	cmd := &cobra.Command{
		Use: "read ID", Short: "Print the entries of a ledger, without recovering it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseLedgerID(args[0])
			if err != nil {
				return err
			}
			if first < 0 {
				return usageError{fmt.Errorf("--first %d: want 0 or more", first)}
			}
			return a.withLedgers(cmd.Context(), cluster, func(ctx context.Context, c *ledger.Client) error {
				r, err := c.Open(ctx, id, ledger.NoRecovery)
				if err != nil {
					return err
				}
				return closing(a.printEntries(ctx, r, bk.EntryID(first), bk.EntryID(last)), r.Close)
			})
		},
	}
	metadataFlag(cmd, &cluster)
	cmd.Flags().Int64Var(&first, "first", 0, "first `ENTRY`")
	cmd.Flags().Int64Var(&last, "last", -1, "last `ENTRY` (-1 = the last one confirmed)")
	return cmd
}

func (a *app) printEntries(ctx context.Context, r *ledger.Reader, first, last bk.EntryID) error {
	if last == bk.InvalidEntryID {
		last = r.LAC()
	}
	t := table{Columns: []string{"entry", "lac", "length", "payload"}}
	if first <= last {
		for e, err := range r.Entries(ctx, first, last) {
			if err != nil {
				return err
			}
			t.Rows = append(t.Rows, []any{int64(e.ID), int64(e.LAC), e.Length, strconv.QuoteToASCII(string(e.Payload))})
		}
	}
	return a.print(t)
}

// orDash shows a zero time as nothing.
func orDash(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}
