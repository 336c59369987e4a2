package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
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
}

// StartCluster brings everything up on free loopback ports: etcd, the bookies,
// a namespace bound to them, the proxies. What was started is in the Cluster
// also when it fails.
func StartCluster(ctx context.Context, o Options) (*Cluster, error) {
	ports, err := freePorts(1 + o.Bookies + o.Proxies)
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

// plan names all processes, without starting them.
func (c *Cluster) plan(o Options, ports []int) {
	next := 0
	addr := func() string { next++; return fmt.Sprintf("127.0.0.1:%d", ports[next-1]) }
	etcd := addr()
	c.Metadata = "etcd://" + etcd + "/bk"
	c.Namespace = "etcd://" + etcd + "/streams/main"
	c.Etcd = c.server("etcd", "server", "etcd", "--data", filepath.Join(o.Dir, "etcd"), "--listen", etcd)
	for i := range o.Bookies {
		base := filepath.Join(o.Dir, fmt.Sprintf("bookie%d", i+1))
		c.Bookies = append(c.Bookies, c.server(fmt.Sprintf("bookie%d", i+1), "server", "bookie", "--metadata", c.Metadata,
			"--listen", addr(), "--journal", filepath.Join(base, "journal"), "--ledgers", filepath.Join(base, "ledgers")))
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
	return &Process{Name: name, binary: c.Binary, args: args, log: filepath.Join(c.Dir, name+".log")}
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

// freePorts finds n ports that nobody listens on now.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
