//go:build interop

package zookeeper

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/proc"
)

// system is the whole of Loglode as processes, on ZooKeeper.
type system struct {
	t                          *testing.T
	dir, binary, cluster, name string
	proxies                    []*proc.Process
}

// binary is built once, where TestMain cleans up.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(dir, "loglode")
	out, err := exec.Command("go", "build", "-o", path, "../../../loglode").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func startSystem(t *testing.T) *system {
	t.Helper()
	newServer(t)
	s := &system{
		t: t, dir: t.TempDir(), cluster: "zk+hierarchical://" + zk.Addr + ";" + zk.Addr + "/bookkeeper/ledgers",
		name: "zk://" + zk.Addr + "/messaging/streams",
	}
	var err error
	s.binary, err = binary()
	require.NoError(t, err)
	s.run("", "init", "--metadata", s.cluster)
	ports, err := proc.FreePorts(5)
	require.NoError(t, err)
	for i, port := range ports {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		if i == 3 {
			s.run("", "namespace", "create", s.name, "--metadata", s.cluster)
		}
		if i >= 3 {
			s.proxies = append(s.proxies, s.start("proxy", addr, "--namespace", s.name))
			continue
		}
		name := filepath.Join(s.dir, fmt.Sprintf("bookie%d", i))
		s.start("bookie", addr, "--metadata", s.cluster, "--journal", name+"/journal", "--ledgers", name+"/ledgers", "--lease", "2s")
	}
	return s
}

func (s *system) start(kind, addr string, args ...string) *proc.Process {
	s.t.Helper()
	args = append([]string{"server", kind, "--listen", addr}, args...)
	p := proc.New(kind, filepath.Join(s.dir, "log"), s.binary, args...)
	s.t.Cleanup(p.Kill)
	require.NoError(s.t, p.Start(s.t.Context()))
	return p
}

func (s *system) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	s.t.Cleanup(cancel)
	return exec.CommandContext(ctx, s.binary, append([]string{"--namespace", s.name}, args...)...)
}

// run runs a command with stdin and gives what it printed.
func (s *system) run(stdin string, args ...string) string {
	s.t.Helper()
	cmd := s.command(args...)
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &stderr
	require.NoError(s.t, cmd.Run(), "%v: %s", args, stderr.String())
	return out.String()
}

func lines(name string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return out
}

func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }

// Streams on ZooKeeper from init to replay, by the commands an operator types.
func TestStreamsFromInitToReplay(t *testing.T) {
	s := startSystem(t)
	want := text(lines("line", 5000))
	for _, via := range []string{"library", "proxy"} {
		name := via + "-a.b%2f.."
		s.run("", "stream", "create", name)
		s.run(want, "append", name, "--via", via)
		require.Equal(t, want, s.run("", "replay", name, "--from", "first"))
		s.run(want, "append", name, "--via", via) // another segment
		require.Equal(t, "10000\n", s.run("", "count", name))
		s.run("", "stream", "rm", name)
		s.run("", "stream", "create", name) // the same name again
		s.run("again\n", "append", name, "--via", via)
		require.Equal(t, "again\n", s.run("", "replay", name, "--from", "first"))
	}
}

// ZooKeeper stops answering for longer than every session lives, and a proxy
// dies: what is being appended goes on, in order and without a gap; afterwards
// all is as before.
func TestStreamsWhileZooKeeperIsPaused(t *testing.T) {
	s := startSystem(t)
	streams := []string{"library", "proxy"}
	feeds := make([]io.WriteCloser, len(streams))
	cmds := make([]*exec.Cmd, len(streams))
	for i, via := range streams {
		s.run("", "stream", "create", via)
		cmds[i] = s.command("append", via, "--via", via)
		var err error
		feeds[i], err = cmds[i].StdinPipe()
		require.NoError(t, err)
		cmds[i].Stderr = &bytes.Buffer{}
		require.NoError(t, cmds[i].Start())
	}
	feed := func(part string) {
		for _, f := range feeds {
			_, err := io.WriteString(f, text(lines(part, 500)))
			require.NoError(t, err)
		}
	}
	feed("before")
	require.Eventually(t, func() bool { // both have their segment
		return s.run("", "count", "library") != "0\n" && s.run("", "count", "proxy") != "0\n"
	}, limit, 100*time.Millisecond)
	zk.Signal(syscall.SIGSTOP)
	paused := time.NewTimer(8 * time.Second)
	feed("paused")
	<-paused.C
	zk.Signal(syscall.SIGCONT)
	feed("after")
	s.proxies[0].Kill()
	feed("killed")
	for i, f := range feeds {
		require.NoError(t, f.Close())
		require.NoError(t, cmds[i].Wait(), "%s: %v", streams[i], cmds[i].Stderr)
	}
	var want []string
	for _, part := range []string{"before", "paused", "after", "killed"} {
		want = append(want, lines(part, 500)...)
	}
	for _, name := range streams {
		got := strings.Split(strings.TrimSuffix(s.run("", "replay", name, "--from", "first"), "\n"), "\n")
		require.Equal(t, want, firstOfEach(got), "%s", name)
		if name == "library" {
			require.Len(t, got, len(want), "no record twice")
		}
	}
	require.Eventually(t, func() bool { // the bookies are registered again
		return strings.Count(s.run("", "bookie", "ls"), "writable") == 3
	}, limit, 200*time.Millisecond)
	s.run("", "stream", "create", "new")
	s.run("one\n", "append", "new")
	require.Equal(t, "one\n", s.run("", "replay", "new", "--from", "first"))
}

// firstOfEach leaves out what came before: a proxy's client that was not
// answered sends again.
func firstOfEach(lines []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, l := range lines {
		if !seen[l] {
			out = append(out, l)
		}
		seen[l] = true
	}
	return out
}
