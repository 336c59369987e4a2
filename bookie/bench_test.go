package bookie

import (
	"encoding/binary"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

func diskOptions(b *testing.B) Options {
	dir := b.TempDir()
	return Options{FS: vfs.Default, JournalDirs: []string{dir + "/journal"}, LedgerDirs: []string{dir + "/ledgers"}}
}

// windowSink keeps count of what is outstanding.
type windowSink struct {
	mu   sync.Mutex
	cond sync.Cond
	free int
	bad  int
}

func (w *windowSink) AddsDone(rs []AddResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rs {
		if r.Status != bk.StatusOK {
			w.bad++
		}
	}
	w.free += len(rs)
	w.cond.Signal()
}

// take waits for room for a batch and takes it.
func (w *windowSink) take(most int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.free == 0 {
		w.cond.Wait()
	}
	n := min(w.free, most)
	w.free -= n
	return n
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchmarkAdd(b *testing.B, outstanding, batch, ledgers, payload int) {
	bookie := open(b, diskOptions(b))
	sink := &windowSink{free: outstanding}
	sink.cond.L = &sink.mu
	entry := body(0, 0, string(make([]byte, payload)))
	adds := make([]Add, batch)
	for i := range adds {
		adds[i] = Add{MasterKey: testKey, Body: append([]byte{}, entry...)}
	}
	next := make([]bk.EntryID, ledgers)
	b.SetBytes(int64(len(entry)))
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	l := 0
	for done := 0; done < b.N; {
		n := sink.take(min(batch, b.N-done))
		for i := range n {
			binary.BigEndian.PutUint64(adds[i].Body, uint64(l))
			binary.BigEndian.PutUint64(adds[i].Body[8:], uint64(next[l]))
			next[l]++
			l = (l + 1) % ledgers
		}
		bookie.AddBatch(sink, adds[:n])
		done += n
	}
	sink.mu.Lock()
	for sink.free < outstanding {
		sink.cond.Wait()
	}
	sink.mu.Unlock()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-cpu).Nanoseconds())/float64(b.N), "cpu-ns/op")
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	b.ReportMetric(float64(ms.Sys-ms.HeapReleased)/(1<<20), "sys-MiB")
	require.Zero(b, sink.bad)
	require.NoError(b, bookie.Close())
}

func BenchmarkAdd1KiBOutstanding1000(b *testing.B) { benchmarkAdd(b, 1000, 250, 1, 1024) }
func BenchmarkAdd100BOutstanding1000(b *testing.B) { benchmarkAdd(b, 1000, 250, 1, 100) }
func BenchmarkAdd1KiBOutstanding1(b *testing.B)    { benchmarkAdd(b, 1, 1, 1, 1024) }
func BenchmarkAdd1KiBLedgers100(b *testing.B)      { benchmarkAdd(b, 1000, 250, 100, 1024) }

func BenchmarkReadSequential(b *testing.B) {
	o := diskOptions(b)
	bookie := open(b, o)
	const n = 20_000
	sink := &windowSink{free: n}
	sink.cond.L = &sink.mu
	adds := make([]Add, 100)
	for e := 0; e < n; e += len(adds) {
		for i := range adds {
			adds[i] = Add{MasterKey: testKey, Body: body(1, bk.EntryID(e+i), string(make([]byte, 1024)))}
		}
		sink.take(len(adds))
		bookie.AddBatch(sink, adds)
	}
	require.NoError(b, bookie.Flush())
	var buf []byte
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		var s bk.Status
		buf, s = bookie.Read(1, bk.EntryID(i%n), buf[:0])
		if s != bk.StatusOK {
			b.Fatal(s)
		}
	}
	b.StopTimer()
	require.NoError(b, bookie.Close())
}
