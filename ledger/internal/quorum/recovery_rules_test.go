package quorum

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

func TestRule30_OpenIsMarkedInRecoveryFirst(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{Metadata: openMeta("b0", "b1", "b2")})
	a := oneAction(t, r.take(), ActUpdate)
	require.True(t, a.Metadata.Equal(inRecovery(openMeta("b0", "b1", "b2"))))
	r.Updated()
	require.Equal(t, []ActionKind{ActReadLAC, ActReadLAC, ActReadLAC}, kindsOf(r.take()))
}

func TestRule30_InRecoveryGoesOn(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{})
	require.Equal(t, []ActionKind{ActReadLAC, ActReadLAC, ActReadLAC}, kindsOf(r.take()))
}

func TestRule30_ClosedIsDone(t *testing.T) {
	m := closedMeta(openMeta("b0", "b1", "b2"), 4, 9)
	r := newTestRecovery(t, RecoveryConfig{Metadata: m})
	require.NoError(t, oneAction(t, r.take(), ActFinished).Err)
	require.True(t, r.Result().Equal(m))
}

func TestRule30_ConflictOnTheMark(t *testing.T) {
	open := openMeta("b0", "b1", "b2")
	changed := openMeta("b0", "b1", "b2")
	changed.Segments = append(changed.Segments, Segment{First: 7, Ensemble: []bk.BookieID{"b0", "b3", "b2"}})
	start := func() *recovery {
		r := newTestRecovery(t, RecoveryConfig{Metadata: open})
		oneAction(t, r.take(), ActUpdate)
		return r
	}
	t.Run("the writer changed its ensemble meanwhile", func(t *testing.T) {
		r := start()
		r.Conflict(changed)
		require.True(t, oneAction(t, r.take(), ActUpdate).Metadata.Equal(inRecovery(changed)))
		r.Updated()
		require.Equal(t, bk.BookieID("b3"), r.take()[1].Bookie, "the last segment is the fresh one")
	})
	t.Run("another recovery, or this one with its answer lost", func(t *testing.T) {
		r := start()
		r.Conflict(inRecovery(open))
		require.Len(t, ofKind(r.take(), ActReadLAC), 3)
	})
	t.Run("closed", func(t *testing.T) {
		r := start()
		r.Conflict(closedMeta(open, 3, 4))
		require.NoError(t, oneAction(t, r.take(), ActFinished).Err)
		require.Equal(t, bk.EntryID(3), r.Result().LastEntry)
	})
	t.Run("metadata out of reach", func(t *testing.T) {
		r := start()
		r.UpdateFailed(bk.ErrTimeout)
		err := oneAction(t, r.take(), ActFinished).Err
		require.ErrorIs(t, err, bk.ErrTimeout)
		require.ErrorIs(t, err, bk.ErrRecoveryFailed)
	})
}

func TestRule31_FencingLACReadGoesToAllBookiesOfTheLastSegment(t *testing.T) {
	m := openMeta("b0", "b1", "b2", "b3", "b4")
	m.Segments = append(m.Segments, Segment{First: 10, Ensemble: []bk.BookieID{"b5", "b1", "b2", "b3", "b4"}})
	r := newTestRecovery(t, RecoveryConfig{Quorum: bk.Quorum{Ensemble: 5, Write: 3, Ack: 2}, Metadata: inRecovery(m)})
	var asked []bk.BookieID
	for _, a := range r.take() {
		require.Equal(t, ActReadLAC, a.Kind)
		require.True(t, a.Fence)
		require.Equal(t, bk.InvalidEntryID, a.Entry)
		asked = append(asked, a.Bookie)
	}
	require.Equal(t, m.Segments[1].Ensemble, asked)
}

func TestRule31_LargestLACNotLargestEntryID(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{})
	r.lacs(lacReply{entry: 9, lac: 2, length: 10}, lacReply{entry: 4, lac: 3, length: 5}, lacReply{silent: true})
	require.Equal(t, bk.EntryID(4), ofKind(r.take(), ActRead)[0].Entry)
}

func TestRule32_EveryWindowOfWriteQuorumIsCovered(t *testing.T) {
	io := errors.New("io")
	for _, c := range []struct {
		q       bk.Quorum
		unknown []int
		ok      bool
	}{
		{bk.Quorum{Ensemble: 6, Write: 2, Ack: 2}, []int{0, 2, 4}, true},
		{bk.Quorum{Ensemble: 6, Write: 2, Ack: 2}, []int{0, 3}, true},
		{bk.Quorum{Ensemble: 6, Write: 2, Ack: 2}, []int{1, 3, 5}, true},
		{bk.Quorum{Ensemble: 6, Write: 2, Ack: 2}, []int{0, 1}, false},
		{bk.Quorum{Ensemble: 6, Write: 2, Ack: 2}, []int{1, 2}, false},
		{bk.Quorum{Ensemble: 6, Write: 2, Ack: 2}, []int{5, 0}, false},
		{q332, []int{0}, true},
		{q332, []int{1, 2}, false},
		{bk.Quorum{Ensemble: 3, Write: 3, Ack: 3}, []int{1, 2}, true},
		{bk.Quorum{Ensemble: 3, Write: 3, Ack: 1}, []int{1}, false},
		{bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}, nil, true},
		{bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}, []int{0}, false},
	} {
		t.Run(fmt.Sprintf("%+v unknown %v", c.q, c.unknown), func(t *testing.T) {
			heard := make([]bool, c.q.Ensemble)
			for p := range heard {
				heard[p] = true
			}
			for _, p := range c.unknown {
				heard[p] = false
			}
			require.Equal(t, c.ok, Covered(c.q, heard))

			var r LACRead
			r.Start(1, c.q)
			for p, h := range heard {
				if h {
					r.Answer(p, LACAnswer{Entry: 0, LAC: -1, Length: 1}, nil)
				}
			}
			for _, p := range c.unknown {
				r.Answer(p, LACAnswer{}, io)
			}
			want := LACFailed
			if c.ok {
				want = LACCovered
			}
			require.Equal(t, want, r.Answer(0, LACAnswer{}, io))
		})
	}
}

func TestRule32_WhatCountsAsHeard(t *testing.T) {
	for _, c := range []struct {
		err   error
		heard bool
	}{
		{nil, true},
		{bk.ErrNoSuchEntry, true},
		{&bk.BookieError{Bookie: "b2", Err: bk.ErrNoSuchLedger}, true},
		{bk.ErrTimeout, false},
		{bk.ErrBookieIO, false},
		{&bk.CorruptError{Where: "ledger 1 entry 0, digest", Offset: -1}, false}, // the trap
		{bk.ErrUnknownLedgerState, false},
		{bk.ErrBookieUnavailable, false},
		{errors.Join(bk.ErrNoSuchEntry, bk.ErrNoSuchEntry), false},
	} {
		var r LACRead
		r.Start(1, q332)
		require.Equal(t, LACPending, r.Answer(0, LACAnswer{LAC: 3, Entry: 4}, nil))
		want := LACPending
		if c.heard {
			want = LACCovered
		}
		require.Equal(t, want, r.Answer(1, LACAnswer{Entry: 4, LAC: 3}, c.err), "%v", c.err)
	}
}

func TestRule32_UnauthorizedEndsRecoveryAtOnce(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{})
	r.lacs(lacErr(bk.ErrUnauthorized), lacReply{silent: true}, lacReply{silent: true})
	require.ErrorIs(t, oneAction(t, r.take(), ActFinished).Err, bk.ErrUnauthorized)
}

func TestRule32_NotCoveredFailsAndTellsWhy(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{})
	r.lacs(lacOf(1), lacErr(bk.ErrTimeout), lacErr(bk.ErrTimeout))
	err := oneAction(t, r.take(), ActFinished).Err
	require.ErrorIs(t, err, bk.ErrRecoveryFailed)
	require.ErrorIs(t, err, bk.ErrTimeout)
}

func TestRule33_StartsAtTheLastSegmentWhenBookiesKnowLess(t *testing.T) {
	m := inRecovery(openMeta("b0", "b1", "b2"))
	m.Segments = append(m.Segments, Segment{First: 20, Ensemble: []bk.BookieID{"b3", "b4", "b5"}})
	r := newTestRecovery(t, RecoveryConfig{Metadata: m})
	r.lacs(lacErr(bk.ErrNoSuchLedger), lacErr(bk.ErrNoSuchLedger), lacReply{silent: true})
	reads := ofKind(r.take(), ActRead)
	require.Equal(t, bk.EntryID(20), reads[0].Entry)
	require.NotEqual(t, bk.BookieID("b0"), reads[0].Bookie)
}

func TestRule34_RecoveryReadsInOrderAllFencingFromTheFixedSegment(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{})
	r.lacs(lacOf(0), lacOf(0), lacOf(0))
	seen := bk.InvalidEntryID
	for e := range bk.EntryID(20) {
		for _, a := range r.take() {
			switch a.Kind {
			case ActRead:
				require.True(t, a.Fence)
				require.GreaterOrEqual(t, a.Entry, seen)
				require.Equal(t, []bk.BookieID{"b0", "b1", "b2"}[a.Slot.Pos], a.Bookie, "not the ensemble being changed")
				seen = a.Entry
			case ActPick:
				require.NoError(t, r.Replace([]Pick{{Pos: 0, Bookie: "b7"}}))
			}
		}
		r.read(e, 1, nil)
		if e == 3 {
			r.Fail(e, r.back.Slot(0), bk.ErrBookieIO)
		} else {
			r.ackAll(e)
		}
	}
	require.Greater(t, seen, bk.EntryID(10), "reads run ahead of the writes")
}

func TestRule34_WindowStartsAtOneEntryAndIsBounded(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{WindowMax: 4})
	r.lacs(lacErr(bk.ErrNoSuchLedger), lacErr(bk.ErrNoSuchLedger), lacErr(bk.ErrNoSuchLedger))
	var asked []int
	for e := range bk.EntryID(8) {
		asked = append(asked, len(ofKind(r.take(), ActRead))/3)
		r.read(e, 0, nil) // nothing is acknowledged
	}
	require.Equal(t, []int{1, 2, 1, 0, 0, 0, 0, 0}, asked, "never more than 4 entries held")
	require.Equal(t, bk.EntryID(0), r.Held())
	r.ackAll(0)
	require.Equal(t, bk.EntryID(1), r.Held())
	require.Equal(t, bk.EntryID(4), oneRead(t, r.take()))
}

func oneRead(t *testing.T, acts []Action) bk.EntryID {
	t.Helper()
	reads := ofKind(acts, ActRead)
	require.Len(t, reads, 3)
	return reads[0].Entry
}

func TestRule35_OutcomeOfOneRecoveryRead(t *testing.T) {
	missing, io := bk.ErrNoSuchEntry, bk.ErrBookieIO
	corrupt := &bk.CorruptError{Where: "digest", Offset: -1}
	for _, c := range []struct {
		name    string
		answers []error // by arrival; nil is a valid copy
		want    string
	}{
		{"missing missing", []error{missing, missing}, "end"},
		{"EIO missing missing", []error{io, missing, missing}, "end"},
		{"missing ledger and entry", []error{bk.ErrNoSuchLedger, missing}, "end"},
		{"EIO EIO missing", []error{io, io, missing}, "fail"},
		{"silent silent missing", []error{bk.ErrTimeout, bk.ErrTimeout, missing}, "fail"},
		{"corrupt corrupt missing", []error{corrupt, corrupt, missing}, "fail"},
		{"unknown state, missing, EIO", []error{bk.ErrUnknownLedgerState, missing, io}, "fail"},
		{"missing valid", []error{missing, nil}, "kept"},
		{"EIO corrupt valid", []error{io, corrupt, nil}, "kept"},
		{"valid", []error{nil}, "kept"},
		{"one missing is not enough", []error{missing}, "open"},
		{"all unknown", []error{io, corrupt, bk.ErrTimeout}, "fail"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTestRecovery(t, RecoveryConfig{})
			r.lacs(lacOf(1), lacOf(1), lacOf(1)) // LAC 0, length of entry 0 is not among them
			require.Equal(t, bk.EntryID(1), oneRead(t, r.take()))
			for p, err := range c.answers {
				r.read(1, p, err)
			}
			acts := r.take()
			switch c.want {
			case "end":
				require.Equal(t, bk.EntryID(0), oneRead(t, acts), "the length of entry 0")
			case "fail":
				err := oneAction(t, acts, ActFinished).Err
				require.ErrorIs(t, err, bk.ErrRecoveryFailed)
				require.NotErrorIs(t, err, bk.ErrNoSuchEntry)
			case "kept":
				require.Len(t, ofKind(acts, ActFrame), 1)
				require.Len(t, ofKind(acts, ActSend), 3)
			case "open":
				require.Empty(t, acts)
			}
		})
	}
}

func TestRule36_WriteBackKeepsIDAndLengthAndWaitsForAckQuorum(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{})
	r.lacs(lacOf(1), lacOf(1), lacErr(bk.ErrTimeout))
	require.True(t, r.ReadAnswer(1, Slot{Pos: 2, Gen: 1}, 77, nil), "the first valid copy is kept")
	require.False(t, r.ReadAnswer(1, Slot{Pos: 0, Gen: 1}, 78, nil))
	acts := r.take()
	frame := ofKind(acts, ActFrame)
	require.Len(t, frame, 1)
	require.Equal(t, bk.EntryID(1), frame[0].Entry)
	require.Equal(t, bk.EntryID(0), frame[0].LAC, "the recoverer's")
	require.Equal(t, int64(77), frame[0].Length)
	require.Equal(t, []string{"1@1=b1", "1@2=b2", "1@0=b0"}, sends(acts))

	r.read(2, 0, bk.ErrNoSuchEntry)
	r.read(2, 1, bk.ErrNoSuchEntry)
	r.Ack(1, r.back.Slot(1))
	require.Empty(t, ofKind(r.take(), ActUpdate), "one of two acknowledgements")
	r.Ack(1, r.back.Slot(0))
	m := oneAction(t, r.take(), ActUpdate).Metadata
	require.Equal(t, bk.EntryID(1), m.LastEntry)
	require.Equal(t, int64(77), m.Length)
}

func TestRule36_NoBookieForTheWriteBackGoesOnWhileAckQuorumsCanBeHad(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{})
	r.lacs(lacOf(1), lacOf(1), lacErr(bk.ErrBookieUnavailable))
	r.read(1, 0, nil)
	r.Fail(1, r.back.Slot(2), bk.ErrBookieUnavailable)
	require.Len(t, ofKind(r.take(), ActPick), 1)
	r.NoBookies(errors.New("none"))
	r.Ack(1, r.back.Slot(0))
	r.Fail(1, r.back.Slot(1), bk.ErrBookieUnavailable)
	require.Len(t, ofKind(r.take(), ActPick), 1)
	r.NoBookies(errors.New("none"))
	err := oneAction(t, r.take(), ActFinished).Err
	require.ErrorIs(t, err, bk.ErrRecoveryFailed)
	require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
}

func TestRule36_WriteBackNamesTheLACThatRecoveryStartedFrom(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{})
	r.lacs(lacOf(1), lacOf(1), lacOf(1))
	for e := bk.EntryID(1); e < 5; e++ {
		r.read(e, 0, nil)
		frames := ofKind(r.take(), ActFrame)
		require.Len(t, frames, 1)
		require.Equal(t, bk.EntryID(0), frames[0].LAC, "what was written back is confirmed by the close only")
		r.ackAll(e)
	}
	require.Equal(t, bk.EntryID(4), r.back.LAC())
}

func TestRule37_ChangeInRecoveryIsPublishedWithTheCloseOnly(t *testing.T) {
	t.Run("new segment at LAC + 1", func(t *testing.T) {
		r := newTestRecovery(t, RecoveryConfig{})
		r.lacs(lacOf(2), lacOf(2), lacOf(2)) // LAC 1
		r.read(2, 0, nil)
		r.Fail(2, r.back.Slot(1), bk.ErrBookieIO)
		require.Len(t, ofKind(r.take(), ActPick), 1)
		require.NoError(t, r.Replace([]Pick{{Pos: 1, Bookie: "b3"}}))
		acts := r.take()
		require.Equal(t, []string{"2@1=b3"}, sends(acts))
		require.Empty(t, ofKind(acts, ActUpdate))
		r.read(3, 0, bk.ErrNoSuchEntry)
		r.read(3, 1, bk.ErrNoSuchEntry)
		r.ackAll(2)
		m := oneAction(t, r.take(), ActUpdate).Metadata
		require.Equal(t, StateClosed, m.State)
		require.Equal(t, []Segment{
			{First: 0, Ensemble: []bk.BookieID{"b0", "b1", "b2"}},
			{First: 2, Ensemble: []bk.BookieID{"b0", "b3", "b2"}},
		}, m.Segments)
	})
	t.Run("replaces the segment recovery starts at", func(t *testing.T) {
		r := newTestRecovery(t, RecoveryConfig{})
		r.lacs(lacErr(bk.ErrNoSuchEntry), lacErr(bk.ErrNoSuchEntry), lacReply{silent: true})
		r.read(0, 0, nil)
		r.Fail(0, r.back.Slot(1), bk.ErrBookieIO)
		require.Len(t, ofKind(r.take(), ActPick), 1)
		require.NoError(t, r.Replace([]Pick{{Pos: 1, Bookie: "b3"}}))
		r.read(1, 0, bk.ErrNoSuchEntry)
		r.read(1, 1, bk.ErrNoSuchEntry)
		r.ackAll(0)
		m := ofKind(r.take(), ActUpdate)[0].Metadata
		require.Equal(t, []Segment{{First: 0, Ensemble: []bk.BookieID{"b0", "b3", "b2"}}}, m.Segments)
	})
}

// closingRecovery is a recovery that found LAC 1, recovered entry 2 with one
// bookie replaced, and is writing the close.
func closingRecovery(t *testing.T) *recovery {
	t.Helper()
	r := newTestRecovery(t, RecoveryConfig{})
	r.lacs(lacOf(2), lacOf(2), lacOf(2))
	r.read(2, 0, nil)
	r.Fail(2, r.back.Slot(1), bk.ErrBookieIO)
	require.NoError(t, r.Replace([]Pick{{Pos: 1, Bookie: "b3"}}))
	r.read(3, 0, bk.ErrNoSuchEntry)
	r.read(3, 1, bk.ErrNoSuchEntry)
	r.ackAll(2)
	require.Len(t, ofKind(r.take(), ActUpdate), 1)
	return r
}

func TestRule38_CloseConflict(t *testing.T) {
	t.Run("closed by another: theirs is the ledger", func(t *testing.T) {
		r := closingRecovery(t)
		theirs := closedMeta(openMeta("b0", "b1", "b2"), 1, 2)
		r.Conflict(theirs)
		require.NoError(t, oneAction(t, r.take(), ActFinished).Err)
		require.True(t, r.Result().Equal(theirs))
	})
	t.Run("still in recovery: again over the fresh value", func(t *testing.T) {
		r := closingRecovery(t)
		r.Conflict(inRecovery(openMeta("b0", "b1", "b2")))
		m := oneAction(t, r.take(), ActUpdate).Metadata
		require.Equal(t, StateClosed, m.State)
		require.Len(t, m.Segments, 2)
		r.Updated()
		require.NoError(t, oneAction(t, r.take(), ActFinished).Err)
		require.Equal(t, bk.EntryID(2), r.Result().LastEntry)
	})
	t.Run("the end of the ledger moved: from the start", func(t *testing.T) {
		r := closingRecovery(t)
		r.Conflict(inRecovery(openMeta("b0", "b8", "b2")))
		acts := r.take()
		require.Len(t, ofKind(acts, ActReadLAC), 3)
		require.Equal(t, bk.BookieID("b8"), acts[1].Bookie)
		r.LACAnswer(Slot{Pos: 0, Gen: 1}, LACAnswer{Entry: 9, LAC: 8}, nil) // of the attempt before
		r.LACAnswer(Slot{Pos: 1, Gen: 1}, LACAnswer{Entry: 9, LAC: 8}, nil)
		require.Empty(t, r.take())
	})
	t.Run("never back to open", func(t *testing.T) {
		r := closingRecovery(t)
		r.Conflict(openMeta("b0", "b1", "b2"))
		require.ErrorIs(t, oneAction(t, r.take(), ActFinished).Err, bk.ErrMetadataConflict)
	})
}

func TestRule38_SwapInAnOlderSegmentIsKept(t *testing.T) {
	m := inRecovery(openMeta("b0", "b1", "b2"))
	m.Segments = append(m.Segments, Segment{First: 1, Ensemble: []bk.BookieID{"b0", "b1", "b4"}})
	r := newTestRecovery(t, RecoveryConfig{Metadata: m})
	r.lacs(lacOf(1), lacOf(1), lacOf(1))
	r.read(1, 0, nil)
	r.ackAll(1)
	r.read(2, 0, bk.ErrNoSuchEntry)
	r.read(2, 1, bk.ErrNoSuchEntry)
	require.Len(t, ofKind(r.take(), ActUpdate), 1)
	fresh := inRecovery(openMeta("b0", "x1", "b2"))
	fresh.Segments = append(fresh.Segments, m.Segments[1])
	r.Conflict(fresh)
	require.True(t, oneAction(t, r.take(), ActUpdate).Metadata.Equal(closedMeta(fresh, 1, 2)))
}

func TestRule38_LengthIsThatOfTheLastEntryItself(t *testing.T) {
	end := func(r *recovery, e bk.EntryID) {
		r.read(e, 0, bk.ErrNoSuchEntry)
		r.read(e, 1, bk.ErrNoSuchEntry)
	}
	t.Run("known from the LAC reads", func(t *testing.T) {
		r := newTestRecovery(t, RecoveryConfig{})
		r.lacs(lacReply{entry: 2, lac: 1, length: 30}, lacReply{entry: 1, lac: 0, length: 20}, lacReply{silent: true})
		r.take()
		end(r, 2)
		m := oneAction(t, r.take(), ActUpdate).Metadata
		require.Equal(t, bk.EntryID(1), m.LastEntry)
		require.Equal(t, int64(20), m.Length, "not the 30 of the entry that gave the LAC")
	})
	t.Run("read when no answer was of that entry", func(t *testing.T) {
		r := newTestRecovery(t, RecoveryConfig{})
		r.lacs(lacReply{entry: 2, lac: 1, length: 30}, lacErr(bk.ErrNoSuchEntry), lacReply{silent: true})
		r.take()
		end(r, 2)
		acts := r.take()
		require.Equal(t, bk.EntryID(1), oneRead(t, acts))
		require.False(t, acts[0].Fence)
		r.ReadAnswer(1, acts[0].Slot, 0, bk.ErrNoSuchEntry)
		r.ReadAnswer(1, acts[1].Slot, 20, nil)
		require.Equal(t, int64(20), oneAction(t, r.take(), ActUpdate).Metadata.Length)
	})
	t.Run("unreadable", func(t *testing.T) {
		r := newTestRecovery(t, RecoveryConfig{})
		r.lacs(lacReply{entry: 2, lac: 1, length: 30}, lacErr(bk.ErrNoSuchEntry), lacReply{silent: true})
		r.take()
		end(r, 2)
		for _, a := range r.take() {
			r.ReadAnswer(1, a.Slot, 0, bk.ErrBookieIO)
		}
		require.ErrorIs(t, oneAction(t, r.take(), ActFinished).Err, bk.ErrBookieIO)
	})
	t.Run("empty", func(t *testing.T) {
		r := newTestRecovery(t, RecoveryConfig{})
		r.lacs(lacErr(bk.ErrNoSuchLedger), lacErr(bk.ErrNoSuchLedger), lacReply{silent: true})
		r.take()
		end(r, 0)
		require.True(t, oneAction(t, r.take(), ActUpdate).Metadata.Equal(
			closedMeta(openMeta("b0", "b1", "b2"), bk.InvalidEntryID, 0)))
	})
}

func TestRule39_StopsAtTheFirstEndThoughLaterEntriesExist(t *testing.T) {
	r := newTestRecovery(t, RecoveryConfig{})
	r.lacs(lacReply{entry: 0, lac: -1, length: 1}, lacReply{entry: 0, lac: -1, length: 1}, lacReply{silent: true})
	r.take()
	r.read(0, 0, nil) // window doubles: 1 and 2 are read at once
	require.Len(t, ofKind(r.take(), ActRead), 6)
	require.True(t, r.read(2, 0, nil), "read ahead")
	r.read(1, 0, bk.ErrNoSuchEntry)
	r.read(1, 2, bk.ErrNoSuchEntry)
	r.ackAll(0)
	acts := r.take()
	m := oneAction(t, acts, ActUpdate).Metadata
	require.Equal(t, bk.EntryID(0), m.LastEntry)
	require.Equal(t, int64(1), m.Length)
}
