package namespace

import (
	"testing"

	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/stream"
)

// benchStream is a stream of a system in memory with bookies as they are by
// default.
func benchStream(b *testing.B) *Stream {
	b.Helper()
	c := bookietest.Start(b, 3, bookietest.Options{})
	if err := CreateNamespace(bg(b), nsURI, clusterURI, WithStore(c.Store)); err != nil {
		b.Fatal(err)
	}
	n, err := Open(bg(b), nsURI, WithStore(c.Store), WithDialer(c.Dial))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close() })
	if err := n.Create(bg(b), "a", stream.Config{}); err != nil {
		b.Fatal(err)
	}
	s, err := n.Stream(bg(b), "a")
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func fill(b *testing.B, s *Stream, n int) {
	b.Helper()
	w, err := s.Writer(bg(b))
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 1024)
	failed := func(_ stream.DLSN, err error) {
		if err != nil {
			b.Error(err)
		}
	}
	for range n {
		w.Go(bgNow(), stream.Record{Payload: payload}, failed)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCatchUp replays 1 KiB records from bookies in the same process, over
// connections and files in memory. (Appends are measured by loglode bench: a
// crashable file system copies every file that it syncs.)
func BenchmarkCatchUp(b *testing.B) {
	s := benchStream(b)
	fill(b, s, b.N)
	b.ReportAllocs()
	b.SetBytes(1024)
	b.ResetTimer()
	n := 0
	for _, err := range s.Replay(bgNow(), stream.First(), stream.Last()) {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != b.N {
		b.Fatalf("%d of %d records", n, b.N)
	}
}
