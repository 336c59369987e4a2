package writers

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLog is a claimed stream in memory. Entries are acknowledged at once
// unless hold is set.
type fakeLog struct {
	mu        sync.Mutex
	hold      bool
	prepareFn func(ctx context.Context) error
	startFn   func(ctx context.Context) error
	complFn   func(ctx context.Context) error
	segs      []*fakeSegment
	completed []int64
	firsts    []stream.TxID
	prepared  int
	discarded int
	short     bool // segments that start are short of bookies
	full      bool // of the last prepare
	sealed    bool
}

type fakeEntry struct {
	payload []byte
	sum     record.Summary
	done    func(int64, error)
}

type fakeSegment struct {
	log     *fakeLog
	number  int64
	short   bool
	mu      sync.Mutex
	entries []fakeEntry
	acked   int
	err     error
	aborted bool
}

func (l *fakeLog) prepare(ctx context.Context, full bool) error {
	l.mu.Lock()
	l.prepared++
	l.full = full
	f := l.prepareFn
	l.mu.Unlock()
	if f != nil {
		return f(ctx)
	}
	return nil
}

func (l *fakeLog) start(ctx context.Context, first stream.TxID) (target, error) {
	l.mu.Lock()
	f := l.startFn
	l.mu.Unlock()
	if f != nil {
		if err := f(ctx); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &fakeSegment{log: l, number: int64(len(l.segs) + 1), short: l.short}
	l.segs, l.firsts = append(l.segs, s), append(l.firsts, first)
	return s, nil
}

func (s *fakeSegment) Short() bool { return s.short }

func (l *fakeLog) complete(ctx context.Context, t target) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.complFn != nil {
		if err := l.complFn(ctx); err != nil {
			return 0, err
		}
	}
	l.completed = append(l.completed, t.Segment())
	return 0, nil
}

func (l *fakeLog) seal(ctx context.Context, t target) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
	return nil
}

func (l *fakeLog) discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.discarded++
}

func (l *fakeLog) segment(n int64) *fakeSegment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 1 || int(n) > len(l.segs) {
		return nil
	}
	return l.segs[n-1]
}

// last is the newest segment, nil if there is none.
func (l *fakeLog) last() *fakeSegment {
	l.mu.Lock()
	n := len(l.segs)
	l.mu.Unlock()
	return l.segment(int64(n))
}

func (s *fakeSegment) Segment() int64 { return s.number }

func (s *fakeSegment) Go(ctx context.Context, payload []byte, sum record.Summary, done func(int64, error)) {
	s.mu.Lock()
	id := int64(len(s.entries))
	s.entries = append(s.entries, fakeEntry{append([]byte(nil), payload...), sum, done})
	err := s.err
	s.log.mu.Lock()
	hold := s.log.hold
	s.log.mu.Unlock()
	if !hold {
		s.acked++
	}
	s.mu.Unlock()
	if err != nil {
		done(-1, err)
	} else if !hold {
		done(id, nil)
	}
}

func (s *fakeSegment) Abort() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aborted = true
	return nil
}

// ack acknowledges the next n entries, or fails them.
func (s *fakeSegment) ack(n int, err error) {
	for range n {
		s.mu.Lock()
		id := s.acked
		s.acked++
		done := s.entries[id].done
		if err != nil && s.err == nil {
			s.err = err
		}
		s.mu.Unlock()
		if err != nil {
			done(-1, err)
		} else {
			done(int64(id), nil)
		}
	}
}

// unacked is the number of entries that wait.
func (s *fakeSegment) unacked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries) - s.acked
}

// views gives every record of the segment.
func (s *fakeSegment) views(t *testing.T) []record.View {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []record.View
	for id, e := range s.entries {
		var it record.Iterator
		it.Reset(e.payload, true, stream.DLSN{Segment: s.number, Entry: int64(id)})
		for it.Next() {
			v := it.View()
			v.Record = v.Clone()
			out = append(out, v)
		}
		require.NoError(t, it.Err())
	}
	return out
}

func openFake(t *testing.T, l *fakeLog, cfg stream.Config, opts ...Option) *Writer {
	t.Helper()
	w, err := open("s", l, stream.InvalidTxID, cfg, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Abort() })
	return w
}

func rec(tx stream.TxID, payload string) stream.Record {
	return stream.Record{TxID: tx, Payload: []byte(payload)}
}

// outcomes gathers callbacks.
type outcomes struct {
	mu  sync.Mutex
	got []outcome
}

type outcome struct {
	i   int
	d   stream.DLSN
	err error
}

func (o *outcomes) of(i int) func(stream.DLSN, error) {
	return func(d stream.DLSN, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.got = append(o.got, outcome{i, d, err})
	}
}

func (o *outcomes) all() []outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]outcome(nil), o.got...)
}

func short() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Second)
}
