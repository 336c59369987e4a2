package proxy

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/proxy/client"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

// nothing is a backend whose writer acknowledges at once: what is left is the
// proxy and its client.
type nothing struct{ *process }

func (n nothing) open(context.Context, stream.Name) (appender, stream.DLSN, error) {
	return &nowhere{}, stream.DLSN{}, nil
}

type nowhere struct{ entry atomic.Int64 }

func (w *nowhere) GoBatch(_ context.Context, _ []stream.Record, done func(stream.DLSN, error)) {
	done(stream.DLSN{Segment: 1, Entry: w.entry.Add(1)}, nil)
}

func (w *nowhere) GoSet(ctx context.Context, _ stream.TxID, _ []byte, done func(stream.DLSN, error)) {
	w.GoBatch(ctx, nil, done)
}
func (w *nowhere) Flush(context.Context) error { return nil }
func (w *nowhere) Err() error                  { return nil }
func (w *nowhere) Close() error                { return nil }
func (w *nowhere) Abort() error                { return nil }

// BenchmarkAppend is the cost of proxy and client together, without a log.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprint("bytes=", size), func(b *testing.B) {
			c := startCluster(b, 1, newLogs("s"))
			c.nodes[0].b = nothing{c.nodes[0].proc}
			cl := c.client(func(*client.Options) {})
			w, err := cl.Writer(context.Background(), "s")
			require.NoError(b, err)
			payload := make([]byte, size)
			done := func(_ stream.DLSN, err error) {
				if err != nil {
					b.Error(err)
				}
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				w.Go(context.Background(), stream.Record{Payload: payload}, done)
			}
			require.NoError(b, w.Close())
		})
	}
}

// BenchmarkOneOutstanding is the latency that a proxy adds.
func BenchmarkOneOutstanding(b *testing.B) {
	c := startCluster(b, 1, newLogs("s"))
	c.nodes[0].b = nothing{c.nodes[0].proc}
	w, err := c.client().Writer(context.Background(), "s")
	require.NoError(b, err)
	payload := make([]byte, 1024)
	b.ReportAllocs()
	for b.Loop() {
		_, err := w.Append(context.Background(), stream.Record{Payload: payload})
		require.NoError(b, err)
	}
	require.NoError(b, w.Close())
}

func BenchmarkDecodeBulk(b *testing.B) {
	c := &wire.Call{Method: wire.WriteBulkWithContext, Stream: "s"}
	for range 256 {
		c.Data = append(c.Data, make([]byte, 1024))
	}
	frame, err := wire.AppendCall(nil, c)
	require.NoError(b, err)
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	for b.Loop() {
		_, err := wire.DecodeCall(frame[4:])
		require.NoError(b, err)
	}
}
