package server_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/bookie/wire"
)

// BenchmarkAdd is the data path of one bookie: version 2 adds over TCP on
// loopback, a window of them outstanding, onto a real disk. cpu-µs/op counts
// the whole process, the raw client included.
func BenchmarkAdd(b *testing.B) {
	for _, window := range []int{1, 1000} {
		for _, payload := range []int{100, 1024} {
			b.Run(fmt.Sprintf("outstanding=%d/payload=%d", window, payload), func(b *testing.B) {
				benchmarkAdd(b, window, payload)
			})
		}
	}
}

// tcpBookie serves a real bookie on loopback.
func tcpBookie(b *testing.B) net.Conn {
	dir := b.TempDir()
	store, err := bookie.Open(b.Context(), bookie.Options{
		FS: vfs.Default, JournalDirs: []string{dir + "/journal"}, LedgerDirs: []string{dir + "/ledgers"},
	})
	require.NoError(b, err)
	srv, err := server.New(store, server.Options{})
	require.NoError(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, nc.Close())
		require.NoError(b, srv.Close())
		require.ErrorIs(b, <-served, server.ErrClosed)
		require.NoError(b, store.Close())
	})
	return nc
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// frameBatch is adds that leave the client in one write.
type frameBatch struct {
	buf       []byte
	frameSize int
}

func newFrameBatch(payload, n int) *frameBatch {
	frame := addFrame(1, 0, make([]byte, payload))
	f := &frameBatch{frameSize: len(frame)}
	for range n {
		f.buf = append(f.buf, frame...)
	}
	return f
}

// next numbers n frames from first on. Their digests are wrong, which no
// bookie looks at.
func (f *frameBatch) next(first, n int) []byte {
	for i := range n {
		at := f.buf[i*f.frameSize+wire.AddRequestOverhead:]
		binary.BigEndian.PutUint64(at[8:], uint64(first+i))
		binary.BigEndian.PutUint64(at[16:], uint64(first+i-1))
	}
	return f.buf[:n*f.frameSize]
}

// readAnswers takes answers off fr until at least one has come.
func readAnswers(b *testing.B, fr *wire.FrameReader) int {
	n := 0
	for n == 0 {
		require.NoError(b, fr.Fill())
		for {
			p, err := fr.Next()
			if err != nil {
				b.Fatal(err)
			}
			if p == nil {
				break
			}
			var r wire.Response
			if err := wire.DecodeResponse(&r, p); err != nil || r.Status != bk.StatusOK {
				b.Fatalf("answer %+v, %v", r, err)
			}
			n++
		}
	}
	return n
}

func benchmarkAdd(b *testing.B, window, payload int) {
	nc := tcpBookie(b)
	fr := wire.NewFrameReader(nc)
	batch := newFrameBatch(payload, window)
	b.SetBytes(int64(payload))
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	sent, done := 0, 0
	for done < b.N {
		if n := min(window-(sent-done), b.N-sent); n > 0 {
			_, err := nc.Write(batch.next(sent, n))
			require.NoError(b, err)
			sent += n
		}
		done += readAnswers(b, fr)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "adds/s")
}

// BenchmarkAddThree is three bookies that all get each entry, 1,000 of 1 KiB
// outstanding: the servers of a ledger with three copies, and a raw client.
func BenchmarkAddThree(b *testing.B) {
	const copies, window = 3, 1000
	conns := make([]net.Conn, copies)
	for i := range conns {
		conns[i] = tcpBookie(b)
	}
	batch := newFrameBatch(1024, window)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	answers := make(chan int, copies)
	for _, nc := range conns {
		go func() {
			fr := wire.NewFrameReader(nc)
			for done := 0; done < b.N; {
				n := readAnswers(b, fr)
				done += n
				answers <- n
			}
		}()
	}
	for sent, done := 0, 0; done < copies*b.N; {
		if n := min(window-(sent-done/copies), b.N-sent); n > 0 {
			buf := batch.next(sent, n)
			for _, nc := range conns {
				_, err := nc.Write(buf)
				require.NoError(b, err)
			}
			sent += n
		}
		done += <-answers
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "adds/s")
}

// BenchmarkRead reads warm entries of 1 KiB in order, one a request with 256
// requests outstanding, or in batches of up to 256 KiB with 2 outstanding.
func BenchmarkRead(b *testing.B) {
	b.Run("single", func(b *testing.B) {
		benchmarkRead(b, 256, func(dst []byte, e int) []byte {
			return wire.AppendReadRequest(dst, 0, 1, bk.EntryID(e), nil)
		})
	})
	b.Run("batch", func(b *testing.B) {
		benchmarkRead(b, 2, func(dst []byte, e int) []byte {
			return wire.AppendBatchReadRequest(dst, wire.BatchRead{Ledger: 1, First: bk.EntryID(e), MaxCount: 200, MaxSize: 256 << 10})
		})
	})
}

const (
	benchEntries  = 20_000
	benchPerBatch = 200
)

func benchmarkRead(b *testing.B, window int, request func(dst []byte, e int) []byte) {
	nc := tcpBookie(b)
	fr := wire.NewFrameReader(nc)
	batch := newFrameBatch(1024, 1000)
	for sent := 0; sent < benchEntries; sent += 1000 {
		_, err := nc.Write(batch.next(sent, 1000))
		require.NoError(b, err)
		for done := 0; done < 1000; {
			done += readAnswers(b, fr)
		}
	}
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	var buf []byte
	step := 1
	if window <= 2 {
		step = benchPerBatch
	}
	next, out := 0, 0
	for done := 0; done < b.N; {
		buf = buf[:0]
		for ; out < window; out++ {
			buf = request(buf, next)
			next = (next + step) % benchEntries
		}
		_, err := nc.Write(buf)
		require.NoError(b, err)
		n, entries := readEntries(b, fr)
		out, done = out-n, done+entries
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	for out > 0 {
		n, _ := readEntries(b, fr)
		out -= n
	}
}

// readEntries takes read answers off fr until at least one has come.
func readEntries(b *testing.B, fr *wire.FrameReader) (answers, entries int) {
	for answers == 0 {
		require.NoError(b, fr.Fill())
		for {
			p, err := fr.Next()
			if err != nil {
				b.Fatal(err)
			}
			if p == nil {
				break
			}
			var r wire.Response
			if err := wire.DecodeResponse(&r, p); err != nil || r.Status != bk.StatusOK {
				b.Fatalf("answer %+v, %v", r, err)
			}
			answers++
			if r.Op == wire.OpRead {
				entries++
				continue
			}
			for rest := r.Body; len(rest) > 0; entries++ {
				if _, rest, err = wire.NextBatchEntry(rest); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	return answers, entries
}
