//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/loglode/loglode/cmd/internal/javapeer"
)

// A driver is a client library under remote control: one JSON request a line,
// one JSON answer a line, many in flight. Apache's is java/Driver.java, ours is
// this test's own binary (serveDriver): the same requests, so that each test is
// written once, and either can be killed.
type driver struct {
	name string
	log  string
	cmd  *exec.Cmd
	in   io.WriteCloser
	gone chan struct{} // closed once the process has ended

	mu      sync.Mutex // guards what follows
	last    int64
	pending map[int64]chan answer
}

type answer struct {
	ID     int64           `json:"id"`
	Result json.RawMessage `json:"result"`
	Code   int             `json:"code"` // as the Java client numbers its errors
	Error  string          `json:"error"`
}

// clientError is an error that a client under control answered.
type clientError struct {
	Code int
	Text string
}

func (e *clientError) Error() string { return fmt.Sprintf("%s (code %d)", e.Text, e.Code) }

// Error codes of the Java client; the driver of ours uses them too.
const (
	codeNoSuchEntry   = -13
	codeNoSuchLedger  = -25 // the metadata have no such ledger
	codeLedgerExists  = -20
	codeFenced        = -101
	codeUnauthorized  = -102
	codeLedgerClosed  = -11
	codeReadPastLAC   = -1
	codeTooLong       = -9000 // none of Java's: its client does not look
	codeOtherFailures = 0
)

var errDriverGone = errors.New("the driver's process has ended")

// startJavaDriver starts a JVM with Apache's client.
func startJavaDriver(ctx context.Context, j *javapeer.Java, dir, name string) (*driver, error) {
	classpath, err := j.Compile(ctx, "java")
	if err != nil {
		return nil, err
	}
	args, err := j.Args(dir, "512m", classpath, "Driver")
	if err != nil {
		return nil, err
	}
	return startDriver(name, filepath.Join(dir, name+".log"), exec.Command("java", args...))
}

// startOurDriver starts a process with our client.
func startOurDriver(dir, name string) (*driver, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), driverEnv+"=1")
	return startDriver(name, filepath.Join(dir, name+".log"), cmd)
}

func startDriver(name, log string, cmd *exec.Cmd) (*driver, error) {
	logFile, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer logFile.Close() // the process has its own
	cmd.Stderr = logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d := &driver{name: name, log: log, cmd: cmd, in: in, gone: make(chan struct{}), pending: map[int64]chan answer{}}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go d.receive(out)
	return d, nil
}

func (d *driver) receive(out io.Reader) {
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			panic(fmt.Sprintf("%s answers %q: %v", d.name, line, err))
		}
		d.mu.Lock()
		c := d.pending[a.ID]
		delete(d.pending, a.ID)
		d.mu.Unlock()
		if c != nil { // nobody waits any more otherwise
			c <- a
		}
	}
	_ = d.cmd.Wait() // it was told to end, or killed
	close(d.gone)
}

// call sends a request and waits for its answer; result may be nil.
func (d *driver) call(ctx context.Context, op string, args map[string]any, result any) error {
	wait := make(chan answer, 1)
	d.mu.Lock()
	d.last++
	id := d.last
	d.pending[id] = wait
	request := map[string]any{"id": id, "op": op}
	for k, v := range args {
		request[k] = v
	}
	line, err := json.Marshal(request)
	if err == nil {
		_, err = d.in.Write(append(line, '\n'))
	}
	d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s %s: %w", d.name, op, err)
	}
	select {
	case a := <-wait:
		if a.Error != "" {
			return fmt.Errorf("%s %s: %w", d.name, op, &clientError{a.Code, a.Error})
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(a.Result, result)
	case <-d.gone:
		return fmt.Errorf("%s %s: %w; log %s", d.name, op, errDriverGone, d.log)
	case <-ctx.Done():
		return fmt.Errorf("%s %s: %w; log %s", d.name, op, context.Cause(ctx), d.log)
	}
}

// kill ends the process by SIGKILL and waits until it is gone.
func (d *driver) kill() {
	_ = d.cmd.Process.Kill() // it may be gone already
	<-d.gone
}

// stop lets the process end by itself, and kills it if it does not.
func (d *driver) stop() {
	_ = d.in.Close() // its end ends the process
	select {
	case <-d.gone:
	case <-time.After(5 * time.Second):
		d.kill()
	}
}

// code is the client's error code in err, 0 if it has none.
func code(err error) int {
	var c *clientError
	if errors.As(err, &c) {
		return c.Code
	}
	return 0
}
