package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one server process. It can be killed and started again on its
// data.
type process struct {
	name   string
	binary string
	args   []string
	log    string // file its stderr goes to

	mu   sync.Mutex // guards what follows
	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has ended
}

// start runs the process and waits for its line "ready".
func (p *process) start(ctx context.Context) error {
	logFile, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.binary, p.args...)
	cmd.Stderr = logFile
	// A server must not outlive the demo, however that ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return errors.Join(err, logFile.Close())
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, logFile.Close())
	}
	ready, gone := make(chan struct{}), make(chan struct{})
	go func() {
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			if sc.Text() == "ready" {
				close(ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		_ = logFile.Close()
		close(gone)
	}()
	p.mu.Lock()
	p.cmd, p.gone = cmd, gone
	p.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-gone:
		return fmt.Errorf("%s ended before it was ready: %s", p.name, p.lastLog())
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%s was not ready within 30 s: %s", p.name, p.lastLog())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *process) lastLog() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

func (p *process) signal(s os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // it may be gone already
	}
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.gone
}

// stop asks the process to drain, and kills it if it takes too long.
func (p *process) stop() {
	p.mu.Lock()
	gone := p.gone
	p.mu.Unlock()
	if gone == nil {
		return
	}
	p.signal(syscall.SIGTERM)
	select {
	case <-gone:
	case <-time.After(15 * time.Second):
		p.kill()
	}
}

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// cluster is the whole system: metadata, bookies and proxies.
type cluster struct {
	binary    string
	dir       string
	namespace string
	etcd      *process
	bookies   []*process
	proxies   []*process
	proxyAddr []string
}

// startCluster brings everything up on free loopback ports.
func startCluster(ctx context.Context, binary, dir string) (*cluster, error) {
	ports, err := freePorts(6)
	if err != nil {
		return nil, err
	}
	c := &cluster{binary: binary, dir: dir}
	addr := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	meta := "etcd://" + addr(0) + "/bk"
	c.namespace = "etcd://" + addr(0) + "/streams/demo"
	c.etcd = c.server("etcd", "server", "etcd", "--data", filepath.Join(dir, "etcd"), "--listen", addr(0))
	for i := 1; i <= 3; i++ {
		base := filepath.Join(dir, fmt.Sprintf("bookie%d", i))
		c.bookies = append(c.bookies, c.server(fmt.Sprintf("bookie%d", i), "server", "bookie", "--metadata", meta,
			"--listen", addr(i), "--journal", filepath.Join(base, "journal"), "--ledgers", filepath.Join(base, "ledgers")))
	}
	for i := 4; i <= 5; i++ {
		c.proxyAddr = append(c.proxyAddr, addr(i))
		c.proxies = append(c.proxies, c.server(fmt.Sprintf("proxy%d", i-3), "server", "proxy", "--namespace", c.namespace, "--listen", addr(i)))
	}
	if err := c.etcd.start(ctx); err != nil {
		return c, err
	}
	if err := c.client(ctx, "init", "--metadata", meta); err != nil {
		return c, err
	}
	for _, b := range c.bookies {
		if err := b.start(ctx); err != nil {
			return c, err
		}
	}
	if err := c.client(ctx, "namespace", "create", c.namespace, "--metadata", meta); err != nil {
		return c, err
	}
	for _, p := range c.proxies {
		if err := p.start(ctx); err != nil {
			return c, err
		}
	}
	if err := c.client(ctx, "stream", "create", streamName, "--ensemble", "3", "--write-quorum", "3", "--ack-quorum", "2"); err != nil {
		return c, err
	}
	say("up: etcd, 3 bookies, 2 write proxies, each its own process; E=3 Qw=3 Qa=2")
	return c, nil
}

func (c *cluster) server(name string, args ...string) *process {
	return &process{name: name, binary: c.binary, args: args, log: filepath.Join(c.dir, name+".log")}
}

// command is a client command on the demo's namespace.
func (c *cluster) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Env = append(os.Environ(), "LOGLODE_NAMESPACE="+c.namespace)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (c *cluster) client(ctx context.Context, args ...string) error {
	out, err := c.command(ctx, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("loglode %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (c *cluster) stopAll() {
	for _, group := range [][]*process{c.proxies, c.bookies, {c.etcd}} {
		var wg sync.WaitGroup
		for _, p := range group {
			wg.Go(p.stop)
		}
		wg.Wait()
	}
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
