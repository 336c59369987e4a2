package sim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/proc"
)

// producer is a `loglode append --ack` process that is fed numbered lines. It
// knows which of them were acknowledged, and when.
type producer struct {
	cmd    *exec.Cmd
	stream string
	prefix string
	pad    int // bytes added to each line
	errs   bytes.Buffer
	stdin  io.WriteCloser

	mu    sync.Mutex // guards what follows
	sent  int
	acked int
	last  time.Time
	more  chan struct{} // closed and renewed at each ack
	ended chan error
}

func produce(t *testing.T, c *proc.Cluster, prefix string, args ...string) *producer {
	t.Helper()
	return produceTo(t, c, streamName, prefix, args...)
}

func produceTo(t *testing.T, c *proc.Cluster, stream, prefix string, args ...string) *producer {
	t.Helper()
	p := &producer{stream: stream, prefix: prefix, more: make(chan struct{}), ended: make(chan error, 1), last: time.Now()}
	p.cmd = c.Command(context.WithoutCancel(t.Context()), append([]string{"append", stream, "--ack"}, args...)...)
	p.cmd.Stderr = &p.errs
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		for sc := bufio.NewScanner(out); sc.Scan(); {
			p.ack()
		}
		p.ended <- p.cmd.Wait()
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it is gone already, as a rule
	return p
}

func (p *producer) ack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acked++
	p.last = time.Now()
	close(p.more)
	p.more = make(chan struct{})
}

func (p *producer) line(i int) string {
	return fmt.Sprintf("%s-%08d%s", p.prefix, i, strings.Repeat(".", p.pad))
}

// feed sends n lines, or as many as the process takes. pace is the pause
// between lines.
func (p *producer) feed(n int, pace time.Duration) {
	for range n {
		if _, err := io.WriteString(p.stdin, p.line(p.sent)+"\n"); err != nil {
			return // the process is gone; its end is looked at elsewhere
		}
		p.mu.Lock()
		p.sent++
		p.mu.Unlock()
		if pace > 0 {
			<-time.After(pace)
		}
	}
}

func (p *producer) counts() (sent, acked int, last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent, p.acked, p.last
}

// requireMore waits for n lines acknowledged after now, at most for d, and says
// how long that took.
func (p *producer) requireMore(t *testing.T, n int, d time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	_, acked, _ := p.counts()
	p.waitAcked(within(t, d), t, acked+n)
	return time.Since(began)
}

// waitAcked waits until n lines are acknowledged.
func (p *producer) waitAcked(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	for {
		p.mu.Lock()
		acked, more := p.acked, p.more
		p.mu.Unlock()
		if acked >= n {
			return
		}
		select {
		case <-more:
		case err := <-p.ended:
			p.ended <- err // for who asks next
			if _, acked, _ := p.counts(); acked < n {
				t.Fatalf("producer %s ended with %d of %d lines acknowledged: %v: %s", p.prefix, acked, n, err, p.errs.Bytes())
			}
		case <-ctx.Done():
			_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines tell what it waits for
			<-p.ended
			t.Fatalf("producer %s: %d of %d lines acknowledged: %v: %s", p.prefix, acked, n, ctx.Err(), p.errs.Bytes())
		}
	}
}

// stop ends the process at once, if it has not ended already for want of
// servers. What it has acknowledged stays known.
func (p *producer) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(t, err)
	}
	<-p.ended
}

// finish ends the input and waits for the end of the process.
func (p *producer) finish() error {
	return errors.Join(p.stdin.Close(), <-p.ended)
}

// replay gives the lines of the stream.
func replay(t *testing.T, c *proc.Cluster, stream string) []string {
	t.Helper()
	cmd := c.Command(within(t, 60*time.Second), "replay", stream, "--from", "first", "--to", "now")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s", errs.Bytes())
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// requireKept ends a test: one more writer takes the stream over, because what a
// dead writer has got acknowledged last is visible only after its segment was
// recovered, and everything of the producers before must be there.
func requireKept(t *testing.T, c *proc.Cluster, stream string, ps ...*producer) {
	t.Helper()
	last := produceTo(t, c, stream, "end")
	last.feed(10, 0)
	require.NoError(t, last.finish(), "%s", last.errs.Bytes())
	_, acked, _ := last.counts()
	require.Equal(t, 10, acked)
	requireOnceInOrder(t, replay(t, c, stream), append(ps, last)...)
}

// requireOnceInOrder checks that the stream holds, of each producer, the lines
// 0 to some n in order, once each, where n is at least what was acknowledged
// and at most what was sent; and that lines of a later producer come after
// those of an earlier one.
func requireOnceInOrder(t *testing.T, lines []string, ps ...*producer) {
	t.Helper()
	rest := lines
	for _, p := range ps {
		sent, acked, _ := p.counts()
		n := 0
		for n < len(rest) && strings.HasPrefix(rest[n], p.prefix+"-") {
			require.Equal(t, p.line(n), rest[n], "line %d of producer %s", n, p.prefix)
			n++
		}
		require.GreaterOrEqual(t, n, acked, "producer %s: acknowledged lines are missing; the next line is %q", p.prefix, slices.Concat(rest[n:], []string{""})[0])
		require.LessOrEqual(t, n, sent, "producer %s", p.prefix)
		t.Logf("producer %s: %d sent, %d acknowledged, %d in the stream", p.prefix, sent, acked, n)
		rest = rest[n:]
	}
	require.Empty(t, rest, "lines that nobody sent")
}
