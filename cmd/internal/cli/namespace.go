package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/namespace"
)

func (a *app) initCommand() *cobra.Command {
	var uri string
	cmd := &cobra.Command{
		Use: "init --metadata URI", Short: "Make a new cluster of bookies", Args: cobra.NoArgs,
		Long: `Make a new, empty cluster of bookies in a metadata store: etcd://host:port/path,
or zk://host:port/path to share it with Java's clients and bookies. A zk URI may
name the layout of its tree: zk+hierarchical:// (the default),
zk+longhierarchical://, zk+legacyhierarchical:// or zk+flat://. An existing
cluster is refused and left as it is: bookies and clients just join it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := dial.ParseURI(uri)
			if err != nil {
				return err
			}
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			store, scope, err := dial.Open(ctx, uri, dial.Options{Logger: a.log})
			if err != nil {
				return err
			}
			return closing(a.initCluster(ctx, store, u.WithPath(scope)), store.Close)
		},
	}
	metadataFlag(cmd, &uri)
	mustRequire(cmd, "metadata")
	return cmd
}

func (a *app) initCluster(ctx context.Context, store metadata.Store, u dial.URI) error {
	kind := layout.Kind(u.Layout)
	if kind == layout.AnyKind && u.Scheme == dial.SchemeZooKeeper {
		kind = layout.Hierarchical
	}
	id, err := layout.InitKind(ctx, store, u.Path, kind)
	if errors.Is(err, metadata.ErrExists) {
		there, openErr := layout.Open(ctx, store, u.Path)
		if openErr != nil {
			return fmt.Errorf("%s is in use, but holds no cluster of bookies (%w): choose another path: %w", u, openErr, err)
		}
		return fmt.Errorf("%s holds a cluster already, instance %s, layout %s; bookies and clients join it as it is: %w",
			u, there.InstanceID(), there.Kind(), err)
	}
	if err != nil {
		return err
	}
	there, err := layout.Open(ctx, store, u.Path)
	if err != nil {
		return err
	}
	return a.print(table{Columns: []string{"cluster", "instance", "layout"}, Rows: [][]any{{u.String(), id, string(there.Kind())}}})
}

func metadataFlag(cmd *cobra.Command, uri *string) {
	cmd.Flags().StringVar(uri, "metadata", "", "cluster of bookies: `URI` as etcd://host:port/path or zk://host:port/path (default: the one the namespace is bound to)")
}

func (a *app) namespaceCommand() *cobra.Command {
	return group("namespace", "Create, show, list and remove namespaces of streams",
		a.namespaceCreateCommand(), a.namespaceShowCommand(), a.namespaceListCommand(), a.namespaceRemoveCommand())
}

func (a *app) namespaceCreateCommand() *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use: "create URI --metadata URI", Short: "Make a namespace of streams bound to a cluster of bookies", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			return namespace.CreateNamespace(ctx, args[0], cluster, namespace.WithLogger(a.log))
		},
	}
	metadataFlag(cmd, &cluster)
	mustRequire(cmd, "metadata")
	return cmd
}

// orDefaultNamespace gives the URI argument, or --namespace.
func (a *app) orDefaultNamespace(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return a.namespace
}

func (a *app) namespaceShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show [URI]", Short: "Show what a namespace is bound to", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			uri := a.orDefaultNamespace(args)
			b, err := namespace.Show(ctx, uri)
			if err != nil {
				return err
			}
			return a.print(table{
				Columns: []string{"namespace", "cluster_servers", "cluster_scope", "first_segment"},
				Rows:    [][]any{{uri, b.ClusterServers, b.ClusterScope, b.First()}},
			})
		},
	}
}

func (a *app) namespaceListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls [URI]", Short: "List the namespaces at and below a URI", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			t := table{Columns: []string{"namespace"}}
			for uri, err := range namespace.ListNamespaces(ctx, a.orDefaultNamespace(args)) {
				if err != nil {
					return err
				}
				t.Rows = append(t.Rows, []any{uri})
			}
			return a.print(t)
		},
	}
}

func (a *app) namespaceRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm URI", Short: "Remove an empty namespace", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(context.WithoutCancel(cmd.Context()))
			defer cancel()
			return namespace.RemoveNamespace(ctx, args[0])
		},
	}
}
