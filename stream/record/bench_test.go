package record_test

import (
	"bytes"
	"testing"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// BenchmarkEntry packs and walks entries of 64 records of 1 KiB.
func BenchmarkEntry(b *testing.B) {
	payload := bytes.Repeat([]byte("some text of a log "), 54)[:1024]
	for _, codec := range []stream.Compression{stream.CompressionNone, stream.CompressionLZ4} {
		var w record.Builder
		fill := func() []byte {
			w.Reset(codec, 0)
			for i := range 64 {
				if err := w.Append(stream.TxID(i), payload); err != nil {
					b.Fatal(err)
				}
			}
			entry, err := w.Finish()
			if err != nil {
				b.Fatal(err)
			}
			return entry
		}
		b.Run("build/"+codec.String(), func(b *testing.B) {
			b.SetBytes(64 * 1024)
			b.ReportAllocs()
			for b.Loop() {
				fill()
			}
		})
		b.Run("walk/"+codec.String(), func(b *testing.B) {
			entry := fill()
			var it record.Iterator
			b.SetBytes(64 * 1024)
			b.ReportAllocs()
			for b.Loop() {
				for it.Reset(entry, true, stream.DLSN{Segment: 1}); it.Next(); {
					_ = it.View()
				}
				if it.Err() != nil {
					b.Fatal(it.Err())
				}
			}
		})
	}
}
