package cli

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/stream"
)

// bounded gives a context for one operation of a command.
func (a *app) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, a.timeout, fmt.Errorf("no answer within --timeout %v: %w", a.timeout, context.DeadlineExceeded))
}

func (a *app) openNamespace(ctx context.Context) (*namespace.Namespace, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return namespace.Open(ctx, a.namespace, namespace.WithLogger(a.log), namespace.WithTimeout(a.timeout),
		namespace.WithLedgerOptions(ledger.Options{Placement: a.client}))
}

// withNamespace runs fn on the open namespace, within the timeout.
func (a *app) withNamespace(ctx context.Context, fn func(context.Context, *namespace.Namespace) error) error {
	ns, err := a.openNamespace(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return closing(fn(ctx, ns), ns.Close)
}

// openStream checks the name and opens the namespace and the stream. The
// caller closes the namespace.
func (a *app) openStream(ctx context.Context, arg string) (*namespace.Namespace, *namespace.Stream, error) {
	name, err := stream.ParseName(arg)
	if err != nil {
		return nil, nil, err
	}
	ns, err := a.openNamespace(ctx)
	if err != nil {
		return nil, nil, err
	}
	bctx, cancel := a.bounded(ctx)
	defer cancel()
	s, err := ns.Stream(bctx, name)
	if err != nil {
		return nil, nil, closing(err, ns.Close)
	}
	return ns, s, nil
}

// withStream runs fn on an open stream, with the command's own context.
func (a *app) withStream(ctx context.Context, arg string, fn func(context.Context, *namespace.Stream) error) error {
	ns, s, err := a.openStream(ctx, arg)
	if err != nil {
		return err
	}
	return closing(fn(ctx, s), ns.Close)
}

// closing closes something after err happened or not, and gives the first
// failure.
func closing(err error, closeFn func() error) error {
	if cerr := closeFn(); err == nil {
		return cerr
	}
	return err
}

// clusterURI is the cluster of bookies that the commands on ledgers and bookies
// mean: --metadata, or what the namespace is bound to.
func (a *app) clusterURI(ctx context.Context, flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	b, err := namespace.Show(ctx, a.namespace)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(a.namespace)
	if err != nil {
		return "", usageError{fmt.Errorf("namespace %q: %w", a.namespace, err)}
	}
	return u.Scheme + "://" + b.ClusterServers + b.ClusterScope, nil
}

// withCluster runs fn on the metadata of a cluster of bookies.
func (a *app) withCluster(ctx context.Context, flag string, fn func(context.Context, *layout.Cluster) error) error {
	uri, err := a.clusterURI(ctx, flag)
	if err != nil {
		return err
	}
	u, err := dial.ParseURI(uri)
	if err != nil {
		return err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	store, scope, err := dial.Open(ctx, uri, dial.Options{Logger: a.log})
	if err != nil {
		return err
	}
	cluster, err := layout.OpenKind(ctx, store, scope, layout.Kind(u.Layout))
	if err != nil {
		return closing(fmt.Errorf("cluster %s: %w", uri, err), store.Close)
	}
	return closing(fn(ctx, cluster), store.Close)
}

// withLedgers runs fn on a ledger client.
func (a *app) withLedgers(ctx context.Context, flag string, fn func(context.Context, *ledger.Client) error) error {
	uri, err := a.clusterURI(ctx, flag)
	if err != nil {
		return err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	c, err := ledger.Connect(ctx, uri, a.ledgerOptions)
	if err != nil {
		return err
	}
	return closing(fn(ctx, c), c.Close)
}

func (a *app) ledgerOptions(o *ledger.Options) { o.Logger, o.Placement = a.log, a.client }

// group makes a command that only holds others.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return usageError{fmt.Errorf("%s needs a command; see `%s --help`", c.CommandPath(), c.CommandPath())}
	}}
	c.AddCommand(subs...)
	return c
}
