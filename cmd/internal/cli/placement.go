package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/placement"
)

func (a *app) placementCommand() *cobra.Command {
	return group("placement", "Explain which bookies ledgers are put on", a.placementExplainCommand())
}

func (a *app) placementExplainCommand() *cobra.Command {
	var cluster, policy string
	var q bk.Quorum
	var id int64
	cmd := &cobra.Command{
		Use: "explain", Short: "Say for each bookie why it would be chosen or not, or why a ledger is where it is", Args: cobra.NoArgs,
		Long: `Choose an ensemble as for a new ledger, without making one, and say for each
bookie why it was chosen or not, and for each rule of the policy whether every
write set keeps it. With --ledger, look at the ensembles of that ledger instead.

A policy is terms joined by commas: racks=N, zones=N, regions=N (each write set
is in at least N), ack-racks=N, ack-zones=N, ack-regions=N (any ack quorum is),
strict (fail rather than break a rule), spread=zone|rack|region|none,
even-disks, require:KEY=VALUE. Without --policy it is that of the ledger, else
that of --placement.

The exit code is 5 if a strict policy allows no ensemble, and 1 if a ledger does
not keep its policy.`,
		Example: `  loglode placement explain --ensemble 3 --write-quorum 3 --ack-quorum 2 --policy zones=3,strict
  loglode placement explain --ledger 42 --policy ack-regions=2 -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var p *placement.Policy
			if cmd.Flags().Changed("policy") {
				parsed, err := placement.ParsePolicy(policy)
				if err != nil {
					return err
				}
				p = &parsed
			}
			hasLedger := cmd.Flags().Changed("ledger")
			if hasLedger && id < 0 {
				return usageError{fmt.Errorf("--ledger %d: want a number of 0 or more", id)}
			}
			return a.withLedgers(cmd.Context(), cluster, func(ctx context.Context, c *ledger.Client) error {
				if hasLedger {
					return a.explainLedger(ctx, c, bk.LedgerID(id), p)
				}
				e, err := c.Explain(ctx, q, p)
				if err != nil {
					return err
				}
				if p == nil {
					p = &a.client.Policy
				}
				if err := a.printExplanations([]explained{explainedOf(e, q, *p)}); err != nil {
					return err
				}
				return e.Err
			})
		},
	}
	metadataFlag(cmd, &cluster)
	f := cmd.Flags()
	f.IntVar(&q.Ensemble, "ensemble", 3, "bookies of the ledger")
	f.IntVar(&q.Write, "write-quorum", 3, "copies of each entry")
	f.IntVar(&q.Ack, "ack-quorum", 2, "synced copies that make an entry durable")
	f.StringVar(&policy, "policy", "", "placement `POLICY` to explain")
	f.Int64Var(&id, "ledger", 0, "`ID` of a ledger to look at")
	return cmd
}

// explainLedger explains each segment of a ledger, and fails if one does not
// keep the policy.
func (a *app) explainLedger(ctx context.Context, c *ledger.Client, id bk.LedgerID, p *placement.Policy) error {
	m, err := c.Metadata(ctx, id)
	if err != nil {
		return err
	}
	if p == nil {
		own, isOwn, err := ledger.PolicyOf(m)
		if err != nil {
			return fmt.Errorf("policy of ledger %d: %w", id, err)
		}
		if !isOwn {
			own = a.client.Policy
		}
		p = &own
	}
	segments, err := c.ExplainLedger(ctx, id, p)
	if err != nil {
		return err
	}
	var all []explained
	var broken []error
	for i, e := range segments {
		x := explainedOf(e, m.Quorum, *p)
		if i < len(m.Segments) {
			first := int64(m.Segments[i].First)
			x.FirstEntry = &first
		}
		all = append(all, x)
		for _, f := range e.Findings {
			if !f.Holds() {
				broken = append(broken, fmt.Errorf("segment %d does not keep %v", i, f.Rule))
			}
		}
	}
	if err := a.printExplanations(all); err != nil {
		return err
	}
	if err := errors.Join(broken...); err != nil {
		return fmt.Errorf("ledger %d: %w", id, err)
	}
	return nil
}

// explained is an explanation as -o json prints it.
type explained struct {
	FirstEntry *int64          `json:"first_entry,omitempty"` // of a ledger's segment
	Quorum     string          `json:"quorum"`                // ensemble/write/ack
	Policy     string          `json:"policy"`
	Ensemble   []bk.BookieID   `json:"ensemble"`
	Error      string          `json:"error,omitempty"`
	Bookies    []explainedOne  `json:"bookies"`
	Rules      []explainedRule `json:"rules"`
}

type explainedOne struct {
	Bookie   bk.BookieID       `json:"bookie"`
	Status   string            `json:"status"`
	Location string            `json:"location"`
	Labels   map[string]string `json:"labels,omitempty"`
	Free     int64             `json:"free_bytes,omitempty"`
	Weight   float64           `json:"weight,omitempty"`
	Share    float64           `json:"share"`
	Position *int              `json:"position"`
	Reason   string            `json:"reason"`
}

type explainedRule struct {
	Rule  string          `json:"rule"`
	Holds bool            `json:"holds"`
	Want  int             `json:"want"`
	Got   int             `json:"got"`
	Below []explainedSets `json:"write_sets_below,omitempty"`
}

type explainedSets struct {
	Positions []int `json:"positions"`
	Got       int   `json:"got"`
}

func explainedOf(e placement.Explanation, q bk.Quorum, p placement.Policy) explained {
	x := explained{
		Quorum: fmt.Sprintf("%d/%d/%d", q.Ensemble, q.Write, q.Ack), Policy: p.String(),
		Ensemble: e.Ensemble, Rules: []explainedRule{}, Bookies: []explainedOne{},
	}
	if e.Err != nil {
		x.Error = e.Err.Error()
	}
	for _, v := range e.Bookies {
		one := explainedOne{
			Bookie: v.ID, Status: v.Status.String(), Location: v.Location.String(), Labels: v.Labels,
			Free: v.FreeBytes, Weight: v.Weight, Share: math.Round(v.Share*1e4) / 1e4, Reason: v.Reason,
		}
		if v.Position >= 0 {
			one.Position = &v.Position
		}
		x.Bookies = append(x.Bookies, one)
	}
	for _, f := range e.Findings {
		r := explainedRule{Rule: f.Rule.String(), Holds: f.Holds(), Want: f.Want, Got: f.Got}
		for _, s := range f.Below {
			r.Below = append(r.Below, explainedSets(s))
		}
		x.Rules = append(x.Rules, r)
	}
	return x
}

func (a *app) printExplanations(all []explained) error {
	switch a.output {
	case "json":
		enc := json.NewEncoder(a.out)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	case "jsonl":
		enc := json.NewEncoder(a.out)
		for _, x := range all {
			if err := enc.Encode(x); err != nil {
				return err
			}
		}
		return nil
	}
	for i, x := range all {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := printExplained(a.out, x); err != nil {
			return err
		}
	}
	return nil
}

func printExplained(w io.Writer, x explained) error {
	if x.FirstEntry != nil {
		fmt.Fprintf(w, "entries from %d on: ", *x.FirstEntry)
	}
	fmt.Fprintf(w, "quorum %s, policy %s\n\n", x.Quorum, x.Policy)
	t := table{Columns: []string{"bookie", "status", "location", "labels", "free_bytes", "share", "position", "reason"}}
	for _, b := range x.Bookies {
		var position, free any
		if b.Position != nil {
			position = *b.Position
		}
		if b.Free > 0 {
			free = b.Free
		}
		share := fmt.Sprintf("%.1f%%", b.Share*100)
		t.Rows = append(t.Rows, []any{string(b.Bookie), b.Status, b.Location, labelList(b.Labels), free, share, position, b.Reason})
	}
	if err := printTable(w, t); err != nil || len(x.Rules) == 0 {
		return err
	}
	fmt.Fprintln(w)
	t = table{Columns: []string{"rule", "holds", "want", "worst_write_set", "write_sets_below"}}
	for _, r := range x.Rules {
		var below any
		if len(r.Below) > 0 {
			sets := make([]string, len(r.Below))
			for i, s := range r.Below {
				sets[i] = fmt.Sprint(s.Positions)
			}
			below = sets
		}
		t.Rows = append(t.Rows, []any{r.Rule, r.Holds, r.Want, r.Got, below})
	}
	return printTable(w, t)
}
