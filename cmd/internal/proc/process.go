package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one server process. It can be killed and started again on its
// data.
type Process struct {
	Name string
	// Ready asks a process that tells nothing by itself whether it serves: nil
	// when it does. It is asked again and again. Default: the process prints a
	// line "ready".
	Ready func(ctx context.Context) error
	// ReadyWithin is how long a start may take. Default 30 s.
	ReadyWithin time.Duration

	binary string
	args   []string
	log    string // file its stderr goes to

	mu   sync.Mutex // guards what follows
	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has ended
}

// New names a process, not started yet, whose stderr goes to the file log.
func New(name, log, binary string, args ...string) *Process {
	return &Process{Name: name, binary: binary, args: args, log: log}
}

// Start runs the process and waits until it is ready.
func (p *Process) Start(ctx context.Context) error {
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
			if p.Ready == nil && sc.Text() == "ready" {
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
	return p.awaitReady(ctx, ready, gone)
}

func (p *Process) awaitReady(ctx context.Context, ready, gone <-chan struct{}) error {
	within := p.ReadyWithin
	if within == 0 {
		within = 30 * time.Second
	}
	last := errors.New(`no line "ready"`)
	var ask <-chan time.Time
	if p.Ready != nil {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		ask = tick.C
	}
	limit := time.After(within)
	for {
		select {
		case <-ready:
			return nil
		case <-ask:
			if last = p.Ready(ctx); last == nil {
				return nil
			}
		case <-gone:
			return fmt.Errorf("%s ended before it was ready: %s", p.Name, p.lastLog())
		case <-limit:
			return fmt.Errorf("%s was not ready within %v: %w: %s", p.Name, within, last, p.lastLog())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *Process) lastLog() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// Signal sends a signal; a process that is gone already is left alone.
func (p *Process) Signal(s os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // it may be gone already
	}
}

// Kill ends the process with SIGKILL and waits until it is gone. One that was
// never started is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	if gone := p.ending(); gone != nil {
		<-gone
	}
}

// ending is closed when the process has ended; nil before the first start.
func (p *Process) ending() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// Stop asks the process to drain, and kills it if it takes too long.
func (p *Process) Stop() {
	gone := p.ending()
	if gone == nil {
		return
	}
	p.Signal(syscall.SIGTERM)
	select {
	case <-gone:
	case <-time.After(15 * time.Second):
		p.Kill()
	}
}

// PID is the process id of the last start.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}
