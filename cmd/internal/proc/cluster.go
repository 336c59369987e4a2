package proc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Cluster is the whole system: metadata, bookies and proxies.
type Cluster struct {
	Binary    string
	Dir       string // data and logs
	Namespace string // URI of its namespace of streams
	Metadata  string // URI of its cluster of bookies
	Etcd      *Process
	Bookies   []*Process
	Proxies   []*Process
	ProxyAddr []string // host:port of each proxy
}

// Options say what a Cluster is made of.
type Options struct {
	Binary  string // the loglode binary
	Dir     string // data and logs
	Bookies int
	Proxies int

	// JournalDirs and LedgerDirs are how many directories each bookie has of
	// these. Default 1.
	JournalDirs, LedgerDirs int
	// BookieLease is how long a restarted bookie may have to wait for the lease
	// of the process before. Default 5 s, that of the command.
	BookieLease time.Duration
	// BookieDir gives the directory of bookie i. Default: in Dir.
	BookieDir func(i int) string
}

func (o Options) bookieDirs(i int) []string {
	base := filepath.Join(o.Dir, fmt.Sprintf("bookie%d", i+1))
	if o.BookieDir != nil {
		base = o.BookieDir(i)
	}
	var args []string
	for _, kind := range []struct {
		name string
		n    int
	}{{"journal", o.JournalDirs}, {"ledgers", o.LedgerDirs}} {
		args = append(args, "--"+kind.name, filepath.Join(base, kind.name))
		for n := 2; n <= kind.n; n++ {
			args = append(args, "--"+kind.name, filepath.Join(base, fmt.Sprint(kind.name, n)))
		}
	}
	return args
}

// StartCluster brings everything up on free loopback ports: etcd, the bookies,
// a namespace bound to them, the proxies. What was started is in the Cluster
// also when it fails.
func StartCluster(ctx context.Context, o Options) (*Cluster, error) {
	ports, err := FreePorts(1 + o.Bookies + o.Proxies)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Binary: o.Binary, Dir: o.Dir}
	c.plan(o, ports)
	if err := c.Etcd.Start(ctx); err != nil {
		return c, err
	}
	if err := c.Client(ctx, "init", "--metadata", c.Metadata); err != nil {
		return c, err
	}
	if err := startAll(ctx, c.Bookies); err != nil {
		return c, err
	}
	if err := c.Client(ctx, "namespace", "create", c.Namespace, "--metadata", c.Metadata); err != nil {
		return c, err
	}
	return c, startAll(ctx, c.Proxies)
}

// Dev is the process of `loglode dev` with its data in dir, not started yet, as
// a Cluster for clients.
func Dev(binary, dir string) (*Cluster, *Process, error) {
	for range 100 {
		ports, err := FreePorts(1)
		if err != nil {
			return nil, nil, err
		}
		// It takes the ports that follow too; most bases are good.
		if !allFree(ports[0]+1, ports[0]+2, ports[0]+3, ports[0]+4, ports[0]+50) {
			continue
		}
		c := &Cluster{Binary: binary, Dir: dir, Namespace: fmt.Sprintf("etcd://127.0.0.1:%d/loglode/default", ports[0])}
		return c, c.server("dev", "dev", "--data", filepath.Join(dir, "dev"), "--port-base", fmt.Sprint(ports[0])), nil
	}
	return nil, nil, errors.New("no free row of ports")
}

func allFree(ports ...int) bool {
	for _, p := range ports {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			return false
		}
		defer l.Close()
	}
	return true
}

// plan names all processes, without starting them.
func (c *Cluster) plan(o Options, ports []int) {
	next := 0
	addr := func() string { next++; return fmt.Sprintf("127.0.0.1:%d", ports[next-1]) }
	etcd := addr()
	c.Metadata = "etcd://" + etcd + "/bk"
	c.Namespace = "etcd://" + etcd + "/streams/main"
	c.Etcd = c.server("etcd", "server", "etcd", "--data", filepath.Join(o.Dir, "etcd"), "--listen", etcd)
	for i := range o.Bookies {
		args := append([]string{"server", "bookie", "--metadata", c.Metadata, "--listen", addr()}, o.bookieDirs(i)...)
		if o.BookieLease > 0 {
			args = append(args, "--lease", o.BookieLease.String())
		}
		c.Bookies = append(c.Bookies, c.server(fmt.Sprintf("bookie%d", i+1), args...))
	}
	for i := range o.Proxies {
		c.ProxyAddr = append(c.ProxyAddr, addr())
		c.Proxies = append(c.Proxies, c.server(fmt.Sprintf("proxy%d", i+1), "server", "proxy", "--namespace", c.Namespace, "--listen", c.ProxyAddr[i]))
	}
}

func startAll(ctx context.Context, ps []*Process) error {
	errs := make([]error, len(ps))
	var wg sync.WaitGroup
	for i, p := range ps {
		wg.Go(func() { errs[i] = p.Start(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) server(name string, args ...string) *Process {
	return New(name, filepath.Join(c.Dir, name+".log"), c.Binary, args...)
}

// Command is a client command on the cluster's namespace.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Binary, args...)
	cmd.Env = append(os.Environ(), "LOGLODE_NAMESPACE="+c.Namespace)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Client runs a client command to its end.
func (c *Cluster) Client(ctx context.Context, args ...string) error {
	out, err := c.Command(ctx, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("loglode %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// All are the server processes in the order in which they start: each needs
// only those before it.
func (c *Cluster) All() []*Process {
	return slices.Concat([]*Process{c.Etcd}, c.Bookies, c.Proxies)
}

// KillAll ends every server by SIGKILL, all at once.
func (c *Cluster) KillAll() {
	all := c.All()
	for _, p := range all {
		p.Signal(syscall.SIGKILL)
	}
	for _, p := range all {
		p.Kill()
	}
}

// StartAll starts every server again after KillAll.
func (c *Cluster) StartAll(ctx context.Context) error {
	if err := c.Etcd.Start(ctx); err != nil {
		return err
	}
	return errors.Join(startAll(ctx, c.Bookies), startAll(ctx, c.Proxies))
}

// StopAll drains and ends everything, from the proxies down.
func (c *Cluster) StopAll() {
	for _, group := range [][]*Process{c.Proxies, c.Bookies, {c.Etcd}} {
		var wg sync.WaitGroup
		for _, p := range group {
			wg.Go(p.Stop)
		}
		wg.Wait()
	}
}

// ProxyAt is the proxy that serves at addr, nil if none does.
func (c *Cluster) ProxyAt(addr string) *Process {
	for i, a := range c.ProxyAddr {
		if a == addr {
			return c.Proxies[i]
		}
	}
	return nil
}

// FreePorts finds n ports that nobody listens on now. They are below those that
// the system gives to outgoing connections: such a one would hold the port of a
// server that is down for a moment.
func FreePorts(n int) ([]int, error) {
	const low, high = 12_000, 32_000
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		port := low + rand.IntN(high-low)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			if tries > 1000 {
				return nil, fmt.Errorf("find %d free ports: %w", n, err)
			}
			continue
		}
		defer l.Close()
		ports = append(ports, port)
	}
	return ports, nil
}
