package quorum

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

func TestRule25_ClosedLedgerNeedsNoBookie(t *testing.T) {
	c := NewConfirmed(closedMeta(openMeta("b0", "b1", "b2"), 7, 70))
	require.True(t, c.Closed())
	require.Equal(t, bk.EntryID(7), c.LAC())
	require.False(t, c.Raise(9), "a higher hint is stale")
	require.Equal(t, bk.EntryID(7), c.LAC())
}

func TestRule26_LACOfAnOpenLedgerIsTheLargestHeard(t *testing.T) {
	var r LACRead
	r.Start(1, q332)
	require.Equal(t, LACPending, r.Answer(0, LACAnswer{Entry: 5, LAC: 4}, nil))
	require.Equal(t, LACCovered, r.Answer(2, LACAnswer{Entry: 5, LAC: 5}, nil), "explicit LAC above the entry's")
	require.Equal(t, bk.EntryID(5), r.LAC())

	c := NewConfirmed(openMeta("b0", "b1", "b2"))
	require.Equal(t, bk.InvalidEntryID, c.LAC())
	require.True(t, c.Raise(r.LAC()))
	require.False(t, c.Observe(inRecovery(openMeta("b0", "b1", "b2"))))
	require.True(t, c.Observe(closedMeta(openMeta("b0", "b1", "b2"), 6, 7)), "the close is noticed")
	require.Equal(t, bk.EntryID(6), c.LAC())
}

func TestRule27_LACOnlyMovesUpSaveByClosing(t *testing.T) {
	c := NewConfirmed(openMeta("b0", "b1", "b2"))
	require.True(t, c.Raise(3))
	require.False(t, c.Raise(3))
	require.False(t, c.Raise(1))
	require.Equal(t, bk.EntryID(3), c.LAC())
	require.True(t, c.Observe(closedMeta(openMeta("b0", "b1", "b2"), 2, 3)), "the hint was too high")
	require.Equal(t, bk.EntryID(2), c.LAC())
	require.False(t, c.Observe(closedMeta(openMeta("b0", "b1", "b2"), 5, 3)), "a ledger closes once")
	require.Equal(t, bk.EntryID(2), c.LAC())
}

func TestRule28_ReadPastLACIsRefusedLocally(t *testing.T) {
	c := NewConfirmed(openMeta("b0", "b1", "b2"))
	c.Raise(3)
	for e, ok := range map[bk.EntryID]bool{-1: false, 0: true, 3: true, 4: false} {
		require.Equal(t, ok, c.Readable(e), "entry %d", e)
	}
}

func TestRule29_NoNewsIsBelievedAfterEMinusAPlusOneEmptyAnswers(t *testing.T) {
	var p Poll
	p.Start(bk.Quorum{Ensemble: 4, Write: 3, Ack: 2}, 10, 3)
	empty := PollAnswer{Entry: bk.InvalidEntryID, MaxLAC: 9}
	var order []int
	for i := range 3 {
		pos, ok := p.Next()
		require.True(t, ok)
		order = append(order, pos)
		want := PollAsk
		if i == 2 {
			want = PollEmpty
		}
		require.Equal(t, want, p.Answer(pos, empty, nil))
		require.Equal(t, PollPending, p.Answer(pos, PollAnswer{Entry: 10}, nil), "once a bookie")
	}
	require.Equal(t, []int{3, 0, 1}, order)
	_, ok := p.Next()
	require.False(t, ok)
}

func TestRule29_NewsOfALongPoll(t *testing.T) {
	for _, c := range []struct {
		name string
		a    PollAnswer
		err  error
		want PollVerdict
	}{
		{"the entry", PollAnswer{Entry: 10, MaxLAC: 10}, nil, PollEntry},
		{"only its LAC", PollAnswer{Entry: bk.InvalidEntryID, MaxLAC: 12}, nil, PollLAC},
		{"another entry, older LAC", PollAnswer{Entry: 9, MaxLAC: 9}, nil, PollAsk},
		{"missing", PollAnswer{}, bk.ErrNoSuchLedger, PollAsk},
		{"error", PollAnswer{Entry: 10, MaxLAC: 10}, bk.ErrBookieIO, PollAsk},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Poll
			p.Start(q332, 10, 0)
			pos, _ := p.Next()
			require.Equal(t, c.want, p.Answer(pos, c.a, c.err))
		})
	}
}

func TestRule29_ErrorsAreNotNews(t *testing.T) {
	var p Poll
	p.Start(q332, 0, 1)
	for i, err := range []error{bk.ErrTimeout, nil, bk.ErrBookieIO} {
		pos, ok := p.Next()
		require.True(t, ok)
		v := p.Answer(pos, PollAnswer{Entry: bk.InvalidEntryID, MaxLAC: -1}, err)
		if i == 2 {
			require.Equal(t, PollFailed, v)
		} else {
			require.Equal(t, PollAsk, v)
		}
	}
	require.ErrorIs(t, p.Err(), bk.ErrTimeout)
}

func TestRule40_SegmentOfAnEntry(t *testing.T) {
	m := openMeta("b0", "b1", "b2")
	m.Segments = append(m.Segments, Segment{First: 4}, Segment{First: 9})
	for e, want := range map[bk.EntryID]int{-1: -1, 0: 0, 3: 0, 4: 1, 8: 1, 9: 2, 1 << 50: 2} {
		require.Equal(t, want, m.SegmentOf(e), "entry %d", e)
	}
}

func TestRule40_ReplicasAreAskedInWriteSetOrderOrAsPreferred(t *testing.T) {
	q := bk.Quorum{Ensemble: 4, Write: 3, Ack: 2}
	for _, c := range []struct{ prefer, want []int }{
		{nil, []int{2, 3, 0}},
		{[]int{0, 2}, []int{0, 2, 3}},
		{[]int{1, 3, 3, -1, 9}, []int{3, 2, 0}}, // 1 is not in the write set
	} {
		var r Read
		r.Start(q, 2, c.prefer)
		var got []int
		for pos, ok := r.Next(); ok; pos, ok = r.Next() {
			got = append(got, pos)
		}
		require.Equal(t, c.want, got)
	}
}

func TestRule41_ErrorAsksTheNextReplicaAndTheFirstValidCopyWins(t *testing.T) {
	var r Read
	r.Start(q332, 0, nil)
	first, _ := r.Next()
	require.Equal(t, ReadAsk, r.Answer(first, bk.ErrNoSuchEntry))
	second, _ := r.Next()
	third, ok := r.Next() // speculation: the second is slow
	require.True(t, ok)
	require.Equal(t, ReadDone, r.Answer(third, nil))
	require.Equal(t, ReadPending, r.Answer(second, nil), "late copies are dropped")
	_, ok = r.Next()
	require.False(t, ok)
}

func TestRule41_SlowReplicaStillCountsAfterSpeculation(t *testing.T) {
	var r Read
	r.Start(q322, 0, nil)
	first, _ := r.Next()
	second, _ := r.Next()
	require.Equal(t, ReadPending, r.Answer(second, bk.ErrNoSuchEntry))
	require.Equal(t, ReadDone, r.Answer(first, nil))
}

// javaReadCases are what the Java client 4.17.2 made of the answers of two
// replicas.
var javaReadCases = []struct {
	answers []error
	want    error
}{
	{[]error{bk.ErrNoSuchEntry, bk.ErrNoSuchEntry}, bk.ErrNoSuchEntry},
	{[]error{bk.ErrCorrupt, bk.ErrCorrupt}, bk.ErrCorrupt},
	{[]error{bk.ErrCorrupt, nil}, nil},
	{[]error{bk.ErrNoSuchEntry, bk.ErrBookieIO}, bk.ErrBookieIO},
	{[]error{bk.ErrBookieIO, bk.ErrNoSuchEntry}, bk.ErrBookieIO},
	{[]error{bk.ErrNoSuchLedger, bk.ErrNoSuchEntry}, bk.ErrNoSuchEntry},
	{[]error{bk.ErrNoSuchEntry, bk.ErrCorrupt}, bk.ErrCorrupt},
	{[]error{bk.ErrCorrupt, bk.ErrNoSuchEntry}, bk.ErrCorrupt},
	{[]error{bk.ErrTimeout, bk.ErrNoSuchEntry}, bk.ErrTimeout},
	{[]error{bk.ErrNoSuchEntry, bk.ErrTimeout}, bk.ErrTimeout},
	{[]error{bk.ErrUnauthorized, nil}, nil},
	{[]error{bk.ErrUnknownLedgerState, bk.ErrNoSuchEntry}, bk.ErrUnknownLedgerState},
	{[]error{bk.ErrTooManyRequests, bk.ErrNoSuchEntry}, bk.ErrTooManyRequests},
	{[]error{bk.ErrBookieUnavailable, bk.ErrBookieIO}, bk.ErrBookieIO},
	{[]error{bk.ErrBookieIO, bk.ErrBookieUnavailable}, bk.ErrBookieIO},
	{[]error{bk.ErrBookieUnavailable, bk.ErrNoSuchEntry}, bk.ErrBookieUnavailable},
	{[]error{bk.ErrNoSuchLedger, bk.ErrNoSuchLedger}, bk.ErrNoSuchLedger},
}

func TestRule43_MostTellingErrorOfARead(t *testing.T) {
	for _, c := range javaReadCases {
		t.Run(fmt.Sprint(c.answers), func(t *testing.T) {
			var r Read
			r.Start(q322, 0, nil)
			var v ReadVerdict
			for _, err := range c.answers {
				pos, ok := r.Next()
				require.True(t, ok)
				if err != nil {
					err = &bk.BookieError{Bookie: "b", Err: err}
				}
				v = r.Answer(pos, err)
			}
			if c.want == nil {
				require.Equal(t, ReadDone, v)
				return
			}
			require.Equal(t, ReadFailed, v)
			require.ErrorIs(t, r.Err(), c.want)
			require.Equal(t, Classify(c.want) == Missing, Classify(r.Err()) == Missing)
		})
	}
}

func TestRule43_MissingOnlyIfEveryReplicaSaidMissing(t *testing.T) {
	errs := []error{bk.ErrNoSuchEntry, bk.ErrNoSuchLedger, bk.ErrTimeout, bk.ErrBookieUnavailable, bk.ErrCorrupt, errors.New("other")}
	for _, a := range errs {
		for _, b := range errs {
			for _, c := range errs {
				var r Read
				r.Start(q332, 5, nil)
				for _, err := range []error{a, b, c} {
					pos, _ := r.Next()
					r.Answer(pos, err)
				}
				all := Classify(a) == Missing && Classify(b) == Missing && Classify(c) == Missing
				require.Equal(t, all, Classify(r.Err()) == Missing, "%v, %v, %v -> %v", a, b, c, r.Err())
			}
		}
	}
}

func TestRule44_UnknownLedgerStateIsNeverMissing(t *testing.T) {
	require.Equal(t, Unknown, Classify(&bk.BookieError{Bookie: "b", Err: bk.ErrUnknownLedgerState}))
}

func TestRead_AllocatesNothingWhenReused(t *testing.T) {
	var r Read
	e := bk.EntryID(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		e++
		r.Start(q332, e, nil)
		pos, _ := r.Next()
		r.Answer(pos, bk.ErrTimeout)
		pos, _ = r.Next()
		r.Answer(pos, nil)
	}))
}
