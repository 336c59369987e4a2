package ledger_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/memstore"
)

// bookiesEnv makes the test binary run three bookies below that directory
// instead of tests, so that benchmarks can tell the client's processor time
// from the bookies'.
const bookiesEnv = "LOGLODE_LEDGER_BENCH_BOOKIES"

// bookieCountEnv says how many bookies, if not three.
const bookieCountEnv = bookiesEnv + "_N"

func TestMain(m *testing.M) {
	if dir := os.Getenv(bookiesEnv); dir != "" {
		if err := runBookies(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if bookies := os.Getenv(pacedEnv); bookies != "" {
		if err := runPaced(strings.Split(bookies, ",")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// runBookies serves until its input ends.
func runBookies(dir string) error {
	n := 3
	if s := os.Getenv(bookieCountEnv); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for i := range n {
		at := filepath.Join(dir, fmt.Sprint(i))
		b, err := bookie.Open(context.Background(), bookie.Options{
			JournalDirs: []string{filepath.Join(at, "journal")}, LedgerDirs: []string{filepath.Join(at, "ledgers")},
		})
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s, err := server.New(b, server.Options{})
		if err != nil {
			return err
		}
		go s.Serve(l) //nolint:errcheck // the process ends it
		fmt.Println(l.Addr())
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// realBookies starts three bookies in a process of their own and gives a
// client, and what processor time they used so far.
func realBookies(b *testing.B) (*ledger.Client, func() time.Duration) {
	dir := b.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), bookiesEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		in.Close()
		cmd.Wait() //nolint:errcheck // its output says what went wrong
	})
	ctx := b.Context()
	store := memstore.New()
	b.Cleanup(func() { store.Close() })
	_, err = layout.Init(ctx, store, "/bk")
	require.NoError(b, err)
	cluster, err := layout.Open(ctx, store, "/bk")
	require.NoError(b, err)
	sess, err := store.Session(ctx, metadata.SessionOptions{TTL: time.Hour})
	require.NoError(b, err)
	lines := bufio.NewScanner(out)
	for range 3 {
		require.True(b, lines.Scan())
		require.NoError(b, cluster.Register(ctx, sess, bk.BookieID(lines.Text()), layout.ServiceInfo{}, layout.Writable))
	}
	c, err := ledger.New(cluster, ledger.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { c.Close() })
	return c, func() time.Duration { return processTime(b, cmd.Process.Pid) }
}

// processTime is the processor time of a running process.
func processTime(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	var utime, stime int64
	fmt.Sscan(fields[11]+" "+fields[12], &utime, &stime)
	return time.Duration(utime+stime) * 10 * time.Millisecond
}

func ownTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// report adds rate and processor time per million entries to a benchmark.
func report(b *testing.B, n int, took, own, bookies time.Duration) {
	b.ReportMetric(float64(n)/took.Seconds(), "entries/s")
	b.ReportMetric(own.Seconds()/float64(n)*1e6, "client-cpu-s/M")
	b.ReportMetric(bookies.Seconds()/float64(n)*1e6, "bookies-cpu-s/M")
}

func benchAppend(b *testing.B, size, outstanding int) {
	c, bookies := realBookies(b)
	ctx := b.Context()
	w, err := c.Create(ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
	require.NoError(b, err)
	payload := make([]byte, size)
	_, err = w.Append(ctx, payload)
	require.NoError(b, err)
	took := make([]time.Duration, 0, b.N)
	slots := make(chan struct{}, outstanding)
	var wg sync.WaitGroup
	own, theirs, start := ownTime(), bookies(), time.Now()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		slots <- struct{}{}
		wg.Add(1)
		begin := time.Now()
		w.Go(ctx, payload, func(_ bk.EntryID, err error) {
			if err != nil {
				b.Error(err)
			}
			took = append(took, time.Since(begin))
			<-slots
			wg.Done()
		})
	}
	wg.Wait()
	b.StopTimer()
	report(b, b.N, time.Since(start), ownTime()-own, bookies()-theirs)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	require.NoError(b, w.Close(ctx))
}

func BenchmarkAppend1KiB1000Outstanding(b *testing.B) { benchAppend(b, 1024, 1000) }

func BenchmarkAppend100B1000Outstanding(b *testing.B) { benchAppend(b, 100, 1000) }

func BenchmarkAppendOneOutstanding(b *testing.B) {
	c, bookies := realBookies(b)
	ctx := b.Context()
	w, err := c.Create(ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
	require.NoError(b, err)
	payload := make([]byte, 1024)
	_, err = w.Append(ctx, payload)
	require.NoError(b, err)
	took := make([]time.Duration, 0, b.N)
	own, theirs, start := ownTime(), bookies(), time.Now()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		begin := time.Now()
		if _, err := w.Append(ctx, payload); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	b.StopTimer()
	report(b, b.N, time.Since(start), ownTime()-own, bookies()-theirs)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkSequentialBatchRead(b *testing.B) {
	const entries = 100_000
	c, bookies := realBookies(b)
	ctx := b.Context()
	w, err := c.Create(ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
	require.NoError(b, err)
	payload := make([]byte, 1024)
	for range entries {
		w.Go(ctx, payload, func(_ bk.EntryID, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	require.NoError(b, w.Close(ctx))
	r, err := c.Open(ctx, w.ID(), ledger.NoRecovery)
	require.NoError(b, err)
	n := 0
	own, theirs, start := ownTime(), bookies(), time.Now()
	b.ReportAllocs()
	b.ResetTimer()
	for n < b.N {
		for _, err := range r.Entries(ctx, 0, entries-1) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.StopTimer()
	report(b, n, time.Since(start), ownTime()-own, bookies()-theirs)
}

// BenchmarkTail measures, at 1,000 appends a second, how long an entry takes
// from the call of Go to a tailing reader.
func BenchmarkTail(b *testing.B) {
	c, bookies := realBookies(b)
	ctx := b.Context()
	w, err := c.Create(ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
	require.NoError(b, err)
	r, err := c.Open(ctx, w.ID(), ledger.NoRecovery)
	require.NoError(b, err)
	sent := make([]time.Time, b.N)
	var acks, tails []time.Duration
	tailed := make(chan error, 1)
	go func() {
		for e := bk.InvalidEntryID; int(e) < b.N-1; {
			ent, err := r.ReadNext(ctx, e)
			if err != nil {
				tailed <- err
				return
			}
			e = ent.ID
			tails = append(tails, time.Since(sent[e]))
		}
		tailed <- nil
	}()
	payload := make([]byte, 1024)
	own, theirs, start := ownTime(), bookies(), time.Now()
	b.ResetTimer()
	for i := range b.N {
		<-time.After(time.Until(start.Add(time.Duration(i) * time.Millisecond)))
		sent[i] = time.Now()
		w.Go(ctx, payload, func(e bk.EntryID, err error) {
			if err != nil {
				b.Error(err)
			}
			acks = append(acks, time.Since(sent[e]))
		})
	}
	require.NoError(b, <-tailed)
	b.StopTimer()
	report(b, b.N, time.Since(start), ownTime()-own, bookies()-theirs)
	for name, l := range map[string][]time.Duration{"ack": acks, "tail": tails} {
		slices.Sort(l)
		b.ReportMetric(float64(l[len(l)/2].Microseconds()), name+"-p50-µs")
		b.ReportMetric(float64(l[len(l)*99/100].Microseconds()), name+"-p99-µs")
	}
	require.NoError(b, w.Close(ctx))
}

// BenchmarkIdleWriters reports the memory of a writer that has written and is
// idle.
func BenchmarkIdleWriters(b *testing.B) {
	c, _ := realBookies(b)
	ctx := b.Context()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	writers := make([]*ledger.Writer, b.N)
	before := heap()
	for i := range writers {
		w, err := c.Create(ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
		require.NoError(b, err)
		for range 100 {
			w.Go(ctx, []byte("x"), func(bk.EntryID, error) {})
		}
		_, err = w.Append(ctx, []byte("x"))
		require.NoError(b, err)
		writers[i] = w
	}
	<-time.After(100 * time.Millisecond)
	b.ReportMetric(float64(heap()-before)/float64(b.N), "bytes/writer")
	runtime.KeepAlive(writers)
}
