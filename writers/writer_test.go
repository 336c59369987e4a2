package writers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/stream"
	"github.com/loglode/loglode/stream/record"
)

var ctxB = context.Background()

func TestAppendGivesDLSNsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{}
		w := openFake(t, l, stream.Config{})
		for i := range 5 {
			d, err := w.Append(ctxB, rec(stream.TxID(10+i), fmt.Sprint(i)))
			require.NoError(t, err)
			require.Equal(t, stream.DLSN{Segment: 1, Entry: int64(i)}, d)
		}
		ds, err := w.AppendBatch(ctxB, []stream.Record{rec(20, "a"), rec(20, ""), rec(21, "c")})
		require.NoError(t, err)
		require.Equal(t, []stream.DLSN{{Segment: 1, Entry: 5}, {Segment: 1, Entry: 5, Slot: 1}, {Segment: 1, Entry: 5, Slot: 2}}, ds)
		require.NoError(t, w.Close())
		require.Equal(t, []int64{1}, l.completed)
		require.Equal(t, []stream.TxID{10}, l.firsts)
		for i, v := range l.segment(1).views(t) {
			require.Equal(t, int64(i+1), v.Position)
		}
		_, err = w.Append(ctxB, rec(30, "x"))
		require.ErrorIs(t, err, stream.ErrClosed)
		require.ErrorIs(t, w.Err(), stream.ErrClosed)
		require.NoError(t, w.Close())
	})
}

func TestEntriesGrowWhileAcknowledgementsAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{hold: true}
		w := openFake(t, l, stream.Config{}, WithEntriesInFlight(2))
		var o outcomes
		for i := range 100 {
			w.Go(ctxB, rec(1, "x"), o.of(i))
			synctest.Wait()
		}
		s := l.segment(1)
		require.Equal(t, 2, s.unacked(), "no more than EntriesInFlight are handed over")
		s.ack(1, nil)
		synctest.Wait()
		require.Equal(t, 2, s.unacked())
		s.ack(2, nil)
		synctest.Wait()
		require.Equal(t, 0, s.unacked(), "98 waiting records left in one entry")
		for i, c := range o.all() {
			require.Equal(t, i, c.i)
			require.NoError(t, c.err)
			require.Equal(t, stream.DLSN{Segment: 1, Entry: int64(min(i, 2)), Slot: int64(max(i-2, 0))}, c.d)
		}
		require.Len(t, o.all(), 100)
	})
}

func TestEntryIsFullAtEntryBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{hold: true}
		w := openFake(t, l, stream.Config{}, WithEntriesInFlight(100), WithEntryBytes(1000))
		big := string(make([]byte, 300))
		w.Go(ctxB, rec(1, "x"), func(stream.DLSN, error) {})
		synctest.Wait()
		w.mu.Lock()
		w.opts.EntriesInFlight = 1 // let the queue grow
		w.mu.Unlock()
		for range 10 {
			w.Go(ctxB, rec(1, big), func(stream.DLSN, error) {})
		}
		w.Go(ctxB, rec(1, string(make([]byte, record.PayloadSizeMax))), func(stream.DLSN, error) {})
		w.mu.Lock()
		w.opts.EntriesInFlight = 100
		w.signal()
		w.mu.Unlock()
		synctest.Wait()
		var sizes []int
		for _, e := range l.segment(1).entries[1:] {
			sizes = append(sizes, e.sum.User)
			require.LessOrEqual(t, len(e.payload), record.EntrySizeMax)
		}
		require.Equal(t, []int{3, 3, 3, 1, 1}, sizes)
	})
}

func TestTxIDRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{}
		w := openFake(t, l, stream.Config{})
		for _, c := range []struct {
			tx, last stream.TxID
			ok       bool
		}{
			{50, stream.InvalidTxID, true}, {50, 50, true}, {49, 50, false}, {-1, 50, false}, {-999, 50, false},
			{51, 50, true}, {math.MaxInt64, 51, false}, {40, 51, false},
		} {
			_, err := w.Append(ctxB, rec(c.tx, "x"))
			if c.ok {
				require.NoError(t, err, "txid %d", c.tx)
				require.Equal(t, c.tx, w.LastTxID())
				continue
			}
			var oe *stream.TxIDOrderError
			require.ErrorAs(t, err, &oe, "txid %d", c.tx)
			require.ErrorIs(t, err, stream.ErrTxIDOrder)
			require.Equal(t, stream.TxIDOrderError{TxID: c.tx, Last: c.last}, *oe)
		}
		_, err := w.AppendBatch(ctxB, []stream.Record{rec(60, "a"), rec(59, "b")})
		require.ErrorIs(t, err, stream.ErrTxIDOrder)
		require.Equal(t, stream.TxID(51), w.LastTxID(), "a refused batch leaves nothing behind")
		_, err = w.Append(ctxB, rec(0, "now"))
		require.NoError(t, err)
		require.Equal(t, stream.TxIDOf(time.Now()), w.LastTxID())
		future := stream.TxIDOf(time.Now().Add(time.Hour))
		_, err = w.Append(ctxB, rec(future, "ahead"))
		require.NoError(t, err)
		_, err = w.Append(ctxB, rec(0, "clock is behind"))
		require.NoError(t, err)
		require.Equal(t, future, w.LastTxID())
		require.Len(t, l.segment(1).views(t), 6)
	})
}

func TestRecordOverTheLimitNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{}
		w := openFake(t, l, stream.Config{})
		_, err := w.Append(ctxB, stream.Record{Payload: make([]byte, record.PayloadSizeMax)})
		require.NoError(t, err)
		_, err = w.Append(ctxB, stream.Record{Payload: make([]byte, record.PayloadSizeMax+1)})
		var tl *stream.RecordTooLongError
		require.ErrorAs(t, err, &tl)
		require.Equal(t, stream.RecordTooLongError{Size: record.PayloadSizeMax + 1, Limit: record.PayloadSizeMax}, *tl)
		require.ErrorContains(t, err, "1040364")
		half := stream.Record{Payload: make([]byte, 600<<10)}
		_, err = w.AppendBatch(ctxB, []stream.Record{half, half})
		require.ErrorIs(t, err, stream.ErrRecordTooLong)
		_, err = w.AppendBatch(ctxB, nil)
		require.ErrorIs(t, err, errNoRecords)
		require.Len(t, l.segment(1).views(t), 1)
	})
}

func TestByteLimitBlocksGoAndRefusesTryGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{hold: true}
		w := openFake(t, l, stream.Config{}, WithBytesInFlight(1000))
		var o outcomes
		w.Go(ctxB, stream.Record{Payload: make([]byte, 2000)}, o.of(0)) // one may always be in flight
		synctest.Wait()
		require.ErrorIs(t, w.TryGo(rec(0, "x"), o.of(9)), stream.ErrBufferFull)
		ctx, cancel := short()
		defer cancel()
		began := time.Now()
		w.Go(ctx, rec(0, "too late"), o.of(1))
		require.Equal(t, time.Second, time.Since(began))
		require.Len(t, o.all(), 1)
		require.ErrorIs(t, o.all()[0].err, stream.ErrTimeout)
		time.AfterFunc(5*time.Second, func() { l.segment(1).ack(1, nil) })
		began = time.Now()
		w.Go(ctxB, rec(0, "x"), o.of(2))
		require.Equal(t, 5*time.Second, time.Since(began))
		synctest.Wait()
		l.segment(1).ack(1, nil)
		synctest.Wait()
		require.Len(t, o.all(), 3)
		require.NoError(t, o.all()[2].err)
		w.mu.Lock()
		require.Zero(t, w.bytes)
		w.mu.Unlock()
	})
}

func TestAppendEndsByItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{hold: true}
		w := openFake(t, l, stream.Config{}, WithWriteTimeout(10*time.Second))
		var o outcomes
		ctx, cancel := short()
		defer cancel()
		began := time.Now()
		w.Go(ctxB, rec(0, "ten seconds"), o.of(0))
		w.Go(ctx, rec(0, "one second"), o.of(1))
		_, err := w.Append(ctx, rec(0, "x"))
		require.ErrorIs(t, err, stream.ErrTimeout)
		require.Equal(t, time.Second, time.Since(began))
		synctest.Wait()
		require.Len(t, o.all(), 1)
		require.Equal(t, 1, o.all()[0].i)
		require.ErrorIs(t, o.all()[0].err, stream.ErrTimeout)
		<-time.After(9 * time.Second)
		synctest.Wait()
		require.Len(t, o.all(), 2)
		require.ErrorIs(t, o.all()[1].err, stream.ErrTimeout)
		l.segment(1).ack(l.segment(1).unacked(), nil)
		synctest.Wait()
		require.Len(t, o.all(), 2, "a late acknowledgement does not call back again")
		require.NoError(t, w.Err(), "the writer goes on")
		canceled, stop := context.WithCancel(ctxB)
		stop()
		_, err = w.Append(canceled, rec(0, "x"))
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestFailedEntryEndsTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{hold: true}
		var failed error
		w := openFake(t, l, stream.Config{}, WithEntriesInFlight(3), WithEvents(Events{Failed: func(err error) { failed = err }}))
		var o outcomes
		for i := range 10 {
			w.Go(ctxB, rec(1, "x"), o.of(i))
			synctest.Wait()
		}
		cause := errors.New("no quorum")
		s := l.segment(1)
		s.ack(1, nil)
		s.ack(1, fmt.Errorf("%w: %w", stream.ErrNotEnoughBookies, cause))
		synctest.Wait()
		got := o.all()
		require.Len(t, got, 10)
		require.NoError(t, got[0].err)
		for i, c := range got {
			require.Equal(t, i, c.i, "callbacks keep their order")
			if i > 0 {
				require.ErrorIs(t, c.err, cause)
				require.ErrorIs(t, c.err, stream.ErrNotEnoughBookies)
			}
		}
		require.ErrorIs(t, w.Err(), cause)
		require.ErrorIs(t, failed, cause)
		<-w.Done()
		_, err := w.Append(ctxB, rec(2, "x"))
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, w.Close(), cause)
		require.True(t, s.aborted)
		require.Len(t, l.segs, 1)
		s.ack(s.unacked(), cause)
	})
}

func TestFlushWaitsForWhatWasAppendedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{hold: true}
		w := openFake(t, l, stream.Config{})
		require.NoError(t, w.Flush(ctxB))
		var o outcomes
		w.Go(ctxB, rec(1, "x"), o.of(0))
		synctest.Wait()
		time.AfterFunc(time.Second, func() { l.segment(1).ack(1, nil) })
		began := time.Now()
		require.NoError(t, w.Flush(ctxB))
		require.Equal(t, time.Second, time.Since(began))
		require.Len(t, o.all(), 1)
		w.Go(ctxB, rec(1, "x"), o.of(1))
		ctx, cancel := short()
		defer cancel()
		require.ErrorIs(t, w.Flush(ctx), stream.ErrTimeout)
		l.segment(1).ack(1, stream.ErrNotEnoughBookies)
		require.ErrorIs(t, w.Flush(ctxB), stream.ErrNotEnoughBookies)
	})
}

func TestRecordSetTakesItsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{hold: true}
		w := openFake(t, l, stream.Config{}, WithEntriesInFlight(1))
		var set record.SetBuilder
		set.Reset(stream.CompressionNone)
		for _, p := range []string{"a", "b", "c"} {
			require.NoError(t, set.Append([]byte(p)))
		}
		packed, err := set.Finish()
		require.NoError(t, err)
		var o outcomes
		w.Go(ctxB, rec(1, "0"), o.of(0))
		synctest.Wait()
		w.Go(ctxB, rec(1, "1"), o.of(1))
		w.GoSet(ctxB, 2, packed, o.of(2))
		w.GoSet(ctxB, 2, []byte("short"), o.of(99))
		w.GoBatch(ctxB, []stream.Record{rec(3, "5"), rec(4, "6")}, o.of(3))
		w.Go(ctxB, rec(4, "7"), o.of(4))
		l.segment(1).ack(1, nil)
		synctest.Wait()
		l.segment(1).ack(1, nil)
		got := o.all()
		require.Equal(t, 99, got[0].i)
		require.ErrorIs(t, got[0].err, stream.ErrCorrupt)
		for k, slot := range []int64{0, 1, 4, 6} {
			require.Equal(t, outcome{k + 1, stream.DLSN{Segment: 1, Entry: 1, Slot: slot}, nil}, got[k+2])
		}
		views := l.segment(1).views(t)
		require.Len(t, views, 8)
		for i, v := range views {
			require.Equal(t, int64(i+1), v.Position)
		}
	})
}

func TestCompressedEntriesDecode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{}
		w := openFake(t, l, stream.Config{Compression: stream.CompressionLZ4})
		text := string(make([]byte, 5000))
		_, err := w.Append(ctxB, rec(1, text))
		require.NoError(t, err)
		require.Less(t, len(l.segment(1).entries[0].payload), 500)
		require.Equal(t, text, string(l.segment(1).views(t)[0].Payload))
	})
}
