package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/loglode/loglode/ledger"
)

// Version is what `loglode version` prints; the build may set it.
var Version = "0.1.0-dev"

// DefaultNamespace is the namespace that `loglode dev` serves, and that client
// commands talk to when none is given.
const DefaultNamespace = "etcd://127.0.0.1:4300/loglode/default"

// app is what the commands share: the streams, and the settings that every
// command takes.
type app struct {
	in       io.Reader
	out, err io.Writer

	namespace string
	placement string           // policy of new ledgers
	topology  string           // file with the places of bookies
	client    ledger.Placement // what the two say
	output    string
	timeout   time.Duration
	config    string
	logLevel  string
	log       *zap.Logger
	running   bool // the command line was accepted
}

// Main runs one command line and gives the exit code of the process.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{in: in, out: out, err: errOut, log: zap.NewNop()}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.running {
		err = usageError{err} // no command took it
	}
	code := exitCode(err)
	if err != nil {
		fmt.Fprintf(errOut, "loglode: %s\n", message(err))
	}
	return code
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "loglode",
		Short: "Named, durable, replicated streams",
		Long: `Loglode stores named, durable, replicated streams of records. A stream is a
sequence of segments, each segment is one ledger, and ledgers are written to
quorums of bookies with an fsync before every acknowledgement.

Start with:
  loglode dev                                  a whole system in one process
  loglode stream create greetings
  printf 'one\ntwo\n' | loglode append greetings
  loglode tail greetings --from first`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: a.prepare,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.namespace, "namespace", DefaultNamespace, "namespace `URI`, as etcd://host:port/path")
	f.StringVar(&a.placement, "placement", "", "`POLICY` for the bookies of new ledgers, as zones=2,strict; see placement explain")
	f.StringVar(&a.topology, "topology", "", "`FILE` with a line \"HOST /REGION/ZONE/RACK\" for each bookie, in place of what bookies tell")
	f.StringVarP(&a.output, "output", "o", "table", "form of results: table, json or jsonl")
	f.DurationVar(&a.timeout, "timeout", 30*time.Second, "longest wait for one metadata or bookie operation")
	f.StringVar(&a.config, "config", "", "YAML `file` with settings, one key per flag")
	f.StringVar(&a.logLevel, "log-level", "warn", "what to log on stderr: debug, info, warn or error")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		a.devCommand(), a.initCommand(), a.namespaceCommand(), a.serverCommand(),
		a.streamCommand(), a.appendCommand(), a.tailCommand(), a.replayCommand(), a.countCommand(),
		a.ledgerCommand(), a.bookieCommand(), a.placementCommand(), a.benchCommand(), a.versionCommand(),
	)
	for _, c := range root.Commands() {
		a.wrap(c)
	}
	return root
}

// wrap makes a wrong number of arguments a usage error that names the help, on c
// and below, and notes when a command begins to run.
func (a *app) wrap(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			a.running = true
			return run(cmd, args)
		}
	}
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		a.wrap(sub)
	}
}

// prepare runs in front of every command: it fills in settings that no flag
// gave and checks the shared ones.
func (a *app) prepare(cmd *cobra.Command, _ []string) error {
	if err := a.applyConfig(cmd); err != nil {
		return err
	}
	switch a.output {
	case "table", "json", "jsonl":
	default:
		return usageError{fmt.Errorf("--output %q: want table, json or jsonl", a.output)}
	}
	if a.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout %v: want more than 0", a.timeout)}
	}
	level, err := zapcore.ParseLevel(a.logLevel)
	if err != nil {
		return usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", a.logLevel)}
	}
	a.log = newLogger(a.err, level)
	a.client, err = a.clientPlacement()
	return err
}

func newLogger(w io.Writer, level zapcore.Level) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(zapcore.AddSync(w)), level))
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.print(table{Columns: []string{"version"}, Rows: [][]any{{Version}}})
		},
	}
}
