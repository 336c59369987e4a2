package writers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
)

var smallRoll = stream.Config{Roll: stream.Roll{SizeBytes: 1024, Every: -1}}

// appendKiB appends n records of 1 KiB, one by one.
func appendKiB(t *testing.T, w *Writer, n int) (ds []stream.DLSN) {
	t.Helper()
	for range n {
		d, err := w.Append(ctxB, stream.Record{Payload: make([]byte, 1024)})
		require.NoError(t, err)
		ds = append(ds, d)
		synctest.Wait()
	}
	return ds
}

func TestRollBySizeStartsTheNextBeforeTheOldIsCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{}
		l.complFn = func(context.Context) error {
			require.Greater(t, len(l.segs), len(l.completed)+1, "the next segment was started before")
			return nil
		}
		w := openFake(t, l, smallRoll)
		var segs []int64
		for _, d := range appendKiB(t, w, 4) {
			segs = append(segs, d.Segment)
		}
		require.Equal(t, []int64{1, 2, 3, 4}, segs)
		require.Equal(t, []int64{1, 2, 3, 4}, l.completed, "each once the next was there")
		l.complFn = nil
		require.NoError(t, w.Close())
		for _, s := range l.segs[:4] {
			require.Equal(t, int64(1), s.views(t)[0].Position)
		}
		require.Len(t, l.segs, 5)
	})
}

func TestRollByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{}
		w := openFake(t, l, stream.Config{Roll: stream.Roll{Every: time.Hour}})
		appendKiB(t, w, 3)
		require.Len(t, l.segs, 1)
		<-time.After(time.Hour)
		appendKiB(t, w, 1)
		require.Len(t, l.segs, 2, "the write that finds the age rolls")
		require.Equal(t, int64(2), appendKiB(t, w, 1)[0].Segment)
		require.NoError(t, w.Close())
	})
}

// What waits while a segment is started goes into it with positions that count
// from its start; nothing is handed over before the old one is acknowledged.
func TestRollMovesWaitingEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{hold: true}
		w := openFake(t, l, smallRoll, WithEntriesInFlight(4), WithEntryBytes(2000))
		var o outcomes
		for i := range 30 {
			w.Go(ctxB, stream.Record{Payload: make([]byte, 600)}, o.of(i))
			if i < 3 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		require.Equal(t, rollPrepared, w.roll)
		old := l.segment(1).unacked()
		require.Less(t, old, 10)
		require.Nil(t, l.segment(2))
		l.segment(1).ack(old-1, nil)
		synctest.Wait()
		require.Nil(t, l.segment(2), "the old segment is not acknowledged to its end")
		l.segment(1).ack(1, nil)
		synctest.Wait()
		require.NotNil(t, l.segment(2))
		for len(o.all()) < 30 {
			s := l.segs[len(l.segs)-1]
			s.ack(s.unacked(), nil)
			synctest.Wait()
		}
		for i, c := range o.all() {
			require.NoError(t, c.err)
			require.Equal(t, i, c.i)
		}
		for _, s := range l.segs {
			for i, v := range s.views(t) {
				require.Equal(t, int64(i+1), v.Position)
			}
		}
		l.mu.Lock()
		l.hold = false
		l.mu.Unlock()
		require.NoError(t, w.Close())
	})
}

func TestRollThatFailsLeavesTheWriterOnItsSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{}
		w := openFake(t, l, smallRoll, WithOptions(Options{RollRetry: time.Minute}))
		appendKiB(t, w, 1)
		require.Len(t, l.segs, 2)
		l.mu.Lock()
		l.prepareFn = func(context.Context) error { return stream.ErrNotEnoughBookies }
		l.mu.Unlock()
		for _, d := range appendKiB(t, w, 5) {
			require.Equal(t, int64(2), d.Segment)
		}
		prepared := l.prepared
		<-time.After(61 * time.Second)
		appendKiB(t, w, 1)
		require.Equal(t, prepared+1, l.prepared, "it rests between attempts")
		l.mu.Lock()
		l.prepareFn, l.startFn = nil, func(context.Context) error { return stream.ErrUnavailable }
		l.mu.Unlock()
		<-time.After(61 * time.Second)
		for _, d := range appendKiB(t, w, 5) {
			require.Equal(t, int64(2), d.Segment)
		}
		l.mu.Lock()
		l.startFn = nil
		l.mu.Unlock()
		<-time.After(61 * time.Second)
		appendKiB(t, w, 1)
		require.Equal(t, int64(3), appendKiB(t, w, 1)[0].Segment)
		require.NoError(t, w.Close())
	})
}

// R34: a roll whose metadata hangs does not hold a write past its deadline, and
// the order holds when it comes back.
func TestR34WritesEndByTheirDeadlineWhileARollHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{}
		w := openFake(t, l, smallRoll, WithOptions(Options{OpTimeout: 2 * time.Minute}))
		stall := make(chan struct{})
		l.startFn = func(ctx context.Context) error {
			l.mu.Lock()
			first := len(l.segs) == 0
			l.mu.Unlock()
			if first {
				return nil
			}
			select {
			case <-stall:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		appendKiB(t, w, 1)
		var o outcomes
		for i := range 20 {
			ctx, cancel := context.WithTimeout(ctxB, 2*time.Second)
			began := time.Now()
			w.Go(ctx, rec(0, fmt.Sprint(i)), o.of(i))
			<-time.After(3 * time.Second)
			require.Len(t, o.all(), i+1, "ended %v after %v", i, time.Since(began))
			require.ErrorIs(t, o.all()[i].err, stream.ErrTimeout)
			cancel()
		}
		close(stall)
		synctest.Wait()
		d, err := w.Append(ctxB, rec(0, "after"))
		require.NoError(t, err)
		require.Equal(t, int64(2), d.Segment)
		views := l.segment(2).views(t)
		require.Len(t, views, 21)
		for i, v := range views[:20] {
			require.Equal(t, fmt.Sprint(i), string(v.Payload), "what timed out may land, once and in order")
		}
		require.NoError(t, w.Close())
	})
}

// R20: a writer that is fenced in a roll fails for good and starts nothing.
func TestR20FencedWriterNeverRolls(t *testing.T) {
	for _, where := range []string{"prepare", "start", "complete", "add"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &fakeLog{}
				w := openFake(t, l, smallRoll)
				_, err := w.Append(ctxB, rec(1, "small"))
				require.NoError(t, err)
				fenced := func(context.Context) error { return fmt.Errorf("epoch moved: %w", stream.ErrFenced) }
				l.mu.Lock()
				switch where {
				case "prepare":
					l.prepareFn = fenced
				case "start":
					l.startFn = fenced
				case "complete":
					l.complFn = fenced
				case "add":
					l.segs[0].err = stream.ErrFenced
				}
				l.mu.Unlock()
				_, err = w.Append(ctxB, stream.Record{Payload: make([]byte, 2000)})
				if where == "add" {
					require.ErrorIs(t, err, stream.ErrFenced)
				}
				<-w.Done()
				started := len(l.segs)
				var fe *stream.FencedError
				require.ErrorAs(t, w.Err(), &fe)
				require.Equal(t, stream.Name("s"), fe.Stream)
				for range 10 {
					_, err = w.Append(ctxB, stream.Record{Payload: make([]byte, 2000)})
					require.ErrorIs(t, err, stream.ErrFenced)
				}
				require.ErrorIs(t, w.Close(), stream.ErrFenced)
				require.Len(t, l.segs, started)
			})
		})
	}
}

func TestFirstStartThatFailsIsTyped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{startFn: func(context.Context) error { return fmt.Errorf("2 of 3: %w", stream.ErrNotEnoughBookies) }}
		w := openFake(t, l, stream.Config{})
		_, err := w.Append(ctxB, rec(0, "x"))
		require.ErrorIs(t, err, stream.ErrNotEnoughBookies)
		require.ErrorIs(t, w.Close(), stream.ErrNotEnoughBookies)
	})
}

func TestCompletionIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{}
		w := openFake(t, l, smallRoll)
		l.complFn = func(context.Context) error { return stream.ErrUnavailable }
		appendKiB(t, w, 3)
		require.Len(t, l.segs, 2, "no roll while the segment before is not completed")
		require.Empty(t, l.completed)
		l.mu.Lock()
		l.complFn = nil
		l.mu.Unlock()
		<-time.After(w.opts.RollRetry)
		synctest.Wait()
		require.Equal(t, []int64{1}, l.completed)
		require.NoError(t, w.Close())
		require.Equal(t, []int64{1, 2}, l.completed)
	})
}

func TestCloseReportsWhatItCouldNotComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{complFn: func(context.Context) error { return stream.ErrUnavailable }}
		w := openFake(t, l, smallRoll)
		appendKiB(t, w, 1)
		began := time.Now()
		require.ErrorIs(t, w.Close(), stream.ErrUnavailable)
		require.Less(t, time.Since(began), time.Second)
	})
}

func TestCloseGivesUpOnRecordsThatAreNeverAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{hold: true}
		w := openFake(t, l, stream.Config{}, WithWriteTimeout(5*time.Second))
		var o outcomes
		w.Go(ctxB, rec(0, "x"), o.of(0))
		began := time.Now()
		require.ErrorIs(t, w.Close(), stream.ErrTimeout)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.Len(t, o.all(), 1)
		require.Empty(t, l.completed)
	})
}

func TestAbortRunsEveryCallbackBeforeItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{hold: true}
		w := openFake(t, l, stream.Config{}, WithEntriesInFlight(2))
		var o outcomes
		for i := range 50 {
			w.Go(ctxB, rec(0, "x"), o.of(i))
		}
		synctest.Wait()
		require.NoError(t, w.Abort())
		require.Len(t, o.all(), 50)
		for i, c := range o.all() {
			require.Equal(t, i, c.i)
			require.ErrorIs(t, c.err, stream.ErrClosed)
		}
		require.True(t, l.segment(1).aborted)
		require.Empty(t, l.completed)
		l.segment(1).ack(l.segment(1).unacked(), nil)
		require.Len(t, o.all(), 50)
		require.NoError(t, w.Abort())
		require.NoError(t, w.Close())
	})
}

func TestSealEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{}
		w := openFake(t, l, stream.Config{})
		appendKiB(t, w, 1)
		require.NoError(t, w.Seal(ctxB))
		require.True(t, l.sealed)
		require.Empty(t, l.completed)
		require.ErrorIs(t, w.Seal(ctxB), stream.ErrClosed)
	})
}

// Random appends, acknowledgements, failures and rolls: every callback runs
// once, in order, and what is acknowledged is a prefix of what is stored.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { randomHistory(t, seed) })
		if t.Failed() {
			t.Fatalf("replay: go test ./writers -run TestRandomHistories, seed %d", seed)
		}
	}
}

func randomHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	l := &fakeLog{hold: true}
	own := rand.New(rand.NewPCG(seed, 2))
	flaky := func(context.Context) error {
		<-time.After(time.Duration(own.IntN(5)) * time.Millisecond)
		if own.IntN(4) == 0 {
			return stream.ErrUnavailable
		}
		return nil
	}
	l.prepareFn, l.complFn = flaky, nil
	w := openFake(t, l, smallRoll, WithOptions(Options{RollRetry: 10 * time.Millisecond, BytesInFlight: 8000, EntryBytes: 1500, EntriesInFlight: 1 + rng.IntN(4)}))
	var o outcomes
	n, failAt := 0, rng.IntN(400)
	for range 300 {
		switch rng.IntN(4) {
		case 0, 1:
			if w.TryGo(rec(0, fmt.Sprintf("%d%s", n, make([]byte, rng.IntN(900)))), o.of(n)) == nil {
				n++
			}
		case 2:
			if s := l.last(); s != nil && s.unacked() > 0 {
				var err error
				if failAt--; failAt < 0 && rng.IntN(50) == 0 {
					err = stream.ErrFenced
				}
				s.ack(1, err)
			}
		case 3:
			<-time.After(time.Millisecond)
		}
	}
	for len(o.all()) < n && w.Err() == nil {
		if s := l.last(); s != nil {
			s.ack(s.unacked(), nil)
		}
		<-time.After(time.Millisecond)
	}
	err := w.Close()
	if w.err == nil {
		require.NoError(t, err)
	} else {
		require.ErrorIs(t, err, stream.ErrFenced)
	}
	checkHistory(t, l, o.all(), n)
}

func checkHistory(t *testing.T, l *fakeLog, got []outcome, n int) {
	require.Len(t, got, n, "every callback ran, once")
	var stored []stream.DLSN
	for _, s := range l.segs {
		for i, v := range s.views(t) {
			require.Equal(t, int64(i+1), v.Position)
			stored = append(stored, v.DLSN)
		}
	}
	failed := false
	for i, c := range got {
		require.Equal(t, i, c.i, "in order")
		if c.err != nil {
			require.True(t, errors.Is(c.err, stream.ErrFenced) || errors.Is(c.err, stream.ErrClosed), "%v", c.err)
			failed = true
			continue
		}
		require.False(t, failed, "what is acknowledged is a prefix")
		require.Equal(t, stored[i], c.d)
	}
}

// TestShortSegmentIsReplacedOnceBookiesAreBack: a segment with fewer bookies
// than configured is written on, looked at now and then, and rolled away from
// as soon as there are enough; a look that finds too few is no failure.
func TestShortSegmentIsReplacedOnceBookiesAreBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{short: true}
		w := openFake(t, l, stream.Config{})
		appendKiB(t, w, 2)
		require.Len(t, l.segs, 1)
		require.False(t, l.full, "the first segment takes what there is")
		l.mu.Lock()
		l.short, l.prepareFn = false, func(context.Context) error { return stream.ErrNotEnoughBookies }
		l.mu.Unlock()
		for range 3 {
			<-time.After(shortFor)
			prepared := l.prepared
			appendKiB(t, w, 2)
			synctest.Wait()
			require.Equal(t, prepared+1, l.prepared)
			require.True(t, l.full, "a roll for this reason must bring all bookies")
			require.Len(t, l.segs, 1)
		}
		l.mu.Lock()
		l.prepareFn = nil
		l.mu.Unlock()
		<-time.After(shortFor)
		appendKiB(t, w, 3)
		require.Len(t, l.segs, 2)
		prepared := l.prepared
		<-time.After(10 * shortFor)
		appendKiB(t, w, 3)
		require.Equal(t, prepared, l.prepared, "a full segment is left alone")
		require.NoError(t, w.Close())
	})
}
