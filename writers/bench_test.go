package writers

import (
	"context"
	"testing"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

// instantSegment acknowledges on another goroutine, as a ledger client does.
type instantSegment struct {
	acks chan func(int64, error)
}

func (s *instantSegment) Segment() int64 { return 1 }
func (s *instantSegment) Abort() error   { return nil }

func (s *instantSegment) Go(_ context.Context, _ []byte, _ record.Summary, done func(int64, error)) {
	s.acks <- done
}

type instantLog struct {
	fakeLog
	seg *instantSegment
}

func (l *instantLog) start(context.Context, stream.TxID) (target, error) { return l.seg, nil }
func (l *instantLog) complete(context.Context, target) (int64, error)    { return 0, nil }

// BenchmarkGo is what the writer itself costs a record of 1 KiB.
func BenchmarkGo(b *testing.B) {
	l := &instantLog{seg: &instantSegment{acks: make(chan func(int64, error), 16)}}
	go func() {
		id := int64(0)
		for done := range l.seg.acks {
			done(id, nil)
			id++
		}
	}()
	defer close(l.seg.acks)
	w, err := open("s", l, stream.InvalidTxID, stream.Config{Roll: stream.Roll{SizeBytes: 1 << 60, Every: -1}})
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 1024)
	done := func(_ stream.DLSN, err error) {
		if err != nil {
			b.Error(err)
		}
	}
	b.ReportAllocs()
	b.SetBytes(1024)
	for b.Loop() {
		w.Go(ctxB, stream.Record{Payload: payload}, done)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

func (s *instantSegment) Short() bool { return false }
