//go:build interop

package cluster

import (
	"bufio"
	"encoding/json"
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

// javaClient is Apache's client under remote control, one request at a time;
// see ../java/Driver.java.
type javaClient struct {
	t      *testing.T
	in     io.WriteCloser
	out    *bufio.Reader
	last   int
	client int64
}

// startJava starts a JVM with a client of the cluster at uri.
func startJava(t *testing.T, uri string) *javaClient {
	t.Helper()
	classpath, err := java.Compile(t.Context(), filepath.Join("..", "java"))
	require.NoError(t, err)
	args, err := java.Args(dir, "256m", classpath, "Driver")
	require.NoError(t, err)
	log, err := os.CreateTemp(dir, "client-*.log")
	require.NoError(t, err)
	defer log.Close() // the process has its own
	cmd := exec.Command("java", args...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close()) // it ends with its stdin
		require.NoError(t, cmd.Wait())
	})
	j := &javaClient{t: t, in: in, out: bufio.NewReader(out)}
	require.NoError(t, j.call("client", map[string]any{"uri": uri}, &j.client))
	return j
}

// call runs one command; into may be nil.
func (j *javaClient) call(op string, args map[string]any, into any) error {
	j.t.Helper()
	j.last++
	request := map[string]any{"id": j.last, "op": op, "client": j.client}
	for k, v := range args {
		request[k] = v
	}
	line, err := json.Marshal(request)
	require.NoError(j.t, err)
	_, err = j.in.Write(append(line, '\n'))
	require.NoError(j.t, err)
	line, err = j.out.ReadBytes('\n')
	require.NoError(j.t, err)
	var answer struct {
		ID     int
		Result json.RawMessage
		Error  string
	}
	require.NoError(j.t, json.Unmarshal(line, &answer))
	require.Equal(j.t, j.last, answer.ID)
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
