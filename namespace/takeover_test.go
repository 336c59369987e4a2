package namespace

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/writers"
)

// history is what producers were told, to be compared with what is in the
// stream.
type history struct {
	mu    sync.Mutex
	acked map[string]stream.DLSN
	sent  []string // in the order of the calls, of one producer each
}

func (h *history) add(w *writers.Writer, payload string) {
	h.mu.Lock()
	h.sent = append(h.sent, payload)
	h.mu.Unlock()
	w.Go(bgNow(), stream.Record{Payload: []byte(payload)}, func(d stream.DLSN, err error) {
		if err == nil {
			h.mu.Lock()
			h.acked[payload] = d
			h.mu.Unlock()
		}
	})
}

// check compares: every acknowledged record is there, once, at the DLSN it was
// acknowledged with; nothing is there twice or was never sent; DLSNs rise and
// txids never go back (I4, I5).
func (h *history) check(t testing.TB, got []stream.Record) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := map[string]bool{}
	for _, p := range h.sent {
		sent[p] = true
	}
	seen := map[string]bool{}
	for i, r := range got {
		p := string(r.Payload)
		require.True(t, sent[p], "%q was never sent", p)
		require.False(t, seen[p], "%q is there twice", p)
		seen[p] = true
		if d, ok := h.acked[p]; ok {
			require.Equal(t, d, r.DLSN, "%q", p)
		}
		if i > 0 {
			require.True(t, got[i-1].DLSN.Less(r.DLSN), "%v after %v", r.DLSN, got[i-1].DLSN)
			require.LessOrEqual(t, got[i-1].TxID, r.TxID)
		}
	}
	for p, d := range h.acked {
		require.True(t, seen[p], "acknowledged %q at %v is lost", p, d)
	}
}

func newHistory() *history { return &history{acked: map[string]stream.DLSN{}} }

func records(t testing.TB, st *Stream) (out []stream.Record) {
	t.Helper()
	for r, err := range st.Replay(bg(t), stream.First(), stream.Last()) {
		require.NoError(t, err)
		out = append(out, r.Clone())
	}
	return out
}

// A second writer takes over while the first has writes in flight: the first
// fails for good, what it had acknowledged is there, what came after is the
// second's.
func TestTakeoverFencesTheOldWriter(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	h := newHistory()
	w1 := s.writer(st)
	for i := range 500 {
		h.add(w1, fmt.Sprint("w1-", i))
	}
	began := time.Now()
	w2 := s.writer(s.stream(s.open(), "a"))
	d, err := w2.Append(bg(t), stream.Record{Payload: []byte("w2-first")})
	require.NoError(t, err)
	require.Less(t, time.Since(began), 2*time.Second)
	h.sent, h.acked["w2-first"] = append(h.sent, "w2-first"), d
	_, err = w1.Append(bg(t), stream.Record{Payload: []byte("w1-late")})
	require.ErrorIs(t, err, stream.ErrFenced)
	var fe *stream.FencedError
	require.ErrorAs(t, err, &fe)
	require.ErrorIs(t, w1.Close(), stream.ErrFenced)
	for i := range 100 {
		h.add(w2, fmt.Sprint("w2-", i))
	}
	require.NoError(t, w2.Close())
	h.check(t, records(t, st))
}

// R20 on real bookies: a fenced writer whose segment is due to roll starts
// nothing, whatever it is asked; the numbers of the segments stay whole.
func TestR20FencedWriterStartsNoSegment(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{Roll: stream.Roll{SizeBytes: 1024, Every: -1}})
	w1 := s.writer(st)
	appendN(t, w1, 1, 1)
	w2 := s.writer(s.stream(s.open(), "a"))
	appendN(t, w2, 2, 1)
	for range 20 {
		_, err := w1.Append(bg(t), stream.Record{Payload: make([]byte, 2000)})
		require.ErrorIs(t, err, stream.ErrFenced)
	}
	appendN(t, w2, 3, 1)
	require.NoError(t, w2.Close())
	require.Equal(t, numbers(1, 3), payloads(t, st, stream.First(), stream.Last()))
	var segs []int64
	for i, err := range st.Segments(bg(t)) {
		require.NoError(t, err)
		segs = append(segs, i.Segment)
	}
	require.Equal(t, []int64{1, 2}, segs)
}

// A writer that never wrote is fenced too: its first write must not start a
// segment beside the one of its successor.
func TestIdleWriterIsFencedByASuccessor(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	w1 := s.writer(st)
	w2 := s.writer(s.stream(s.open(), "a"))
	appendN(t, w2, 1, 3)
	_, err := w1.Append(bg(t), rec(9, "late"))
	require.ErrorIs(t, err, stream.ErrFenced)
	require.NoError(t, w2.Close())
	require.Equal(t, numbers(1, 3), payloads(t, st, stream.First(), stream.Last()))
}

// A bookie dies under load, and comes back; then another: nothing acknowledged
// is lost and the writer goes on.
func TestBookiesDieAndComeBackUnderLoad(t *testing.T) {
	s := startSystem(t, 4)
	st := s.create("a", stream.Config{Roll: stream.Roll{SizeBytes: 64 << 10, Every: -1}})
	h := newHistory()
	w := s.writer(st)
	for round := range 4 {
		for i := range 300 {
			h.add(w, fmt.Sprintf("%d-%d-%s", round, i, make([]byte, 300)))
		}
		victim := round % 4
		s.Crash(victim)
		for i := range 300 {
			h.add(w, fmt.Sprintf("%d-%d+%s", round, i, make([]byte, 300)))
		}
		require.NoError(t, w.Flush(bg(t)), "round %d", round)
		s.Restart(victim)
		s.reachAll(stream.Name(fmt.Sprint("probe-", round)), 4)
	}
	require.NoError(t, w.Close())
	require.Len(t, h.acked, 2400)
	h.check(t, records(t, st))
}

// reachAll waits until this client can write to so many bookies at once.
func (s *system) reachAll(name stream.Name, n int) {
	s.t.Helper()
	st := s.create(name, stream.Config{Quorum: stream.Quorum{Ensemble: n, Write: n, Ack: n}})
	require.Eventually(s.t, func() bool {
		w, err := st.Writer(bg(s.t))
		if err != nil {
			return false
		}
		_, err = w.Append(bg(s.t), rec(0, "probe"))
		return w.Close() == nil && err == nil
	}, 20*time.Second, 20*time.Millisecond)
}

// Too many bookies are gone: writes end by their deadline with a typed error.
func TestWritesEndByTheirDeadlineWithoutAQuorum(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	w := s.writer(st, writers.WithWriteTimeout(5*time.Second))
	appendN(t, w, 1, 1)
	s.Stall(0, true)
	s.Stall(1, true)
	s.Stall(2, true)
	began := time.Now()
	_, err := w.Append(bg(t), rec(2, "x"))
	require.Error(t, err)
	require.True(t, errors.Is(err, stream.ErrTimeout) || errors.Is(err, stream.ErrNotEnoughBookies) || errors.Is(err, stream.ErrUnavailable), "%v", err)
	require.Less(t, time.Since(began), 8*time.Second)
	for i := range 3 {
		s.Stall(i, false)
	}
	_ = w.Close()
	w = s.writer(st)
	appendN(t, w, 3, 1)
	require.NoError(t, w.Close())
	got := payloads(t, st, stream.First(), stream.Last())
	require.Equal(t, "1", got[0])
	require.Equal(t, "3", got[len(got)-1])
}

// R34 with fewer bookies than the ensemble: a segment that is due rolls onto
// those that are left, every write ends well, and the next segments have all
// bookies once they are back.
func TestR34RollWithFewerBookies(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{Roll: stream.Roll{SizeBytes: 2048, Every: -1}})
	w := s.writer(st, writers.WithOptions(writers.Options{RollRetry: 20 * time.Millisecond}))
	h := newHistory()
	one := func(i int) stream.DLSN {
		p := fmt.Sprintf("%d-%s", i, make([]byte, 1000))
		h.sent = append(h.sent, p)
		d, err := w.Append(bg(t), stream.Record{Payload: []byte(p)})
		require.NoError(t, err)
		h.acked[p] = d
		return d
	}
	first := one(0).Segment
	s.Crash(1)
	var short int64
	i := 0
	require.Eventually(t, func() bool {
		i++
		short = one(i).Segment
		return short > first+1
	}, 20*time.Second, time.Millisecond, "it rolls with two of three bookies")
	require.Equal(t, bk.Quorum{Ensemble: 2, Write: 2, Ack: 2}, quorumOf(t, s, st, short))
	s.Restart(1)
	require.Eventually(t, func() bool {
		i++
		return quorumOf(t, s, st, one(i).Segment) == bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}
	}, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, w.Close())
	h.check(t, records(t, st))
}

// quorumOf is how the ledger of a segment is replicated.
func quorumOf(t *testing.T, s *system, st *Stream, number int64) bk.Quorum {
	t.Helper()
	for i, err := range st.Segments(bg(t)) {
		require.NoError(t, err)
		if i.Segment == number {
			m, err := s.ns.Ledgers().Metadata(bg(t), i.Ledger)
			require.NoError(t, err)
			return m.Quorum
		}
	}
	t.Fatalf("no segment %d", number)
	return bk.Quorum{}
}
