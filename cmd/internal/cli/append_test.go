package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
)

// TestRoundTripOfLog: what goes in by append comes out by replay, to the
// byte, through the library and through the proxy.
func TestRoundTripOfLog(t *testing.T) {
	text := logText(2000)
	for _, via := range []string{"library", "proxy"} {
		t.Run(via, func(t *testing.T) {
			name := newStream(t)
			acks := must(t, text, "append", name, "--via", via, "--ack")
			require.Equal(t, 2000, strings.Count(acks, "\n"))
			requireRising(t, acks)
			require.Equal(t, text, must(t, "", "replay", name, "--from", "first"))
			require.Equal(t, "2000\n", must(t, "", "count", name))
		})
	}
}

// logText makes lines as a server logs them, with carriage returns, some of
// them empty and some of them long.
func logText(lines int) string {
	var b strings.Builder
	for i := range lines {
		switch {
		case i%97 == 0:
			b.WriteString("\n")
		case i%89 == 0:
			b.WriteString(strings.Repeat("stack frame ", i) + "\r\n")
		default:
			fmt.Fprintf(&b, "081109 2036%02d %d INFO dfs.DataNode$PacketResponder: PacketResponder %d for block blk_%d terminating\r\n", i%60, i, i%3, i*7919)
		}
	}
	return b.String()
}

func requireRising(t *testing.T, acks string) {
	t.Helper()
	last := stream.DLSN{}
	for line := range strings.Lines(acks) {
		d, err := stream.ParseDLSN(strings.TrimSuffix(line, "\n"))
		require.NoError(t, err)
		require.Positive(t, d.Compare(last), "%v after %v", d, last)
		last = d
	}
}

// TestLinesAreRecords: the line without its \n, a \r stays, a last line without
// \n counts, an empty line is an empty record.
func TestLinesAreRecords(t *testing.T) {
	name := newStream(t)
	must(t, "a\r\n\nb\nlast", "append", name)
	require.Equal(t, "a\r\n\nb\nlast\n", must(t, "", "replay", name))
	require.Equal(t, "4\n", must(t, "", "count", name))
	must(t, "", "append", name)
	require.Equal(t, "4\n", must(t, "", "count", name), "no input is no record")
}

func TestLongestLine(t *testing.T) {
	name := newStream(t)
	const most = 1<<20 - 8<<10 - 20 // a record's limit less its header
	long := strings.Repeat("x", most)
	must(t, long+"\nshort\n", "append", name)
	require.Equal(t, long+"\nshort\n", must(t, "", "replay", name))
	r := run(t, long+"x\n", "append", name)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "1040364")
	r = run(t, strings.Repeat("y", lineBytesMax+2<<20), "append", name)
	require.Equal(t, exitUsage, r.code, r.err)
}

func TestJSONLRoundTrip(t *testing.T) {
	name := newStream(t)
	must(t, `{"payload":"one","txid":7}`+"\n"+`{"payload_base64":"/wA=","txid":9}`+"\n"+`{"payload":"","txid":9}`+"\n", "append", name, "--jsonl")
	out := must(t, "", "replay", name, "-o", "jsonl")
	require.Contains(t, out, `"txid":7,"payload":"one"`)
	require.Contains(t, out, `"txid":9,"payload_base64":"/wA="`)
	require.Contains(t, out, `"txid":9,"payload":""`)
	require.Equal(t, "\xff\x00\n\n", must(t, "", "replay", name, "--from", "txid:8"))
	other := name + "2"
	must(t, "", "stream", "create", other)
	must(t, out, "append", other, "--jsonl")
	require.Equal(t, must(t, "", "replay", name), must(t, "", "replay", other), "replay -o jsonl is input of append --jsonl")
	for in, want := range map[string]string{
		`{"payload":"x","txid":3}`:              "3", // goes back behind 9
		`{"txid":10}`:                           "neither",
		`{"payload":"x","payload_base64":"eA"}`: "line 1",
		`nonsense`:                              "line 1",
	} {
		r := run(t, in, "append", name, "--jsonl")
		require.Equal(t, exitUsage, r.code, "%s: %s", in, r.err)
		require.Contains(t, r.err, want)
	}
}

// TestFencedAppendEnds: a second writer takes the stream, and the first ends
// with exit code 4 at its next line, though its input goes on.
func TestFencedAppendEnds(t *testing.T) {
	name := newStream(t)
	in, feed := io.Pipe()
	acks, ackWriter := io.Pipe()
	var errOut bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- Main(t.Context(), []string{"append", name, "--ack"}, in, ackWriter, &errOut)
		ackWriter.Close()
	}()
	write := func(s string) {
		_, err := io.WriteString(feed, s)
		require.NoError(t, err)
	}
	write("one\n")
	buf := make([]byte, 64)
	_, err := acks.Read(buf) // the first line is durable
	require.NoError(t, err)
	go io.Copy(io.Discard, acks)
	must(t, "two\n", "append", name)
	write("three\n")
	select {
	case code := <-done:
		require.Equal(t, exitConflict, code, errOut.String())
		require.Contains(t, errOut.String(), "fenced")
	case <-time.After(30 * time.Second):
		t.Fatal("a fenced append did not end")
	}
	require.Equal(t, "one\ntwo\n", must(t, "", "replay", name))
}

// TestTailFollows: a tail prints what is there, then each new record, and ends
// well when it is interrupted.
func TestTailFollows(t *testing.T) {
	name := newStream(t)
	must(t, "old\n", "append", name)
	out, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- Main(ctx, []string{"tail", name, "--from", "first"}, strings.NewReader(""), w, io.Discard)
		w.Close()
	}()
	read := func(want string) {
		buf := make([]byte, len(want))
		_, err := io.ReadFull(out, buf)
		require.NoError(t, err)
		require.Equal(t, want, string(buf))
	}
	read("old\n")
	must(t, "new\n", "append", name) // another segment
	read("new\n")
	cancel()
	require.Zero(t, <-done)
}

func TestTailOfSealedStreamEnds(t *testing.T) {
	name := newStream(t)
	must(t, "a\nb\n", "append", name)
	must(t, "", "stream", "seal", name)
	require.Equal(t, "a\nb\n", must(t, "", "tail", name, "--from", "first"))
	r := run(t, "c\n", "append", name)
	require.Equal(t, exitConflict, r.code, r.err)
}
