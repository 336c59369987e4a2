package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/loglode/loglode/cmd/internal/daemon"
)

// drainWait is how long a server may take to finish what is in flight once it
// was asked to end.
const drainWait = 10 * time.Second

func (a *app) serverCommand() *cobra.Command {
	return group("server", "Run one server in the foreground", a.serverEtcdCommand(), a.serverBookieCommand(), a.serverProxyCommand())
}

// server is a running server of package daemon.
type server interface {
	// Close drains within the context's time.
	Close(ctx context.Context) error
	// Done is closed when the server has ended by itself, and Err tells why.
	Done() <-chan struct{}
	Err() error
}

// serve says that a server is ready, and runs it until the context ends or it
// ends by itself.
func (a *app) serve(ctx context.Context, s server) error {
	fmt.Fprintln(a.out, "ready")
	select {
	case <-ctx.Done():
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWait)
		defer cancel()
		return s.Close(ctx)
	case <-s.Done():
		err := s.Err()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWait)
		defer cancel()
		return closing(err, func() error { return s.Close(ctx) })
	}
}

func (a *app) serverEtcdCommand() *cobra.Command {
	var o daemon.EtcdOptions
	cmd := &cobra.Command{
		Use: "etcd --data DIR --listen HOST:PORT", Short: "Run the embedded metadata server alone", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Logger = a.log
			s, err := daemon.StartEtcd(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), s)
		},
	}
	cmd.Flags().StringVar(&o.Dir, "data", "", "data `DIR`")
	cmd.Flags().StringVar(&o.ListenClient, "listen", "127.0.0.1:2379", "`HOST:PORT` for clients")
	mustRequire(cmd, "data")
	return cmd
}

func (a *app) serverBookieCommand() *cobra.Command {
	var o daemon.BookieOptions
	cmd := &cobra.Command{
		Use: "bookie --metadata URI --listen HOST:PORT --journal DIR --ledgers DIR", Short: "Run one bookie", Args: cobra.NoArgs,
		Long: `Run one bookie in the foreground. It prints "ready" once it is registered and
serving; SIGTERM drains it, and it survives kill -9. Put journal and ledgers on
separate devices in production; both flags may be repeated.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkPlace(o.Place); err != nil {
				return err
			}
			o.Logger = a.log
			s, err := daemon.StartBookie(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.MetadataURI, "metadata", "", "cluster of bookies: `URI` as etcd://host:port/path or zk://host:port/path")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:3181", "`HOST:PORT` to serve on")
	f.StringVar(&o.Advertise, "advertise", "", "`HOST:PORT` that clients reach (default: --id if it is one, else --listen)")
	f.StringVar(&o.ID, "id", "", "bookie `ID` (default: --advertise, else --listen); on etcd it must be host:port")
	f.StringArrayVar(&o.JournalDirs, "journal", nil, "journal `DIR`; may be repeated")
	f.StringArrayVar(&o.LedgerDirs, "ledgers", nil, "ledger `DIR`; may be repeated")
	f.StringVar(&o.Metrics, "metrics", "", "`HOST:PORT` for Prometheus metrics and profiles (default: none)")
	f.DurationVar(&o.LeaseTTL, "lease", 5*time.Second, "how long the registration outlives a dead bookie")
	f.DurationVar(&o.CollectInterval, "gc-interval", 15*time.Minute, "from one garbage collection of deleted ledgers to the next")
	placeFlags(f, &o.Place)
	mustRequire(cmd, "metadata")
	mustRequire(cmd, "journal")
	mustRequire(cmd, "ledgers")
	return cmd
}

func (a *app) serverProxyCommand() *cobra.Command {
	var o daemon.ProxyOptions
	cmd := &cobra.Command{
		Use: "proxy --namespace URI --listen HOST:PORT", Short: "Run one write proxy", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Logger, o.NamespaceURI, o.Placement = a.log, a.namespace, a.client
			s, err := daemon.StartProxy(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8000", "`HOST:PORT` to serve on")
	f.StringVar(&o.Advertise, "advertise", "", "`HOST:PORT` that clients reach (default: --listen)")
	f.StringVar(&o.Metrics, "metrics", "", "`HOST:PORT` for Prometheus metrics and profiles (default: none)")
	f.DurationVar(&o.LeaseTTL, "lease", time.Second, "how long the ownership of streams outlives a dead proxy")
	return cmd
}

func (a *app) devCommand() *cobra.Command {
	var o daemon.DevOptions
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a whole system in one process", Args: cobra.NoArgs,
		Long: `Run embedded etcd, bookies, a namespace and a write proxy in one process. It
prints LOGLODE_NAMESPACE=URI and then "ready"; client commands with no
--namespace talk to its default address. It restarts on its data; Ctrl-C drains.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Logger, o.Placement = a.log, a.client
			s, err := daemon.StartDev(cmd.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "LOGLODE_NAMESPACE=%s\n", s.NamespaceURI())
			a.hintWhatNext(s.NamespaceURI())
			return a.serve(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "data", "./loglode-data", "data `DIR`")
	f.IntVar(&o.Bookies, "bookies", 3, "number of bookies")
	f.IntVar(&o.Zones, "zones", 0, "number of zones that the bookies tell to be in (0 = they tell none)")
	f.IntVar(&o.PortBase, "port-base", 4300, "first `PORT`: etcd; then one for each bookie, then the proxy")
	return cmd
}

// hintWhatNext tells a person at a terminal what to type.
func (a *app) hintWhatNext(uri string) {
	if !isTerminal(a.out) {
		return
	}
	env := ""
	if uri != DefaultNamespace {
		env = "export LOGLODE_NAMESPACE=" + uri + "\n  "
	}
	fmt.Fprintf(a.err, `In another terminal:
  %sloglode stream create greetings
  printf 'hello\nworld\n' | loglode append greetings --ack
  loglode tail greetings --from first
`, env)
}
