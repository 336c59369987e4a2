package quorum

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

func TestRule04_IDsWithoutGapsAndLengthIsRunningTotal(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	var total int64
	for e := range 100 {
		n := (e * 7) % 11 // empty entries among them
		add, err := w.Push(n)
		require.NoError(t, err)
		total += int64(n)
		require.Equal(t, Add{Entry: bk.EntryID(e), LAC: -1, Length: total, First: e % 3}, add)
	}
	require.Equal(t, total, w.Length())
	require.Equal(t, total, w.PendingBytes())
	require.Zero(t, w.ConfirmedLength())
}

func TestRule05_EntryCarriesLACOfItsPush(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	require.Equal(t, bk.InvalidEntryID, w.push(1).LAC)
	require.Equal(t, bk.InvalidEntryID, w.push(1).LAC, "entry 0 is not confirmed yet")
	w.ack(0, 0, 1)
	require.Equal(t, bk.EntryID(0), w.push(1).LAC)
	w.ack(2, 0, 1, 2)
	require.Equal(t, bk.EntryID(0), w.push(1).LAC, "entry 1 is not confirmed")
	w.ack(1, 2, 0)
	require.Equal(t, bk.EntryID(2), w.push(1).LAC)
}

func TestRule06_WriteSetIsConsecutivePositions(t *testing.T) {
	q := bk.Quorum{Ensemble: 5, Write: 3, Ack: 2}
	for e, want := range map[bk.EntryID][]int{0: {0, 1, 2}, 3: {3, 4, 0}, 4: {4, 0, 1}, 5: {0, 1, 2}, 1<<62 + 3: {2, 3, 4}} {
		if e == 1<<62+3 {
			want = []int{int(uint64(e) % 5), int((uint64(e) + 1) % 5), int((uint64(e) + 2) % 5)}
		}
		in := map[int]bool{}
		for k := range q.Write {
			require.Equal(t, want[k], Position(q, e, k), "entry %d copy %d", e, k)
			in[Position(q, e, k)] = true
			got, ok := CopyAt(q, e, want[k])
			require.True(t, ok)
			require.Equal(t, k, got)
		}
		for pos := -1; pos <= q.Ensemble; pos++ {
			_, ok := CopyAt(q, e, pos)
			require.Equal(t, in[pos], ok, "entry %d position %d", e, pos)
		}
	}
}

func TestRule06_CompletesAtAckQuorumOfDistinctPositions(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.ack(0, 1, 1, 1) // doubled answers count once
	require.Equal(t, bk.InvalidEntryID, w.LAC())
	w.ack(0, 2)
	require.Equal(t, bk.EntryID(0), w.LAC())
	w.quiet()
}

func TestRule06_AnswersOutsideTheWriteSetOrOfAReplacedBookieAreIgnored(t *testing.T) {
	w := newTestWriter(t, WriterConfig{Quorum: q322})
	w.push(2)    // entry 1 goes to positions 1 and 2
	w.ack(1, 0)  // not in its write set
	w.ack(0, 0)  // one copy
	w.ack(7, 0)  // never pushed
	w.ack(-1, 0) // no entry
	w.Ack(0, Slot{Pos: 99})
	w.Ack(0, Slot{Pos: -1})
	w.Ack(0, Slot{Pos: 1, Gen: 5})
	require.Equal(t, bk.InvalidEntryID, w.LAC())

	old := w.Slot(1)
	w.fail(0, 1, bk.ErrBookieIO)
	w.change(Pick{Pos: 1, Bookie: "b3"})
	w.Actions()
	w.Ack(0, old) // the replaced bookie has it after all
	require.Equal(t, bk.InvalidEntryID, w.LAC())
	w.Fail(0, old, bk.ErrTimeout) // and fails it again
	w.quiet()
	w.ack(0, 1)
	require.Equal(t, bk.EntryID(0), w.LAC())
}

func TestRule07_CompletesInOrderOnly(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(4)
	w.ack(3, 0, 1, 2)
	w.ack(1, 0, 1)
	require.Equal(t, bk.InvalidEntryID, w.LAC())
	w.ack(0, 2, 0)
	require.Equal(t, bk.EntryID(1), w.LAC(), "2 is missing")
	w.ack(2, 0, 2)
	require.Equal(t, bk.EntryID(3), w.LAC())
	require.Zero(t, w.Pending())
}

func TestRule07_NothingCompletesDuringAnEnsembleChange(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(3)
	w.fail(2, 2, bk.ErrBookieIO)
	w.ack(0, 0, 1)
	require.Equal(t, bk.InvalidEntryID, w.LAC(), "replacement not chosen")
	w.one(ActPick)
	require.NoError(t, w.Replace([]Pick{{Pos: 2, Bookie: "b3"}}))
	w.one(ActUpdate)
	w.ack(1, 0, 1)
	require.Equal(t, bk.InvalidEntryID, w.LAC(), "metadata not written")
	w.Updated()
	require.Equal(t, bk.EntryID(1), w.LAC())
}

func TestRule08_LateFailureStartsChangeAtNextAdd(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(4)
	for e := range bk.EntryID(4) {
		w.ack(e, 0, 1)
	}
	require.Equal(t, bk.EntryID(3), w.LAC())
	w.fail(1, 2, bk.ErrBookieIO) // entry 1 has its ack quorum, and lost its third copy
	w.quiet()
	require.Equal(t, bk.EntryID(4), w.push(1).Entry)
	m := w.change(Pick{Pos: 2, Bookie: "b3"})
	require.Equal(t, []Segment{
		{First: 0, Ensemble: []bk.BookieID{"b0", "b1", "b2"}},
		{First: 4, Ensemble: []bk.BookieID{"b0", "b1", "b3"}},
	}, m.Segments, "as seen of the Java client: segments 0 and 4")
	require.Equal(t, []string{"4@2=b3"}, sends(w.Actions()))
}

func TestRule08_LateFailureWithAddsPendingStartsChangeAtOnce(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(2)
	w.ack(0, 0, 1)
	w.fail(0, 2, bk.ErrTimeout)
	w.one(ActPick)
}

func TestRule09_FencedOrUnauthorizedStopsTheWriter(t *testing.T) {
	for _, reason := range []error{bk.ErrFenced, bk.ErrUnauthorized} {
		t.Run(reason.Error(), func(t *testing.T) {
			w := newTestWriter(t, WriterConfig{})
			w.push(4)
			w.ack(0, 0, 1)
			w.ack(2, 0, 1)
			w.fail(1, 2, &bk.BookieError{Bookie: "b2", Err: reason})
			acts := w.Actions()
			require.Equal(t, []ActionKind{ActFailed, ActUpdate}, kindsOf(acts))
			require.Equal(t, bk.EntryID(1), acts[0].Entry)
			require.Equal(t, bk.EntryID(3), acts[0].Last)
			require.ErrorIs(t, acts[0].Err, reason)
			require.True(t, acts[1].Metadata.Equal(closedMeta(openMeta("b0", "b1", "b2"), 0, 1)))

			w.ack(1, 0, 1) // too late for anybody
			require.Equal(t, bk.EntryID(0), w.LAC())
			_, err := w.Push(1)
			require.ErrorIs(t, err, reason)
			w.Updated()
			require.NoError(t, w.one(ActFinished).Err)
		})
	}
}

func TestRule09_OnACompleteAddUnauthorizedIsALateFailureAndFencedStillStops(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.ack(0, 0, 1)
	w.fail(0, 2, bk.ErrUnauthorized)
	w.quiet()
	require.NoError(t, w.Err())

	w = newTestWriter(t, WriterConfig{})
	w.push(1)
	w.ack(0, 0, 1)
	w.fail(0, 2, bk.ErrFenced)
	require.Equal(t, bk.EntryID(0), w.one(ActUpdate).Metadata.LastEntry)
	require.ErrorIs(t, w.Err(), bk.ErrFenced)
}

func TestRule10_EveryOtherFailureChangesTheEnsemble(t *testing.T) {
	for _, reason := range []error{
		bk.ErrNoSuchLedger, bk.ErrNoSuchEntry, bk.ErrBadRequest, bk.ErrBookieIO, bk.ErrBadVersion, bk.ErrReadOnly,
		bk.ErrTooManyRequests, bk.ErrUnknownLedgerState, bk.ErrTimeout, bk.ErrBookieUnavailable, errors.New("whatever"),
	} {
		t.Run(reason.Error(), func(t *testing.T) {
			w := newTestWriter(t, WriterConfig{})
			w.push(1)
			w.fail(0, 1, fmt.Errorf("add: %w", reason))
			a := w.one(ActPick)
			require.Equal(t, Change{
				Ensemble: []bk.BookieID{"b0", "b1", "b2"}, Failed: []int{1}, Avoid: []bk.BookieID{"b1"},
			}, a.Change)
		})
	}
}

func TestRule11_FailedAddIsReportedOnceAndItsIDIsNotUsedAgain(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(3)
	w.ack(0, 0, 1)
	w.Close()
	acts := ofKind(w.Actions(), ActFailed)
	require.Len(t, acts, 1)
	require.Equal(t, [2]bk.EntryID{1, 2}, [2]bk.EntryID{acts[0].Entry, acts[0].Last})
	_, err := w.Push(1)
	require.ErrorIs(t, err, bk.ErrLedgerClosed, "no id is given out again")
	w.fail(2, 0, bk.ErrFenced)
	w.Close()
	w.quiet()
}

func TestRule12_DeferredSyncMovesLACByForceOfAllBookies(t *testing.T) {
	w := newTestWriter(t, WriterConfig{DeferredSync: true})
	w.push(3)
	w.ack(0, 0, 1)
	w.ack(1, 0, 1)
	require.Equal(t, bk.EntryID(1), w.Completed(), "added, as far as the application is told")
	require.Equal(t, bk.InvalidEntryID, w.LAC(), "and not durable")

	id, err := w.Force()
	require.NoError(t, err)
	require.Len(t, ofKind(w.Actions(), ActForce), 3)
	w.ack(2, 0, 1) // behind the force
	require.False(t, w.ForceAck(id, w.Slot(0)))
	require.False(t, w.ForceAck(id, w.Slot(0)))
	require.False(t, w.ForceAck(id, w.Slot(2)))
	require.Equal(t, bk.InvalidEntryID, w.LAC(), "two of three")
	require.True(t, w.ForceAck(id, w.Slot(1)))
	require.Equal(t, bk.EntryID(1), w.LAC())
	require.Equal(t, int64(2), w.ConfirmedLength())
	require.Equal(t, bk.EntryID(1), w.push(1).LAC)
}

func TestRule12_DeferredSyncEndsWithAnyFailure(t *testing.T) {
	w := newTestWriter(t, WriterConfig{DeferredSync: true})
	w.push(1)
	w.fail(0, 2, bk.ErrTimeout)
	require.Equal(t, []ActionKind{ActFailed, ActUpdate}, kindsOf(w.Actions()))
	require.ErrorIs(t, w.Err(), bk.ErrTimeout)

	w = newTestWriter(t, WriterConfig{DeferredSync: true})
	w.push(1)
	w.ack(0, 0, 1, 2)
	id, err := w.Force()
	require.NoError(t, err)
	w.Actions()
	w.ForceFail(id, w.Slot(1), bk.ErrBookieIO)
	require.Equal(t, bk.InvalidEntryID, w.one(ActUpdate).Metadata.LastEntry)
	require.ErrorIs(t, w.Err(), bk.ErrBookieIO)
}
