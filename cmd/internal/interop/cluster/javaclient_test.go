//go:build interop

package cluster

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
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// jvm is a process with Apache's clients under remote control, one request at a
// time; see ../java/Driver.java.
type jvm struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	last int
}

// driver is the one that all tests share, nil until the first needs it.
var driver *jvm

func startJVM(ctx context.Context) (*jvm, error) {
	classpath, err := java.Compile(ctx, filepath.Join("..", "java"))
	if err != nil {
		return nil, err
	}
	args, err := java.Args(dir, "256m", classpath, "Driver")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "client.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	d := &jvm{cmd: exec.Command("java", args...)}
	d.cmd.Stderr = log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.out = bufio.NewReader(out)
	return d, d.cmd.Start()
}

// stop ends the process, which ends with its stdin.
func (d *jvm) stop() error { return errors.Join(d.in.Close(), d.cmd.Wait()) }

// javaClient is one of Apache's clients.
type javaClient struct {
	t      *testing.T
	client int64
}

// startJava starts a client of the cluster at uri, which ends with the test.
func startJava(t *testing.T, uri string) *javaClient {
	t.Helper()
	if driver == nil {
		var err error
		driver, err = startJVM(context.WithoutCancel(t.Context()))
		require.NoError(t, err)
	}
	j := &javaClient{t: t}
	require.NoError(t, j.call("client", map[string]any{"uri": uri}, &j.client))
	t.Cleanup(func() { require.NoError(t, j.call("closeClient", nil, nil)) })
	return j
}

// call runs one command; into may be nil.
func (j *javaClient) call(op string, args map[string]any, into any) error {
	j.t.Helper()
	driver.last++
	request := map[string]any{"id": driver.last, "op": op, "client": j.client}
	for k, v := range args {
		request[k] = v
	}
	line, err := json.Marshal(request)
	require.NoError(j.t, err)
	_, err = driver.in.Write(append(line, '\n'))
	require.NoError(j.t, err)
	line, err = driver.out.ReadBytes('\n')
	require.NoError(j.t, err)
	var answer struct {
		ID     int
		Result json.RawMessage
		Error  string
	}
	require.NoError(j.t, json.Unmarshal(line, &answer))
	require.Equal(j.t, driver.last, answer.ID)
	if answer.Error != "" {
		return fmt.Errorf("%s: %s", op, answer.Error)
	}
	if into != nil {
		require.NoError(j.t, json.Unmarshal(answer.Result, into))
	}
	return nil
}

// create makes a ledger of one bookie with this many entries, and closes it.
func (j *javaClient) create(entries int, custom map[string]string) bk.LedgerID {
	j.t.Helper()
	var made struct {
		Ledger bk.LedgerID
		Handle int64
	}
	require.NoError(j.t, j.call("create", map[string]any{
		"ensemble": 1, "write": 1, "ack": 1, "digest": "CRC32C", "password": "pw", "custom": custom,
	}, &made))
	sizes := make([]int, entries)
	for i := range sizes {
		sizes[i] = 10
	}
	require.NoError(j.t, j.call("append", map[string]any{"handle": made.Handle, "seed": 1, "index": 0, "sizes": sizes}, nil))
	require.NoError(j.t, j.call("close", map[string]any{"handle": made.Handle}, nil))
	return made.Ledger
}

// javaMetadata is what Apache's client makes of a ledger's metadata.
type javaMetadata struct {
	Format, Ensemble, Write, Ack int
	State                        string
	Last                         bk.EntryID
	Length                       int64
	Digest, Password             string
	Custom                       map[string]string
	Segments                     []struct {
		First   bk.EntryID
		Bookies []bk.BookieID
	}
}

func (j *javaClient) metadata(id bk.LedgerID) (m javaMetadata) {
	j.t.Helper()
	require.NoError(j.t, j.call("metadata", map[string]any{"ledger": id}, &m))
	return m
}

func (j *javaClient) ledgers() (ids []bk.LedgerID) {
	j.t.Helper()
	require.NoError(j.t, j.call("ledgers", nil, &ids))
	return ids
}

func (j *javaClient) delete(id bk.LedgerID) error {
	j.t.Helper()
	return j.call("delete", map[string]any{"ledger": id}, nil)
}
