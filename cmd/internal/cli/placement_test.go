package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// devBookies gives the ids of the shared system's bookies.
func devBookies(t *testing.T) []string {
	t.Helper()
	var rows []map[string]any
	require.NoError(t, json.Unmarshal([]byte(must(t, "", "bookie", "ls", "-o", "json")), &rows))
	var ids []string
	for _, r := range rows {
		ids = append(ids, r["bookie"].(string))
	}
	require.Len(t, ids, 3)
	return ids
}

// label labels a bookie for the time of the test.
func label(t *testing.T, id string, args ...string) {
	t.Helper()
	must(t, "", append([]string{"bookie", "label", id}, args...)...)
	t.Cleanup(func() {
		var errs strings.Builder
		code := Main(context.Background(), []string{ // the test's context is over
			"bookie", "label", id, "--region", "", "--zone", "", "--rack", "", "--weight", "0", "--drain=false", "--label", "disk=",
		}, strings.NewReader(""), io.Discard, &errs)
		require.Zero(t, code, errs.String())
	})
}

func explain(t *testing.T, code int, args ...string) ([]explained, result) {
	t.Helper()
	r := run(t, "", append([]string{"placement", "explain", "-o", "json"}, args...)...)
	require.Equal(t, code, r.code, r.err)
	var x []explained
	require.NoError(t, json.Unmarshal([]byte(r.out), &x), r.out)
	return x, r
}

func TestPlacementExplain(t *testing.T) {
	ids := devBookies(t)
	label(t, ids[0], "--region", "eu", "--zone", "a", "--rack", "r1", "--label", "disk=ssd", "--weight", "2")
	label(t, ids[1], "--region", "eu", "--zone", "b")
	label(t, ids[2], "--region", "us", "--zone", "b", "--drain")

	x, _ := explain(t, 0, "--ensemble", "2", "--write-quorum", "2", "--ack-quorum", "1", "--policy", "zones=2,strict")
	require.Len(t, x, 1)
	require.Equal(t, "2/2/1", x[0].Quorum)
	require.Equal(t, "zones=2,strict", x[0].Policy)
	require.ElementsMatch(t, ids[:2], []string{string(x[0].Ensemble[0]), string(x[0].Ensemble[1])})
	require.Equal(t, []explainedRule{{Rule: "zones=2", Holds: true, Want: 2, Got: 2}}, x[0].Rules)
	require.Len(t, x[0].Bookies, 3)
	one, drained := x[0].Bookies[0], x[0].Bookies[2]
	require.Equal(t, "/eu/a/r1", one.Location)
	require.Equal(t, map[string]string{"disk": "ssd"}, one.Labels)
	require.Equal(t, 2.0, one.Weight)
	require.Positive(t, one.Free, "the bookie tells its free space")
	require.Greater(t, one.Share, x[0].Bookies[1].Share)
	require.Equal(t, "draining", drained.Status)
	require.Nil(t, drained.Position)
	require.Contains(t, drained.Reason, "draining: used only where others do not suffice")

	// A rule that cannot be kept: best effort, then strict.
	x, _ = explain(t, 0, "--policy", "regions=3")
	require.False(t, x[0].Rules[0].Holds)
	require.Equal(t, []explainedSets{{Positions: []int{0, 1, 2}, Got: 2}}, x[0].Rules[0].Below)
	x, r := explain(t, exitUnavailable, "--policy", "regions=3,strict")
	require.Empty(t, x[0].Ensemble)
	require.Contains(t, x[0].Error, "2 can be reached (usable bookies are in 2: /eu /us)")
	require.Contains(t, r.err, "each write set of 3 must be in 3 regions")
	require.Contains(t, r.err, "loglode bookie label")
	require.Len(t, x[0].Bookies, 3)

	out := must(t, "", "placement", "explain", "--policy", "regions=2")
	require.Contains(t, out, "quorum 3/3/2, policy regions=2\n")
	require.Contains(t, out, "WORST_WRITE_SET")
	require.Contains(t, out, "/us/b/-")
	require.Equal(t, 1, strings.Count(must(t, "", "placement", "explain", "-o", "jsonl"), "\n"))

	// --placement is the policy where --policy is not given.
	x, _ = explain(t, 0, "--placement", "ack-regions=2")
	require.Equal(t, "ack-regions=2", x[0].Policy)
}

func TestPlacementOfALedger(t *testing.T) {
	ids := devBookies(t)
	for i, id := range ids {
		label(t, id, "--zone", string(rune('a'+i/2)))
	}
	name := newStream(t)
	must(t, "x\n", "append", name)
	var segments []map[string]any
	require.NoError(t, json.Unmarshal([]byte(must(t, "", "stream", "show", name, "-o", "json")), &segments))
	ledger := fmt.Sprintf("%.0f", segments[0]["ledger"])
	// JSON numbers lose digits of large ids: take the text.
	for _, line := range strings.Split(must(t, "", "stream", "show", name, "-o", "jsonl"), "\n") {
		if _, rest, ok := strings.Cut(line, `"ledger":`); ok {
			ledger, _, _ = strings.Cut(rest, ",")
			break
		}
	}
	x, _ := explain(t, 0, "--ledger", ledger, "--policy", "zones=2")
	require.Len(t, x, 1)
	require.EqualValues(t, 0, *x[0].FirstEntry)
	require.True(t, x[0].Rules[0].Holds)
	x, r := explain(t, exitFailed, "--ledger", ledger, "--policy", "zones=3")
	require.False(t, x[0].Rules[0].Holds)
	require.Contains(t, r.err, "segment 0 does not keep zones=3")
	require.Contains(t, must(t, "", "placement", "explain", "--ledger", ledger), "entries from 0 on: quorum 3/3/2, policy default\n")
	require.Equal(t, exitNotFound, run(t, "", "placement", "explain", "--ledger", "12345").code)
}

func TestTopologyFile(t *testing.T) {
	ids := devBookies(t)
	file := filepath.Join(t.TempDir(), "topology")
	write := func(zones ...string) {
		text := "# our racks\n"
		for i, z := range zones {
			text += ids[i] + " /" + z + "/r1 disk=hdd\n"
		}
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("a", "b", "c")
	x, _ := explain(t, 0, "--topology", file, "--policy", "zones=3,strict,require:disk=hdd")
	require.Equal(t, "/-/a/r1", x[0].Bookies[0].Location)
	write("a", "b", "b")
	_, r := explain(t, exitUnavailable, "--topology", file, "--policy", "zones=3,strict")
	require.Contains(t, r.err, "2 can be reached (usable bookies are in 2: /-/a /-/b)")

	// A running client follows the file, and keeps the last good one.
	f := &topologyFile{path: file, log: (&app{}).log}
	require.NoError(t, f.read())
	write("zone", "b", "c")
	require.NoError(t, f.read())
	s, ok := f.locate("x")
	require.False(t, ok)
	require.Empty(t, s)
	s, _ = f.known.Lookup("x")
	require.Empty(t, s)
	require.Equal(t, "zone", f.known[ids[0]].Zone)
	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	require.ErrorContains(t, f.read(), "line 1")
	require.Equal(t, "zone", f.known[ids[0]].Zone)
}

func TestPlacementBadInput(t *testing.T) {
	ids := devBookies(t)
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("\nhost rack\n"), 0o600))
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"placement explain --policy zone=2", exitUsage, "zones=N"},
		{"placement explain --placement zones=x", exitUsage, "--placement"},
		{"stream ls --placement zones=x", exitUsage, "--placement"},
		{"placement explain --topology " + bad, exitUsage, "line 2"},
		{"placement explain --topology /no/such/file", exitUsage, "/no/such/file"},
		{"placement explain --ensemble 2", exitUsage, "write"},
		{"placement explain --ledger -1", exitUsage, "--ledger -1"},
		{"placement explain --ledger x", exitUsage, "x"},
		{"placement explain --ensemble 4", exitUnavailable, "4 bookies needed, 3 usable"},
		{"placement", exitUsage, "--help"},
		{"stream create x --placement zone=2", exitUsage, "zones=N"},
		{"stream create x --placement zones=2,strict", exitUnavailable, "2 zones, 1 can be reached"},
		{"bookie label", exitUsage, "arg"},
		{"bookie label 10.9.8.7:1 --zone a", exitNotFound, "not of this cluster"},
		{"bookie label " + ids[0] + " --zone a/b", exitUsage, "--zone"},
		{"bookie label " + ids[0] + " --label k=a/b", exitUsage, "--label"},
		{"bookie label " + ids[0] + " --weight -3", exitUsage, "--weight"},
		{"server bookie --metadata etcd://127.0.0.1:1/x --journal j --ledgers l --rack a/b", exitUsage, "--rack"},
	} {
		r := run(t, "", strings.Fields(c.args)...)
		require.Equal(t, c.code, r.code, "loglode %s: %s", c.args, r.err)
		require.Contains(t, r.err, c.says, "loglode %s", c.args)
		require.Equal(t, 1, strings.Count(r.err, "\n"), "loglode %s: one line: %s", c.args, r.err)
	}
}

func TestServerBookieTellsItsPlace(t *testing.T) {
	devBookies(t)
	cluster := strings.Replace(dev.NamespaceURI(), "/loglode/default", "/bk", 1)
	port, err := freePort()
	require.NoError(t, err)
	dir, id := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", port)
	serve := func(args ...string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		ended := make(chan string, 1)
		go func() {
			var errs strings.Builder
			code := Main(ctx, append([]string{
				"server", "bookie", "--metadata", cluster, "--listen", id, "--journal", filepath.Join(dir, "j"),
				"--ledgers", filepath.Join(dir, "l"), "--lease", "2s",
			}, args...), strings.NewReader(""), in, &errs)
			in.CloseWithError(fmt.Errorf("exit code %d: %s", code, errs.String()))
			ended <- fmt.Sprint(code, errs.String())
		}()
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
		return func() {
			cancel()
			select {
			case got := <-ended:
				require.Equal(t, "0", got)
			case <-time.After(20 * time.Second):
				require.Fail(t, "the bookie does not end")
			}
		}
	}
	shown := func() string {
		for _, line := range strings.Split(must(t, "", "bookie", "ls", "--metadata", cluster), "\n") {
			if strings.HasPrefix(line, id) {
				return strings.Join(strings.Fields(line), " ")
			}
		}
		return ""
	}
	stop := serve("--region", "eu", "--zone", "a", "--rack", "r", "--label", "disk=ssd", "--label", "gen=2")
	require.Regexp(t, `^127\.0\.0\.1:\d+ writable /eu/a/r disk=ssd,gen=2 \d+ false$`, shown())
	must(t, "", "bookie", "label", id, "--metadata", cluster, "--zone", "b", "--label", "gen=", "--drain")
	require.Regexp(t, `writable /eu/b/r disk=ssd \d+ true$`, shown())
	stop()
	stop = serve() // no place given: what was stored stays
	require.Regexp(t, `writable /eu/b/r disk=ssd \d+ true$`, shown())
	stop()
	stop = serve("--zone", "c")
	require.Regexp(t, `writable /-/c/- - \d+ true$`, shown(), "drained is as an operator said")
	stop()
	require.Empty(t, shown())
}
