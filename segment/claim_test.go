package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// TestR20FencedWriterNeverRolls: the old owner, fenced on its next append, can
// neither allocate, start, complete nor seal, and goes on failing.
func TestR20FencedWriterNeverRolls(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	ctx := t.Context()
	c1 := claim(t, s)
	w1 := start(t, c1, 1)
	mustPut(t, w1, rec{txid: 1, payload: "a"})
	spare, err := c1.Allocate(ctx, one)
	require.NoError(t, err)

	c2 := claim(t, w.stream("s"))
	require.Equal(t, stream.TxID(1), c2.LastTxID())
	w2 := start(t, c2, 2)
	mustPut(t, w2, rec{txid: 2, payload: "b"})

	_, err = put(t, w1, rec{txid: 2, payload: "lost"})
	require.ErrorIs(t, err, stream.ErrFenced)
	require.ErrorIs(t, w1.Err(), stream.ErrFenced)
	for range 3 {
		_, err = c1.Start(ctx, spare, 2)
		require.ErrorIs(t, err, stream.ErrFenced)
		_, err = c1.Allocate(ctx, one)
		require.ErrorIs(t, err, stream.ErrFenced)
		_, err = c1.Complete(ctx, w1)
		require.ErrorIs(t, err, stream.ErrFenced)
		require.ErrorIs(t, c1.Seal(ctx, nil, one), stream.ErrFenced)
		require.ErrorIs(t, c1.Err(), stream.ErrFenced)
	}
	mustPut(t, w2, rec{txid: 3, payload: "c"})
	require.Equal(t, []string{"1:0:0 1 a", "2:0:0 2 b", "2:1:0 3 c"}, records(t, s))
	_, err = c2.Complete(ctx, w2)
	require.NoError(t, err)
	require.Len(t, w.ledgers.ids(), 2, "no ledger of the old owner is left")
}

// TestR20OwnerOfAnEmptySegment: taking over a stream whose segment in progress
// is empty changes no number in the metadata; the old owner must be out all the
// same.
func TestR20OwnerOfAnEmptySegment(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	c1 := claim(t, s)
	start(t, c1, 1)
	spare, err := c1.Allocate(t.Context(), one)
	require.NoError(t, err)
	c2 := claim(t, w.stream("s"))
	_, err = c1.Start(t.Context(), spare, 1)
	require.ErrorIs(t, err, stream.ErrFenced)
	w2 := start(t, c2, 1)
	require.Equal(t, int64(1), w2.Segment(), "the number of the empty segment is used again")
	// The same for a claim that had not started anything.
	c3, c4 := claim(t, s), claim(t, w.stream("s"))
	_, err = c3.Allocate(t.Context(), one)
	require.ErrorIs(t, err, stream.ErrFenced)
	start(t, c4, 1)
}

// TestR20TakeoverAtEveryStepOfARoll stalls a writer before each transaction of
// its life in turn and lets another take the stream over meanwhile.
func TestR20TakeoverAtEveryStepOfARoll(t *testing.T) {
	// The owner's script: claim, append, roll, append, complete. It gives the
	// payloads that were acknowledged.
	script := func(w *world) (acked []string, err error) {
		ctx := w.t.Context()
		c, err := w.stream("s").Claim(ctx)
		if err != nil {
			return nil, err
		}
		defer func() {
			if err == nil { // the last transaction may be the other's completion of the same segment
				err = c.settle(ctx)
			}
		}()
		txid := max(c.LastTxID()+1, 1)
		var current *Writer
		for range 2 {
			a, err := c.Allocate(ctx, one)
			if err != nil {
				return acked, err
			}
			next, err := c.Start(ctx, a, txid)
			if err != nil {
				return acked, err
			}
			if current != nil {
				if _, err := c.Complete(ctx, current); err != nil {
					return acked, err
				}
			}
			current = next
			for range 2 {
				txid++
				payload := fmt.Sprintf("old-%d", txid)
				if _, err := put(w.t, current, rec{txid: txid, payload: payload}); err != nil {
					return acked, err
				}
				acked = append(acked, payload)
			}
		}
		_, err = c.Complete(ctx, current)
		return acked, err
	}
	w := newWorld(t)
	w.create("s")
	before := w.store.txns
	_, err := script(w)
	require.NoError(t, err)
	steps := w.store.txns - before
	require.Greater(t, steps, 6)
	for stall := range steps {
		t.Run(fmt.Sprint("before transaction ", stall), func(t *testing.T) {
			w := newWorld(t)
			s := w.create("s")
			var c2 *Claim
			var w2 *Writer
			first := w.store.txns
			w.store.fate = func(n int, _ []metadata.Op) fate {
				if n == first+stall {
					w.store.fate = nil
					c2 = claim(t, w.stream("s"))
					w2 = start(t, c2, max(c2.LastTxID(), 0))
					mustPut(t, w2, rec{txid: 1000, payload: "new"})
				}
				return delivered
			}
			acked, err := script(w)
			if stall == 0 {
				// The claim itself was overtaken: it is the newer one.
				require.NoError(t, err)
				require.ErrorIs(t, c2.check(t.Context(), errors.New("test")), stream.ErrFenced)
				return
			}
			require.ErrorIs(t, err, stream.ErrFenced)
			mustPut(t, w2, rec{txid: 1001, payload: "newer"})
			_, err = c2.Complete(t.Context(), w2)
			require.NoError(t, err)
			var got []string
			for _, r := range records(t, s) {
				got = append(got, r[strings.LastIndexByte(r, ' ')+1:])
			}
			require.Equal(t, append(acked, "new", "newer"), got)
			infos, err := s.List(t.Context())
			require.NoError(t, err)
			require.Equal(t, w2.Segment(), infos[len(infos)-1].Segment, "nothing was started after the takeover")
		})
	}
}

// TestR31TxIDAfterAnEmptySegment: a segment that was announced and never
// written neither raises the stream's txid nor leaves a hole.
func TestR31TxIDAfterAnEmptySegment(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	ctx := t.Context()
	c := claim(t, s)
	w1 := start(t, c, 50)
	mustPut(t, w1, rec{txid: 50, payload: "persisted"})
	_, err := c.Complete(ctx, w1)
	require.NoError(t, err)
	start(t, c, 100) // announces 100 and dies

	c = claim(t, w.stream("s"))
	require.Equal(t, stream.TxID(50), c.LastTxID())
	a, err := c.Allocate(ctx, one)
	require.NoError(t, err)
	var order *stream.TxIDOrderError
	_, err = c.Start(ctx, a, 40)
	require.ErrorAs(t, err, &order)
	require.Equal(t, stream.TxIDOrderError{TxID: 40, Last: 50}, *order)
	for _, bad := range []stream.TxID{-1, stream.EndOfStreamTxID} {
		_, err = c.Start(ctx, a, bad)
		require.ErrorIs(t, err, stream.ErrTxIDOrder)
	}
	w2, err := c.Start(ctx, a, 51)
	require.NoError(t, err, "the allocation is still good")
	require.Equal(t, int64(2), w2.Segment(), "no hole, no repeat")
	mustPut(t, w2, rec{txid: 51, payload: "next"})
	_, err = c.Complete(ctx, w2)
	require.NoError(t, err)
	w3 := start(t, c, 51) // an equal one may follow
	mustPut(t, w3, rec{txid: 51, payload: "equal"})
	require.Equal(t, []string{"1:0:0 50 persisted", "2:0:0 51 next", "3:0:0 51 equal"}, records(t, s))
	require.Equal(t, "51", w.dump(s.keys.root)["maxtxid"])
}

// TestR32EmptyRecordsAreRecovered: empty payloads and one-entry ledgers are not
// taken for empty segments.
func TestR32EmptyRecordsAreRecovered(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	c := claim(t, s)
	w1 := start(t, c, 1)
	mustPut(t, w1, rec{txid: 1})
	_, err := c.Complete(t.Context(), w1)
	require.NoError(t, err)
	w2 := start(t, c, 1)
	for range 4 {
		mustPut(t, w2, rec{txid: 1})
	}
	c = claim(t, s) // the writer died
	w3 := start(t, c, 1)
	mustPut(t, w3, rec{txid: 1})
	c = claim(t, s) // again, with nothing but entry 0
	w4 := start(t, c, 1)
	mustPut(t, w4, rec{txid: 1}, rec{txid: 1, payload: "x"}, rec{txid: 1})
	claim(t, s)
	require.Equal(t, []string{"1:0:0 1 ", "2:0:0 1 ", "2:1:0 1 ", "2:2:0 1 ", "2:3:0 1 ", "3:0:0 1 ", "4:0:0 1 ", "4:0:1 1 x", "4:0:2 1 "}, records(t, s))
	require.Equal(t, map[string]string{
		"logrecs_000000000000000001": "4294967301;0;1;1;0;1;0;0;0;0;0",
		"logrecs_000000000000000002": "17179869189;1;1;1;0;2;3;0;0;0;1",
		"logrecs_000000000000000003": "4294967301;2;1;1;0;3;0;0;0;0;5",
		"logrecs_000000000000000004": "12884901893;3;1;1;0;4;0;2;0;0;6",
	}, texts(t, s))
}

// TestR35CrashLoopLeavesNoTrail: owners that die right after opening their
// segment leave at most one empty segment and no surplus ledger.
func TestR35CrashLoopLeavesNoTrail(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	for round := range 200 {
		c := claim(t, w.stream("s"))
		sw := start(t, c, 1)
		require.Equal(t, int64(1), sw.Segment())
		if round%3 == 0 {
			_, err := c.Allocate(t.Context(), one) // and one more, for a roll
			require.NoError(t, err)
		}
		infos, err := s.List(t.Context())
		require.NoError(t, err)
		require.Len(t, infos, 1)
		require.LessOrEqual(t, len(w.ledgers.ids()), 2)
	}
	claim(t, s)
	infos, err := s.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, infos)
}

// TestRollCutShort: a crash between the start of the next segment and the
// completion of the last one leaves two in progress.
func TestRollCutShort(t *testing.T) {
	for _, tc := range []struct {
		name           string
		first, second  bool // does it have a record?
		want           []string
		segmentsListed int
	}{
		{"both written", true, true, []string{"1:0:0 1 a", "2:0:0 2 b"}, 2},
		{"second empty", true, false, []string{"1:0:0 1 a"}, 1},
		{"first empty", false, true, []string{"2:0:0 2 b"}, 2},
		{"both empty", false, false, nil, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.create("s")
			c := claim(t, s)
			w1 := start(t, c, 1)
			if tc.first {
				mustPut(t, w1, rec{txid: 1, payload: "a"})
			}
			w2 := start(t, c, 1)
			if tc.second {
				mustPut(t, w2, rec{txid: 2, payload: "b"})
			}
			c = claim(t, w.stream("s"))
			infos, err := s.List(t.Context())
			require.NoError(t, err)
			require.Len(t, infos, tc.segmentsListed, "no gap in front of a segment that has records")
			require.Equal(t, tc.want, records(t, s))
			w3 := start(t, c, max(c.LastTxID(), 1))
			require.Equal(t, infos[len(infos)-1].Segment+1, w3.Segment())
			mustPut(t, w3, rec{txid: 9, payload: "c"})
			_, err = c.Complete(t.Context(), w3)
			require.NoError(t, err)
		})
	}
}

// TestEntryOfUnknownFateIsSettled: an append that was not acknowledged when the
// writer was fenced may be in the stream; the recovery decides once.
func TestEntryOfUnknownFateIsSettled(t *testing.T) {
	w := newWorld(t)
	w.ledgers.hold = true
	s := w.create("s")
	c := claim(t, s)
	sw := start(t, c, 1)
	p, sum := entry(t, sw, rec{txid: 1, payload: "in flight"})
	var outcome error
	sw.Go(t.Context(), p, sum, func(_ int64, err error) { outcome = err })
	require.NoError(t, outcome)
	claim(t, w.stream("s"))
	sw.ledger.(*fakeWriter).release()
	require.ErrorIs(t, outcome, stream.ErrFenced)
	require.Equal(t, []string{"1:0:0 1 in flight"}, records(t, s))
}

// TestSeal: the end of a stream is a record, and nothing follows it.
func TestSeal(t *testing.T) {
	for _, open := range []bool{true, false} {
		w := newWorld(t)
		s := w.create("s")
		c := claim(t, s)
		sw := start(t, c, 1)
		mustPut(t, sw, rec{txid: 1, payload: "a"}, rec{txid: 2, payload: "b"})
		want := map[string]string{"logrecs_000000000000000001": "8589934597;0;1;9223372036854775807;0;1;1;0;0;0;0"}
		if !open {
			_, err := c.Complete(t.Context(), sw)
			require.NoError(t, err)
			sw = nil
			want = map[string]string{
				"logrecs_000000000000000001": "8589934597;0;1;2;0;1;0;1;0;0;0",
				"logrecs_000000000000000002": "5;1;9223372036854775807;9223372036854775807;0;2;0;0;0;0;2",
			}
		}
		require.False(t, c.Sealed())
		require.NoError(t, c.Seal(t.Context(), sw, one))
		require.NoError(t, c.Seal(t.Context(), nil, one), "sealing twice is no error")
		require.True(t, c.Sealed())
		require.Equal(t, want, texts(t, s))
		require.Equal(t, "9223372036854775807", w.dump(s.keys.root)["maxtxid"])
		c = claim(t, s)
		require.True(t, c.Sealed())
		a, err := c.Allocate(t.Context(), one)
		require.NoError(t, err)
		_, err = c.Start(t.Context(), a, 3)
		require.ErrorIs(t, err, stream.ErrSealed)
		last, err := s.Last(t.Context())
		require.NoError(t, err)
		require.Equal(t, stream.TxID(2), last.TxID, "the end is not a user record")
	}
}

// TestSealCutShort: the end-of-stream record is written, the metadata is not;
// recovery finds the seal.
func TestSealCutShort(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	c := claim(t, s)
	sw := start(t, c, 1)
	mustPut(t, sw, rec{txid: 1, payload: "a"})
	w.store.fate = func(int, []metadata.Op) fate { return requestLost }
	require.ErrorIs(t, c.Seal(t.Context(), sw, one), stream.ErrUnavailable)
	w.store.fate = nil
	c = claim(t, w.stream("s"))
	require.True(t, c.Sealed())
}

// TestCompleteAfterFailedAppends: entries that failed are not part of the
// segment, and the next segment has no gap in front of it.
func TestCompleteAfterFailedAppends(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	c := claim(t, s)
	w1 := start(t, c, 1)
	mustPut(t, w1, rec{txid: 1, payload: "a"})
	w1.ledger.(*fakeWriter).err = bk.ErrNotEnoughBookies
	_, err := put(t, w1, rec{txid: 2, payload: "failed"})
	require.ErrorIs(t, err, stream.ErrNotEnoughBookies)
	require.ErrorIs(t, w1.Err(), stream.ErrNotEnoughBookies)
	w2 := start(t, c, 1)
	info, err := c.Complete(t.Context(), w1)
	require.NoError(t, err)
	require.Equal(t, int64(1), info.Records)
	require.NoError(t, c.Err())
	mustPut(t, w2, rec{txid: 2, payload: "again"})
	require.Equal(t, []string{"1:0:0 1 a", "2:0:0 2 again"}, records(t, s))
}

// TestUnsentEntryTakesNoPosition: an append that gives up before it is sent
// leaves the writer as it was.
func TestUnsentEntryTakesNoPosition(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	c := claim(t, s)
	sw := start(t, c, 1)
	mustPut(t, sw, rec{txid: 1, payload: "a"})
	sw.ledger = refusing{sw.ledger}
	_, err := put(t, sw, rec{txid: 2, payload: "b"})
	require.ErrorIs(t, err, stream.ErrTimeout)
	require.NoError(t, sw.Err())
	require.Equal(t, int64(1), sw.Position())
	sw.ledger = sw.ledger.(refusing).ledgerWriter
	mustPut(t, sw, rec{txid: 3, payload: "c"})
	info, err := c.Complete(t.Context(), sw)
	require.NoError(t, err)
	require.Equal(t, int64(2), info.Records)
}

// refusing is a ledger writer at its byte limit.
type refusing struct{ ledgerWriter }

func (refusing) Go(_ context.Context, _ []byte, done func(bk.EntryID, error)) {
	done(bk.InvalidEntryID, context.DeadlineExceeded)
}

// TestAllocationIsNotLeaked: a ledger that was allocated and not used is
// deleted by the next allocation, of this claim or of another one.
func TestAllocationIsNotLeaked(t *testing.T) {
	w := newWorld(t)
	s := w.create("s")
	c := claim(t, s)
	a, err := c.Allocate(t.Context(), one)
	require.NoError(t, err)
	_, err = c.Allocate(t.Context(), one)
	require.ErrorIs(t, err, stream.ErrConflict, "one at a time")
	c.Discard(a)
	_, err = c.Start(t.Context(), a, 1)
	require.ErrorIs(t, err, stream.ErrConflict)
	b, err := c.Allocate(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, []bk.LedgerID{b.Ledger()}, w.ledgers.ids())

	c = claim(t, s)
	d, err := c.Allocate(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, []bk.LedgerID{d.Ledger()}, w.ledgers.ids())
	_, err = c.Start(t.Context(), d, 1)
	require.NoError(t, err)
	require.True(t, slices.Contains(w.ledgers.ids(), d.Ledger()))
}

func TestClaimRefuses(t *testing.T) {
	w := newWorld(t)
	_, err := w.stream("missing").Claim(t.Context())
	require.ErrorIs(t, err, stream.ErrNotFound)
	s := w.create("s")
	set := func(key, value string) {
		_, err := w.store.Txn(t.Context(), metadata.Set(key, []byte(value), metadata.AnyVersion))
		require.NoError(t, err)
	}
	set(s.keys.ledgers, "x")
	_, err = s.Claim(t.Context())
	require.ErrorIs(t, err, stream.ErrCorrupt)
	set(s.keys.ledgers, "7") // no segment, but number 7 was given
	c := claim(t, s)
	a, err := c.Allocate(t.Context(), one)
	require.NoError(t, err)
	_, err = c.Start(t.Context(), a, 1)
	require.ErrorIs(t, err, stream.ErrCorrupt)
	set(s.keys.ledgers, "0")
	set(s.keys.maxTxID, "garbage") // taken for none, as by DistributedLog
	sw := start(t, claim(t, s), 1)
	mustPut(t, sw, rec{txid: 1, payload: "a"})
	w.ledgers.mu.Lock()
	delete(w.ledgers.ledgers, sw.Ledger())
	w.ledgers.mu.Unlock()
	_, err = s.Claim(t.Context())
	require.ErrorIs(t, err, stream.ErrCorrupt, "a segment that lost its ledger is not an empty one")
	set(s.keys.version, "\x00\x00\x00\x01")
	_, err = s.Claim(t.Context())
	require.ErrorIs(t, err, stream.ErrUnsupported)
}
