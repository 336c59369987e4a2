package quorum

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

func TestRule14_OneChangeInFlightLaterFailuresJoinTheNextRound(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(2)
	w.fail(0, 0, bk.ErrTimeout)
	require.Equal(t, []int{0}, w.one(ActPick).Change.Failed)
	w.fail(0, 1, bk.ErrTimeout) // while picking
	w.quiet()
	require.NoError(t, w.Replace([]Pick{{Pos: 0, Bookie: "b3"}}))
	w.one(ActUpdate)
	w.fail(1, 1, bk.ErrTimeout) // while writing
	w.ack(0, 0, 2)
	w.quiet()

	w.Updated()
	acts := w.Actions()
	require.Equal(t, []ActionKind{ActSend, ActSend, ActPick}, kindsOf(acts))
	require.Equal(t, []int{1}, acts[2].Change.Failed)
	require.Equal(t, []bk.BookieID{"b0", "b1"}, acts[2].Change.Avoid, "both failed just now")
	w.ack(0, 0, 2)
	require.Equal(t, bk.InvalidEntryID, w.LAC(), "completions wait for the second round too")
	require.NoError(t, w.Replace([]Pick{{Pos: 1, Bookie: "b4"}}))
	m := w.one(ActUpdate).Metadata
	require.Equal(t, []Segment{{First: 0, Ensemble: []bk.BookieID{"b3", "b4", "b2"}}}, m.Segments)
	w.Updated()
	require.Equal(t, bk.EntryID(0), w.LAC())
}

func TestRule14_FailuresGatheredInOneRound(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.ack(0, 0, 1)
	w.fail(0, 1, bk.ErrTimeout)
	w.fail(0, 2, bk.ErrTimeout)
	w.push(1)
	require.Equal(t, []int{1, 2}, w.one(ActPick).Change.Failed)
}

func TestRule15_OtherPositionsKeepTheirIndex(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.fail(0, 1, bk.ErrTimeout)
	m := w.change(Pick{Pos: 1, Bookie: "b9"})
	require.Equal(t, []bk.BookieID{"b0", "b9", "b2"}, m.Last().Ensemble)
}

func TestRule15_UnusablePicksAreRefused(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.ack(0, 0, 1)
	w.fail(0, 0, bk.ErrTimeout)
	w.fail(0, 1, bk.ErrTimeout)
	w.push(1)
	w.one(ActPick)
	for name, picks := range map[string][]Pick{
		"none":                nil,
		"in the ensemble":     {{0, "b2"}, {1, "b3"}},
		"the failed one":      {{0, "b1"}, {1, "b3"}},
		"bookie twice":        {{0, "b3"}, {1, "b3"}},
		"position twice":      {{0, "b3"}, {0, "b4"}},
		"sound position":      {{0, "b3"}, {2, "b4"}},
		"no bookie":           {{0, ""}, {1, "b3"}},
		"impossible position": {{-1, "b3"}},
	} {
		require.Error(t, w.Replace(picks), name)
		w.quiet()
	}
	require.NoError(t, w.Replace([]Pick{{0, "b3"}, {1, "b4"}}))
	w.one(ActUpdate)
}

func TestRule15_NoReplacementFailsPendingAddsAndCloses(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(3)
	w.ack(0, 0, 1)
	w.fail(1, 2, bk.ErrTimeout)
	w.one(ActPick)
	w.NoBookies(errors.New("three bookies, three in the ensemble"))
	acts := w.Actions()
	require.Equal(t, []ActionKind{ActFailed, ActUpdate}, kindsOf(acts))
	require.ErrorIs(t, acts[0].Err, bk.ErrNotEnoughBookies)
	require.True(t, acts[1].Metadata.Equal(closedMeta(openMeta("b0", "b1", "b2"), 0, 1)))
	w.Updated()
	require.NoError(t, w.one(ActFinished).Err)
}

func TestRule15_GoingOnWithoutAReplacement(t *testing.T) {
	w := newTestWriter(t, WriterConfig{Policy: ReplaceOrGoOn})
	w.push(3)
	w.fail(1, 2, bk.ErrTimeout)
	w.one(ActPick)
	w.ack(0, 0, 1)
	w.NoBookies(errors.New("none left"))
	require.Equal(t, bk.EntryID(0), w.LAC(), "completions resume")
	w.fail(2, 2, bk.ErrTimeout)
	w.quiet()
	w.ack(1, 0, 1)
	w.ack(2, 0, 2) // a copy that got there after all
	require.Equal(t, bk.EntryID(2), w.LAC())

	w.push(1)
	w.BookiesChanged() // one more bookie is up
	require.Equal(t, []int{2}, w.one(ActPick).Change.Failed)
	require.NoError(t, w.Replace([]Pick{{Pos: 2, Bookie: "b3"}}))
	require.Equal(t, []Segment{
		{First: 0, Ensemble: []bk.BookieID{"b0", "b1", "b2"}},
		{First: 3, Ensemble: []bk.BookieID{"b0", "b1", "b3"}},
	}, w.one(ActUpdate).Metadata.Segments)
}

func TestRule15_GoingOnEndsWhenAnEntryCannotHaveItsAckQuorum(t *testing.T) {
	w := newTestWriter(t, WriterConfig{Policy: ReplaceOrGoOn})
	w.push(2)
	w.fail(0, 2, bk.ErrTimeout)
	w.one(ActPick)
	w.NoBookies(errors.New("none left"))
	w.fail(0, 1, bk.ErrTimeout)
	require.Equal(t, []int{1}, w.one(ActPick).Change.Failed)
	w.NoBookies(errors.New("none left"))
	require.Equal(t, []ActionKind{ActFailed, ActUpdate}, kindsOf(w.Actions()))
	require.ErrorIs(t, w.Err(), bk.ErrNotEnoughBookies)
}

func TestRule16_NewSegmentStartsAtLACPlusOne(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(4)
	w.ack(0, 0, 1, 2)
	w.fail(3, 1, bk.ErrBookieIO) // not the head of the queue
	m := w.change(Pick{Pos: 1, Bookie: "b3"})
	require.Equal(t, []Segment{
		{First: 0, Ensemble: []bk.BookieID{"b0", "b1", "b2"}},
		{First: 1, Ensemble: []bk.BookieID{"b0", "b3", "b2"}},
	}, m.Segments)
}

func TestRule16_SegmentThatStartsThereAlreadyIsReplaced(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(2)
	w.fail(0, 1, bk.ErrBookieIO)
	m := w.change(Pick{Pos: 1, Bookie: "b3"})
	require.Equal(t, []Segment{{First: 0, Ensemble: []bk.BookieID{"b0", "b3", "b2"}}}, m.Segments)

	w.Actions()
	w.ack(0, 0, 1)
	w.fail(1, 0, bk.ErrBookieIO)
	w.change(Pick{Pos: 0, Bookie: "b4"})
	w.Actions()
	w.fail(1, 2, bk.ErrBookieIO)
	m = w.change(Pick{Pos: 2, Bookie: "b5"})
	require.Equal(t, []Segment{
		{First: 0, Ensemble: []bk.BookieID{"b0", "b3", "b2"}},
		{First: 1, Ensemble: []bk.BookieID{"b4", "b3", "b5"}},
	}, m.Segments, "the change before last is overwritten, since LAC did not move")
}

// failing is a writer with entries 0 to 2 pushed, 1 confirmed, and the
// replacement of position 1 by b3 being written.
func failing(t *testing.T) *writer {
	t.Helper()
	w := newTestWriter(t, WriterConfig{})
	w.push(3)
	w.ack(0, 0, 1)
	w.ack(1, 0, 1)
	w.ack(2, 0)
	require.Equal(t, bk.EntryID(1), w.LAC())
	w.fail(2, 1, bk.ErrBookieIO)
	w.one(ActPick)
	require.NoError(t, w.Replace([]Pick{{Pos: 1, Bookie: "b3"}}))
	w.one(ActUpdate)
	return w
}

func TestRule17_ConflictStillOpenRecomputesFromFreshMetadata(t *testing.T) {
	w := failing(t)
	fresh := openMeta("x0", "b1", "b2") // re-replication moved entries up to 1 of b0 in the old segment
	fresh.Segments = append(fresh.Segments, Segment{First: 2, Ensemble: []bk.BookieID{"b0", "b1", "b2"}})
	w.Conflict(fresh)
	m := w.change(Pick{Pos: 1, Bookie: "b4"})
	require.Equal(t, []Segment{
		{First: 0, Ensemble: []bk.BookieID{"x0", "b1", "b2"}},
		{First: 2, Ensemble: []bk.BookieID{"b0", "b4", "b2"}},
	}, m.Segments)
}

func TestRule17_FailedBookieAlreadyGoneNeedsNothing(t *testing.T) {
	w := failing(t)
	fresh := openMeta("b0", "b1", "b2") // our own write, applied though its answer was lost
	fresh.Segments = append(fresh.Segments, Segment{First: 2, Ensemble: []bk.BookieID{"b0", "b3", "b2"}})
	w.Conflict(fresh)
	require.Equal(t, []string{"2@1=b3"}, sends(w.Actions()))
	w.ack(2, 1)
	require.Equal(t, bk.EntryID(2), w.LAC())
}

func TestRule17_InRecoveryIsFenced(t *testing.T) {
	w := failing(t)
	w.Conflict(inRecovery(openMeta("b0", "b1", "b2")))
	acts := w.Actions()
	require.Equal(t, []ActionKind{ActFailed, ActFinished}, kindsOf(acts))
	require.ErrorIs(t, acts[0].Err, bk.ErrFenced)
	require.ErrorIs(t, acts[1].Err, bk.ErrFenced)
	w.ack(2, 0, 1, 2)
	require.Equal(t, bk.EntryID(1), w.LAC())
}

func TestRule17_ClosedIsLedgerClosed(t *testing.T) {
	w := failing(t)
	w.Conflict(closedMeta(openMeta("b0", "b1", "b2"), 2, 3))
	acts := w.Actions()
	require.Equal(t, []ActionKind{ActFailed, ActFinished}, kindsOf(acts))
	require.ErrorIs(t, acts[0].Err, bk.ErrLedgerClosed)
	require.ErrorIs(t, acts[1].Err, bk.ErrMetadataConflict)
	_, err := w.Push(1)
	require.ErrorIs(t, err, bk.ErrLedgerClosed)
}

func TestRule17_MetadataThatContradictTheWriterEndIt(t *testing.T) {
	ahead := openMeta("b0", "b1", "b2")
	ahead.Segments = append(ahead.Segments, Segment{First: 3, Ensemble: []bk.BookieID{"b0", "b3", "b2"}})
	for name, fresh := range map[string]Metadata{
		"segment behind LAC + 1": ahead,
		"no segment":             {State: StateOpen},
		"ensemble of other size": openMeta("b0", "b1"),
		"a bookie twice":         openMeta("b0", "b1", "b1"),
		"first segment not at 0": {Segments: []Segment{{First: 1, Ensemble: []bk.BookieID{"b0", "b1", "b2"}}}},
		"segments do not go up":  {Segments: append(openMeta("b0", "b1", "b2").Segments, openMeta("b0", "b1", "b2").Segments...)},
	} {
		t.Run(name, func(t *testing.T) {
			w := failing(t)
			w.Conflict(fresh)
			require.Equal(t, []ActionKind{ActFailed, ActFinished}, kindsOf(w.Actions()))
			require.Error(t, w.Err())
		})
	}
}

func TestRule17_MetadataOutOfReachEndTheWriter(t *testing.T) {
	w := failing(t)
	w.UpdateFailed(bk.ErrTimeout)
	acts := w.Actions()
	require.Equal(t, []ActionKind{ActFailed, ActFinished}, kindsOf(acts))
	require.ErrorIs(t, acts[0].Err, bk.ErrTimeout)
	w.Updated()
	w.quiet()
}

func TestRule18_AckOfReplacedPositionIsForgottenAndEntryResent(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(3)
	w.fail(0, 2, bk.ErrBookieIO) // the change starts here
	w.ack(1, 1, 2)               // would be enough, but position 2 is on its way out
	w.one(ActPick)
	require.NoError(t, w.Replace([]Pick{{Pos: 2, Bookie: "b3"}}))
	w.one(ActUpdate)
	w.ack(0, 0, 1)
	w.Updated()
	require.Equal(t, []string{"0@2=b3", "1@2=b3", "2@2=b3"}, sends(w.Actions()))
	require.Equal(t, bk.EntryID(0), w.LAC(), "entry 1 fell below its ack quorum")
	w.ack(1, 2)
	require.Equal(t, bk.EntryID(1), w.LAC())
}

func TestRule18_HeadIsLookedAtAgainThoughItsWriteSetDidNotChange(t *testing.T) {
	q := bk.Quorum{Ensemble: 4, Write: 2, Ack: 2}
	w := newTestWriter(t, WriterConfig{Quorum: q, Metadata: openMeta("b0", "b1", "b2", "b3")})
	w.push(3)
	w.fail(2, 3, bk.ErrBookieIO)
	w.ack(0, 0, 1)
	require.Equal(t, bk.InvalidEntryID, w.LAC())
	w.change(Pick{Pos: 3, Bookie: "b4"})
	require.Equal(t, bk.EntryID(0), w.LAC())
	require.Equal(t, []string{"2@3=b4"}, sends(w.Actions()))
}

func TestRule19_ConfirmedEntriesAreNotSentAgain(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(3)
	w.ack(0, 0, 1)
	w.ack(1, 0, 1)
	w.fail(2, 2, bk.ErrBookieIO)
	m := w.change(Pick{Pos: 2, Bookie: "b3"})
	require.Equal(t, []string{"2@2=b3"}, sends(w.Actions()))
	require.Equal(t, bk.BookieID("b2"), m.Segments[0].Ensemble[2], "the old segment still names the failed bookie")
}

func TestRule20_LateChangeWaitsForMoreThanWMinusALostCopies(t *testing.T) {
	w := newTestWriter(t, WriterConfig{Policy: ReplaceLate})
	w.push(2)
	w.fail(0, 0, bk.ErrTimeout)
	w.fail(1, 1, bk.ErrTimeout) // another entry
	w.quiet()
	w.fail(0, 1, bk.ErrTimeout)
	require.Equal(t, []int{0, 1}, w.one(ActPick).Change.Failed)

	w = newTestWriter(t, WriterConfig{Policy: ReplaceLate})
	w.push(1)
	w.fail(0, 0, bk.ErrReadOnly)
	require.Equal(t, []int{0}, w.one(ActPick).Change.Failed)
}

func TestRule21_CloseFailsPendingFirstThenWritesLACAndItsLength(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	for range 4 {
		_, err := w.Push(10)
		require.NoError(t, err)
	}
	w.ack(0, 0, 1)
	w.ack(1, 0, 1)
	w.ack(3, 0, 1)
	w.Close()
	acts := w.Actions()
	require.Equal(t, []ActionKind{ActFailed, ActUpdate}, kindsOf(acts), "nothing is sent to bookies")
	require.ErrorIs(t, acts[0].Err, bk.ErrLedgerClosed)
	require.True(t, acts[1].Metadata.Equal(closedMeta(openMeta("b0", "b1", "b2"), 1, 20)))
	require.Equal(t, int64(20), w.Length())
	require.Zero(t, w.PendingBytes())
	w.Updated()
	require.NoError(t, w.one(ActFinished).Err)
	require.Equal(t, StateClosed, w.Metadata().State)
}

func TestRule21_CloseWaitsForAChangeInFlight(t *testing.T) {
	w := failing(t)
	w.Close()
	require.Equal(t, []ActionKind{ActFailed}, kindsOf(w.Actions()))
	w.Updated() // of the change
	m := w.one(ActUpdate).Metadata
	require.Equal(t, StateClosed, m.State)
	require.Len(t, m.Segments, 2)
	require.Equal(t, bk.EntryID(1), m.LastEntry)
	w.Updated()
	require.NoError(t, w.one(ActFinished).Err)
}

// closing is a writer that confirmed entry 0 of 5 bytes and is writing the
// close.
func closing(t *testing.T) *writer {
	t.Helper()
	w := newTestWriter(t, WriterConfig{})
	_, err := w.Push(5)
	require.NoError(t, err)
	w.ack(0, 0, 1)
	w.Close()
	w.one(ActUpdate)
	return w
}

func TestRule22_CloseConflict(t *testing.T) {
	open := openMeta("b0", "b1", "b2")
	t.Run("open: again over the fresh metadata", func(t *testing.T) {
		w := closing(t)
		w.Conflict(openMeta("b0", "x1", "b2"))
		require.True(t, w.one(ActUpdate).Metadata.Equal(closedMeta(openMeta("b0", "x1", "b2"), 0, 5)))
	})
	t.Run("closed the same: success", func(t *testing.T) {
		w := closing(t)
		w.Conflict(closedMeta(open, 0, 5))
		require.NoError(t, w.one(ActFinished).Err)
	})
	t.Run("closed at another entry", func(t *testing.T) {
		w := closing(t)
		w.Conflict(closedMeta(open, 1, 9))
		require.ErrorIs(t, w.one(ActFinished).Err, bk.ErrMetadataConflict)
	})
	t.Run("closed with another length", func(t *testing.T) {
		w := closing(t)
		w.Conflict(closedMeta(open, 0, 6))
		require.ErrorIs(t, w.one(ActFinished).Err, bk.ErrMetadataConflict)
	})
	t.Run("in recovery: fenced, the recoverer closes", func(t *testing.T) {
		w := closing(t)
		w.Conflict(inRecovery(open))
		require.ErrorIs(t, w.one(ActFinished).Err, bk.ErrFenced)
	})
	t.Run("metadata out of reach", func(t *testing.T) {
		w := closing(t)
		w.UpdateFailed(bk.ErrTimeout)
		require.ErrorIs(t, w.one(ActFinished).Err, bk.ErrTimeout)
	})
}

func TestRule23_EmptyLedgerClosesAtMinusOne(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.Close()
	require.True(t, w.one(ActUpdate).Metadata.Equal(closedMeta(openMeta("b0", "b1", "b2"), bk.InvalidEntryID, 0)))

	w = newTestWriter(t, WriterConfig{}) // one entry, not confirmed
	w.push(1)
	w.ack(0, 0)
	w.Close()
	require.True(t, w.Actions()[1].Metadata.Equal(closedMeta(openMeta("b0", "b1", "b2"), bk.InvalidEntryID, 0)))
}

// A change whose outcome is unknown may be applied at any later time. Found by
// ledgersim: the writer went on with the old ensemble, then the write arrived
// and named other bookies for what it had acknowledged.
func TestRule48_GoingOnAfterAnUnknownChangeFirstVoidsIt(t *testing.T) {
	old := openMeta("b0", "b1", "b2")
	start := func(t *testing.T) *writer {
		w := newTestWriter(t, WriterConfig{Policy: ReplaceOrGoOn})
		w.push(1)
		w.ack(0, 0, 1)
		w.push(1)
		w.fail(1, 2, bk.ErrTimeout)
		w.one(ActPick)
		require.NoError(t, w.Replace([]Pick{{Pos: 2, Bookie: "b3"}}))
		w.one(ActUpdate)
		w.ack(1, 0, 1)
		w.Conflict(old) // not applied, or not yet
		w.one(ActPick)
		w.NoBookies(errors.New("b3 is gone"))
		require.Equal(t, bk.EntryID(0), w.LAC(), "nothing completes yet")
		require.True(t, w.one(ActUpdate).Metadata.Equal(old), "the same again, for a new version")
		return w
	}
	t.Run("the write comes first", func(t *testing.T) {
		w := start(t)
		changed := openMeta("b0", "b1", "b2")
		changed.Segments = append(changed.Segments, Segment{First: 1, Ensemble: []bk.BookieID{"b0", "b1", "b3"}})
		w.Conflict(changed)
		require.Equal(t, []string{"1@2=b3"}, sends(w.Actions()))
		require.Equal(t, bk.EntryID(1), w.LAC())
	})
	t.Run("unknown again", func(t *testing.T) {
		w := start(t)
		w.Conflict(old)
		require.Equal(t, bk.EntryID(0), w.LAC())
		w.one(ActUpdate)
		w.Updated()
		require.Equal(t, bk.EntryID(1), w.LAC())
		w.quiet()
	})
}
