package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/placement"
	"github.com/loglode/loglode/metadata/layout"
)

func (a *app) bookieCommand() *cobra.Command {
	return group("bookie", "List, label and drain bookies", a.bookieListCommand(), a.bookieLabelCommand())
}

func (a *app) bookieListCommand() *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use: "ls", Short: "List the bookies that are registered now", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withCluster(cmd.Context(), cluster, func(ctx context.Context, c *layout.Cluster) error {
				all, err := c.Bookies(ctx)
				if err != nil {
					return err
				}
				places, err := c.Places(ctx)
				if err != nil && !errors.Is(err, bk.ErrCorrupt) {
					return err
				}
				t := table{Columns: []string{"bookie", "mode", "location", "labels", "free_bytes", "draining"}}
				add := func(id bk.BookieID, mode string) {
					p := places[id]
					at := placement.Location{Region: p.Region, Zone: p.Zone, Rack: p.Rack}
					var free any
					if p.FreeBytes > 0 {
						free = p.FreeBytes
					}
					t.Rows = append(t.Rows, []any{string(id), mode, at.String(), labelList(p.Labels), free, p.Draining})
				}
				for _, id := range all.Writable {
					add(id, "writable")
				}
				for _, id := range all.ReadOnly {
					add(id, "read-only")
				}
				return closing(a.print(t), func() error { return err })
			})
		},
	}
	metadataFlag(cmd, &cluster)
	return cmd
}

// placeFlags are the flags that say where a bookie is.
func placeFlags(f *pflag.FlagSet, p *layout.Place) {
	f.StringVar(&p.Region, "region", "", "`REGION` that the bookie is in")
	f.StringVar(&p.Zone, "zone", "", "`ZONE` that the bookie is in, of its region")
	f.StringVar(&p.Rack, "rack", "", "`RACK` that the bookie is in, of its zone")
	f.StringToStringVar(&p.Labels, "label", nil, "`KEY=VALUE` that a placement policy may require; may be repeated")
	f.Float64Var(&p.Weight, "weight", 0, "share of new ledgers against other bookies (0 = 1)")
}

// checkPlace refuses what placement could not use; an empty label value is for
// the command that takes it.
func checkPlace(p layout.Place) error {
	for _, f := range []struct{ name, value string }{{"region", p.Region}, {"zone", p.Zone}, {"rack", p.Rack}} {
		if f.value == "" {
			continue
		}
		if err := placement.ValidName(f.value); err != nil {
			return usageError{fmt.Errorf("--%s: %w", f.name, err)}
		}
	}
	for k, v := range p.Labels {
		if v == "" {
			v = "-"
		}
		if err := errors.Join(placement.ValidName(k), placement.ValidName(v)); err != nil {
			return usageError{fmt.Errorf("--label %.60s: %w", k+"="+v, err)}
		}
	}
	if p.Weight != 0 {
		if _, err := placement.ParseWeight(fmt.Sprint(p.Weight)); err != nil {
			return usageError{fmt.Errorf("--weight: %w", err)}
		}
	}
	return nil
}

func (a *app) bookieLabelCommand() *cobra.Command {
	var cluster string
	var want layout.Place
	cmd := &cobra.Command{
		Use: "label ID", Short: "Change where a bookie is said to be, its labels, weight, or drain it", Args: cobra.ExactArgs(1),
		Long: `Change what is stored of a bookie's place. Only what flags name is changed; an
empty value removes a name or a label (--zone "" --label disk=). Clients follow
within ten seconds, no process is started again. --drain takes the bookie out of
the choice for new ledgers, --drain=false takes it back; ledgers that it has
stay there.

Flags of "loglode server bookie" replace this at the bookie's next start. On
ZooKeeper the bookie must be registered, and registers anew without the change.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := bk.ParseBookieID(args[0])
			if err != nil {
				return err
			}
			if err := checkPlace(want); err != nil {
				return err
			}
			changed := cmd.Flags().Changed
			return a.withCluster(cmd.Context(), cluster, func(ctx context.Context, c *layout.Cluster) error {
				if err := known(ctx, c, id); err != nil {
					return err
				}
				return c.UpdatePlace(ctx, id, func(p *layout.Place) { relabel(p, want, changed) })
			})
		},
	}
	metadataFlag(cmd, &cluster)
	placeFlags(cmd.Flags(), &want)
	cmd.Flags().BoolVar(&want.Draining, "drain", false, "choose the bookie for no new ledger")
	return cmd
}

// known refuses an id that was never a bookie of the cluster: a misspelt one
// would leave a place behind that nobody has.
func known(ctx context.Context, c *layout.Cluster, id bk.BookieID) error {
	if _, _, err := c.Cookie(ctx, id); err != nil {
		return fmt.Errorf("bookie %s is not of this cluster: %w", id, err)
	}
	return nil
}

// relabel changes in p what flags named.
func relabel(p *layout.Place, want layout.Place, changed func(flag string) bool) {
	for _, f := range []struct {
		flag string
		to   *string
		v    string
	}{{"region", &p.Region, want.Region}, {"zone", &p.Zone, want.Zone}, {"rack", &p.Rack, want.Rack}} {
		if changed(f.flag) {
			*f.to = f.v
		}
	}
	if changed("weight") {
		p.Weight = want.Weight
	}
	if changed("drain") {
		p.Draining = want.Draining
	}
	if !changed("label") {
		return
	}
	labels := maps.Clone(p.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for k, v := range want.Labels {
		if v == "" {
			delete(labels, k)
		} else {
			labels[k] = v
		}
	}
	p.Labels = labels
}
