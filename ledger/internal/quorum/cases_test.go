package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// The faults of these cases were seen in other replicated logs.

func TestR03_RecoveryDoesNotReachIntoOlderEnsembles(t *testing.T) {
	q := bk.Quorum{Ensemble: 2, Write: 2, Ack: 2}
	m := openMeta("b1", "b2")
	m.Segments = append(m.Segments,
		Segment{First: 1000, Ensemble: []bk.BookieID{"b2", "b3"}},
		Segment{First: 2000, Ensemble: []bk.BookieID{"b4", "b5"}})

	t.Run("nothing written in the last segment", func(t *testing.T) {
		r := newTestRecovery(t, RecoveryConfig{Quorum: q, Metadata: inRecovery(m)})
		r.lacs(lacErr(bk.ErrNoSuchLedger), lacErr(bk.ErrNoSuchLedger))
		acts := r.take()
		require.Equal(t, bk.EntryID(2000), acts[0].Entry)
		r.ReadAnswer(2000, acts[0].Slot, 0, bk.ErrNoSuchLedger)
		acts = r.take()
		require.Equal(t, []ActionKind{ActRead, ActRead}, kindsOf(acts), "the length of 1999, from its own segment")
		require.Equal(t, bk.EntryID(1999), acts[0].Entry)
		require.ElementsMatch(t, []bk.BookieID{"b2", "b3"}, []bk.BookieID{acts[0].Bookie, acts[1].Bookie})
		r.ReadAnswer(1999, acts[0].Slot, 4321, nil)
		require.True(t, oneAction(t, r.take(), ActUpdate).Metadata.Equal(closedMeta(m, 1999, 4321)))
	})
	t.Run("a bookie goes down during write-back", func(t *testing.T) {
		r := newTestRecovery(t, RecoveryConfig{Quorum: q, Metadata: inRecovery(m)})
		r.lacs(lacErr(bk.ErrNoSuchLedger), lacErr(bk.ErrNoSuchLedger))
		r.read(2000, 0, nil)
		r.Fail(2000, r.back.Slot(1), bk.ErrBookieUnavailable)
		require.NoError(t, r.Replace([]Pick{{Pos: 1, Bookie: "b6"}}))
		r.ackAll(2000)
		r.read(2001, 0, bk.ErrNoSuchEntry)
		got := ofKind(r.take(), ActUpdate)[0].Metadata
		require.Equal(t, append(m.Segments[:2:2], Segment{First: 2000, Ensemble: []bk.BookieID{"b4", "b6"}}), got.Segments)
		require.Equal(t, bk.EntryID(2000), got.LastEntry)
	})
	t.Run("LAC reads time out", func(t *testing.T) {
		r := newTestRecovery(t, RecoveryConfig{Quorum: q, Metadata: inRecovery(m)})
		r.lacs(lacErr(bk.ErrTimeout), lacErr(bk.ErrTimeout))
		require.ErrorIs(t, oneAction(t, r.take(), ActFinished).Err, bk.ErrTimeout)
	})
}

func TestR04_SilentBookieDoesNotStopRecovery(t *testing.T) {
	for _, q := range []bk.Quorum{q332, {Ensemble: 5, Write: 5, Ack: 3}, {Ensemble: 4, Write: 3, Ack: 2}} {
		for silent := range 1 << q.Ensemble {
			runR04(t, q, silent)
		}
	}
}

// runR04 recovers ten entries with a set of bookies that never answer. It must
// reach the end without them whenever every window can be covered.
func runR04(t *testing.T, q bk.Quorum, silent int) {
	t.Helper()
	bookies := []bk.BookieID{"b0", "b1", "b2", "b3", "b4"}[:q.Ensemble]
	heard := make([]bool, q.Ensemble)
	for p := range heard {
		heard[p] = silent&(1<<p) == 0
	}
	r := newTestRecovery(t, RecoveryConfig{Quorum: q, Metadata: inRecovery(openMeta(bookies...))})
	var closed *Metadata
	for acts := r.take(); len(acts) > 0; acts = r.take() {
		for _, a := range acts {
			if a.Kind != ActUpdate && !heard[a.Slot.Pos] {
				continue
			}
			switch a.Kind {
			case ActReadLAC:
				r.LACAnswer(a.Slot, LACAnswer{Entry: 5, LAC: 4, Length: 6}, nil)
			case ActRead:
				var err error
				if a.Entry > 9 {
					err = bk.ErrNoSuchEntry
				}
				r.ReadAnswer(a.Entry, a.Slot, int64(a.Entry)+1, err)
			case ActSend:
				r.Ack(a.Entry, a.Slot)
			case ActUpdate:
				closed = &a.Metadata
			}
		}
	}
	// A negative verdict takes Qw - Qa + 1 answers of a write set, and a write
	// back Qa of them.
	sufficient := Covered(q, heard)
	for e := bk.EntryID(5); e <= 10; e++ {
		n := 0
		for k := range q.Write {
			if heard[Position(q, e, k)] {
				n++
			}
		}
		sufficient = sufficient && n >= max(q.Ack, q.Write-q.Ack+1)
	}
	require.Equal(t, sufficient, closed != nil, "%+v silent %b", q, silent)
	if closed != nil {
		require.Equal(t, bk.EntryID(9), closed.LastEntry)
		require.Equal(t, int64(10), closed.Length)
	}
}

func TestR06_OneDeadBookieReportedTwiceDoesNotWedgeTheWriter(t *testing.T) {
	const n = 5000
	w := newTestWriter(t, WriterConfig{})
	w.push(n)
	old := w.Slot(1)
	for e := range bk.EntryID(n) {
		w.ack(e, 0)
		if e%2 == 0 {
			w.Fail(e, old, bk.ErrBookieUnavailable) // fails at once
		}
	}
	w.change(Pick{Pos: 1, Bookie: "b3"})
	for _, a := range w.Actions() {
		w.Ack(a.Entry, a.Slot)
		w.Fail(a.Entry, old, bk.ErrTimeout) // the old bookie's silence
		w.Fail(a.Entry, old, bk.ErrTimeout)
	}
	require.Equal(t, bk.EntryID(n-1), w.LAC())
	w.quiet()
}

func TestR05_NoAckWhileTheEnsembleIsOnlyLocal(t *testing.T) {
	w := newTestWriter(t, WriterConfig{})
	w.push(1)
	w.ack(0, 0, 1, 2)
	for i, failed := range []int{0, 1, 2} { // metadata hang; one bookie after the other fails
		w.push(1)
		w.fail(bk.EntryID(i)+1, failed, bk.ErrTimeout)
	}
	w.one(ActPick)
	require.NoError(t, w.Replace([]Pick{{Pos: 0, Bookie: "b3"}}))
	w.one(ActUpdate)
	for e := bk.EntryID(1); e <= 3; e++ {
		w.ack(e, 0, 1, 2)
	}
	require.Equal(t, bk.EntryID(0), w.LAC())
	w.UpdateFailed(bk.ErrTimeout)
	acts := w.Actions()
	require.Equal(t, []ActionKind{ActFailed, ActFinished}, kindsOf(acts))
	require.Equal(t, bk.EntryID(0), w.LAC())
}
