package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/daemon"
)

// TestBadInput: each fault has its exit code, and one line that names what,
// where and what to do.
func TestBadInput(t *testing.T) {
	name := newStream(t)
	must(t, "a\nb\n", "append", name)
	long := strings.Repeat("n", 4096)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"tail nosuch", exitNotFound, "nosuch"},
		{"append nosuch", exitNotFound, "stream create"},
		{"append nosuch --via proxy", exitNotFound, "nosuch"},
		{"replay nosuch", exitNotFound, "nosuch"},
		{"count nosuch", exitNotFound, "nosuch"},
		{"stream show nosuch", exitNotFound, "nosuch"},
		{"stream rm nosuch", exitNotFound, "nosuch"},
		{"stream seal nosuch", exitNotFound, "nosuch"},
		{"stream truncate nosuch --to first", exitNotFound, "nosuch"},
		{"stream create " + name, exitConflict, "exists"},
		{"stream create .", exitUsage, "name"},
		{"stream create ..", exitUsage, "name"},
		{"stream create a/../b", exitUsage, ".."},
		{"stream create a//b", exitUsage, "empty component"},
		{"stream create a/", exitUsage, "slash"},
		{"stream create " + long, exitUsage, "1024"},
		{"stream create x --ensemble 2", exitUsage, "write"},
		{"stream create x --ensemble 5 --write-quorum 3", exitUnavailable, "bookie"},
		{"stream create x --compression zip", exitUsage, "lz4"},
		{"replay " + name + " --from 1:2", exitUsage, "--from"},
		{"replay " + name + " --from yesterday", exitUsage, "txid:N"},
		{"replay " + name + " --from 9:0:0 --to 1:0:0", exitUsage, "after"},
		{"count " + name + " --from 9:0:0 --to 1:0:0", exitUsage, "after"},
		{"append " + name + " --via pigeon", exitUsage, "pigeon"},
		{"ledger show x", exitUsage, "number"},
		{"ledger show 12345", exitNotFound, "12345"},
		{"ledger read 12345", exitNotFound, "12345"},
		{"frobnicate", exitUsage, "frobnicate"},
		{"init", exitUsage, "metadata"},
		{"server bookie", exitUsage, "journal"},
		{"namespace create " + dev.NamespaceURI() + "2 --metadata " + dev.NamespaceURI() + "/none", exitNotFound, "loglode init"},
		{"stream create x --ensemble 0", exitUsage, "--ensemble 0"},
		{"stream create x --ack-quorum 0", exitUsage, "--ack-quorum 0"},
		{"stream", exitUsage, "--help"},
		{"stream create", exitUsage, "arg"},
		{"tail " + name + " --nope", exitUsage, "nope"},
		{"version -o xml", exitUsage, "xml"},
		{"namespace show etcd://127.0.0.1:1/x --timeout 1s", exitUnavailable, "127.0.0.1:1"},
		{"stream ls --namespace gopher://x/y", exitUsage, "gopher"},
		{"bench ledger --rate -1", exitUsage, "-1"},
		{"dev --bookies 0", exitUsage, "0 bookies"},
		{"dev --port-base 70000", exitUsage, "70000"},
		{"server etcd --data x --listen foo:1", exitUsage, "foo:1"},
	} {
		begin := time.Now()
		r := run(t, "", strings.Fields(c.args)...)
		require.Equal(t, c.code, r.code, "loglode %s: %s", c.args, r.err)
		require.Contains(t, r.err, c.says, "loglode %s", c.args)
		require.Equal(t, 1, strings.Count(r.err, "\n"), "loglode %s: one line: %s", c.args, r.err)
		require.Empty(t, r.out)
		require.Less(t, time.Since(begin), 20*time.Second)
	}
	r := run(t, "", "stream", "create", "nul\x00")
	require.Equal(t, exitUsage, r.code)
	r = run(t, "", "stream", "create", "")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "empty")
}

func TestStreamCommands(t *testing.T) {
	name := newStream(t)
	must(t, "a\nb\nc\n", "append", name)
	require.Contains(t, must(t, "", "stream", "ls"), name+"\n")
	acks := strings.Fields(must(t, "d\ne\n", "append", name, "--ack"))
	require.Len(t, acks, 2)
	require.Equal(t, "d\ne\n", must(t, "", "replay", name, "--from", acks[0]))
	require.Equal(t, "a\nb\nc\n", must(t, "", "replay", name, "--to", acks[0]))
	require.Equal(t, "a\nb\nc\nd\n", must(t, "", "replay", name, "--to", "after:"+acks[0]))
	require.Equal(t, "e\n", must(t, "", "replay", name, "--from", "last"))
	require.Empty(t, must(t, "", "replay", name, "--from", "now"))

	must(t, "", "stream", "truncate", name, "--to", acks[0])
	require.Equal(t, "d\ne\n", must(t, "", "replay", name))
	r := run(t, "", "replay", name, "--from", "1:0:0")
	require.Equal(t, exitNotFound, r.code, r.err)
	require.Contains(t, r.err, acks[0], "the first DLSN that is left")

	var rows []map[string]any
	require.NoError(t, json.Unmarshal([]byte(must(t, "", "stream", "show", name, "-o", "json")), &rows))
	require.NotEmpty(t, rows)
	must(t, "", "stream", "rm", name)
	require.Equal(t, exitNotFound, run(t, "", "tail", name).code)
}

func TestReplayByTime(t *testing.T) {
	name := newStream(t)
	must(t, "a\nb\n", "append", name)
	<-time.After(3 * time.Millisecond) // txids are milliseconds
	middle := time.Now()
	<-time.After(3 * time.Millisecond)
	must(t, "c\n", "append", name)
	at := middle.Format(time.RFC3339Nano)
	require.Equal(t, "c\n", must(t, "", "replay", name, "--from", at))
	require.Equal(t, "a\nb\n", must(t, "", "replay", name, "--to", at))
	require.Equal(t, "a\nb\nc\n", must(t, "", "replay", name, "--from", "-1h"))
	require.Equal(t, "1\n", must(t, "", "count", name, "--from", at))
}

func TestLedgerAndBookieCommands(t *testing.T) {
	name := newStream(t)
	must(t, "payload-of-entry\n", "append", name)
	var rows []struct{ Ledger json.Number }
	require.NoError(t, json.Unmarshal([]byte(must(t, "", "stream", "show", name, "-o", "json")), &rows))
	id := rows[0].Ledger.String()
	require.Contains(t, must(t, "", "ledger", "ls"), id)
	require.Contains(t, must(t, "", "ledger", "show", id), "3/3/2")
	require.Contains(t, must(t, "", "ledger", "read", id), "payload-of-entry")
	require.Equal(t, 3, strings.Count(must(t, "", "bookie", "ls", "-o", "jsonl"), `"mode":"writable"`))
}

func TestNamespaceCommands(t *testing.T) {
	base := strings.TrimSuffix(dev.NamespaceURI(), "/loglode/default")
	suffix := unique()
	uri, cluster := base+"/other"+suffix+"/ns", base+"/bk2"+suffix
	require.NotEmpty(t, must(t, "", "init", "--metadata", cluster))
	r := run(t, "", "init", "--metadata", cluster)
	require.Equal(t, exitConflict, r.code, r.err)
	require.Contains(t, r.err, "join it as it is")
	r = run(t, "", "init", "--metadata", base+"/loglode/default")
	require.Equal(t, exitConflict, r.code, r.err)
	require.Contains(t, r.err, "holds no cluster")
	require.Equal(t, exitUsage, run(t, "", "init", "--metadata", "zk+ms://h/ledgers").code)
	require.Equal(t, exitNotFound, run(t, "", "namespace", "create", uri, "--metadata", base+"/nocluster").code)
	must(t, "", "namespace", "create", uri, "--metadata", cluster)
	require.Equal(t, exitConflict, run(t, "", "namespace", "create", uri, "--metadata", cluster).code)
	require.Contains(t, must(t, "", "namespace", "show", uri), "/bk2")
	require.Contains(t, must(t, "", "namespace", "ls", base+"/other"+suffix), uri)
	r = run(t, "", "stream", "create", "x", "--namespace", uri)
	require.Equal(t, exitUnavailable, r.code, "no bookies there: %s", r.err)
	must(t, "", "namespace", "rm", uri)
	require.Equal(t, exitNotFound, run(t, "", "stream", "ls", "--namespace", uri).code)
}

// TestStartFaults: a server that cannot start says why.
func TestStartFaults(t *testing.T) {
	base := strings.TrimSuffix(dev.NamespaceURI(), "/loglode/default")
	dir := t.TempDir()
	inUse := strings.TrimPrefix(base, "etcd://")
	r := run(t, "", "server", "bookie", "--metadata", base+"/bk", "--listen", inUse, "--journal", dir+"/j", "--ledgers", dir+"/l")
	require.Equal(t, exitConflict, r.code, r.err)
	require.Contains(t, r.err, inUse)
	r = run(t, "", "server", "bookie", "--metadata", base+"/nocluster", "--listen", freeAddr(t), "--journal", dir+"/j", "--ledgers", dir+"/l")
	require.Equal(t, exitNotFound, r.code, r.err)
	require.Contains(t, r.err, "loglode init")
	r = run(t, "", "server", "bookie", "--metadata", base+"/bk", "--listen", "nowhere", "--journal", dir+"/j", "--ledgers", dir+"/l")
	require.Equal(t, exitUsage, r.code, r.err)
	r = run(t, "", "server", "bookie", "--metadata", base+"/bk", "--listen", freeAddr(t), "--id", "b1", "--journal", dir+"/j", "--ledgers", dir+"/l")
	require.Equal(t, exitUsage, r.code, r.err)
	require.Contains(t, r.err, "host:port")
	r = run(t, "", "server", "bookie", "--metadata", base+"/bk", "--listen", "0.0.0.0:0", "--journal", dir+"/j", "--ledgers", dir+"/l")
	require.Equal(t, exitUsage, r.code, r.err)
	r = run(t, "", "server", "proxy", "--listen", inUse)
	require.Equal(t, exitConflict, r.code, r.err)

	// Directories of one cluster, started in another.
	other := base + "/bk3" + unique()
	must(t, "", "init", "--metadata", other)
	addr := freeAddr(t)
	b, err := daemon.StartBookie(t.Context(), daemon.BookieOptions{
		MetadataURI: other, Listen: addr, JournalDirs: []string{dir + "/j3"}, LedgerDirs: []string{dir + "/l3"},
	})
	require.NoError(t, err)
	require.NoError(t, b.Close(t.Context()))
	r = run(t, "", "server", "bookie", "--metadata", base+"/bk", "--listen", addr, "--journal", dir+"/j3", "--ledgers", dir+"/l3")
	require.Equal(t, exitConflict, r.code, r.err)
	require.Contains(t, r.err, "cookie")
}

func freeAddr(t *testing.T) string {
	t.Helper()
	port, err := freePort()
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func TestConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "loglode.yaml")
	require.NoError(t, os.WriteFile(file, []byte("output: jsonl\ntimeout: 7s\n"), 0o644))
	require.Equal(t, `{"version":"`+Version+`"}`+"\n", must(t, "", "version", "--config", file))
	t.Setenv("LOGLODE_OUTPUT", "json")
	require.True(t, strings.HasPrefix(must(t, "", "version", "--config", file), "["), "environment over file")
	require.True(t, strings.HasPrefix(must(t, "", "version", "--config", file, "-o", "table"), "VERSION"), "flag over environment")
	t.Setenv("LOGLODE_TIMEOUT", "soon")
	r := run(t, "", "version")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "LOGLODE_TIMEOUT")
	require.Equal(t, exitUsage, run(t, "", "version", "--config", file+".none").code)
	t.Setenv("LOGLODE_TIMEOUT", "7s")
	require.NoError(t, os.WriteFile(file, []byte("journal: [/a, /b]\ntimeuot: 7s\n"), 0o644))
	r = run(t, "", "version", "--config", file)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, `"timeuot"`, "a key of another command is fine, a misspelt one is not")
}

func TestCompletionAndHelp(t *testing.T) {
	require.Contains(t, must(t, "", "completion", "bash"), "loglode")
	require.Contains(t, must(t, "", "--help"), "loglode dev")
	require.Contains(t, must(t, "", "append", "--help"), "--ack")
}

func TestBenchCommands(t *testing.T) {
	for _, args := range [][]string{
		{"bench", "ledger", "--duration", "200ms", "--warmup", "50ms", "--ledgers", "3"},
		{"bench", "read", "--entries", "2000", "--passes", "1"},
		{"bench", "append", "--duration", "200ms", "--warmup", "50ms"},
		{"bench", "append", "--duration", "200ms", "--warmup", "50ms", "--via", "proxy"},
		{"bench", "tail", "--duration", "500ms", "--warmup", "100ms", "--rate", "200"},
	} {
		var res map[string]any
		out := must(t, "", append(args, "-o", "json")...)
		require.NoError(t, json.Unmarshal([]byte(out), &res), out)
		require.Positive(t, res["Done"])
	}
}
