package quorum

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// What the Java client 4.17.2 did in a recovery against scripted bookies. E=3
// Qw=3 Qa=2; entries 0 and 1 on all three, entry 2, never acknowledged, on
// position 0 only; each entry holds one byte. Where the Java client closes with
// a length that does not belong to the last entry, or takes damage for an
// answer, the right outcome is in the table (rules 32 and 38).

var (
	jSilent  = bk.ErrTimeout
	jCorrupt = error(&bk.CorruptError{Where: "digest", Offset: -1})
	jNormal  = error(nil)
)

// javaLAC are the cases that script the last-entry reads by position.
var javaLAC = []struct {
	answers [3]error
	last    bk.EntryID // the ledger closes here
	err     error      // or fails so
}{
	{[3]error{jNormal, jNormal, jNormal}, 2, nil},
	{[3]error{jNormal, jSilent, jSilent}, 0, bk.ErrTimeout},
	{[3]error{jNormal, jSilent, jNormal}, 2, nil},
	{[3]error{jNormal, bk.ErrBookieIO, bk.ErrBookieIO}, 0, bk.ErrRecoveryFailed},
	{[3]error{jNormal, jCorrupt, jCorrupt}, 0, bk.ErrRecoveryFailed},
	{[3]error{jCorrupt, jNormal, jNormal}, 2, nil},
	{[3]error{bk.ErrUnauthorized, jNormal, jNormal}, 0, bk.ErrUnauthorized},
	{[3]error{bk.ErrNoSuchEntry, bk.ErrNoSuchEntry, bk.ErrNoSuchEntry}, 2, nil},
	{[3]error{bk.ErrNoSuchLedger, bk.ErrNoSuchLedger, jSilent}, 2, nil},
	{[3]error{bk.ErrUnknownLedgerState, bk.ErrUnknownLedgerState, jNormal}, 0, bk.ErrRecoveryFailed},
	{[3]error{bk.ErrUnknownLedgerState, jNormal, jNormal}, 2, nil},
}

// javaRead are the cases that script the reads of entry 2, in the order in
// which the answers came.
var javaRead = []struct {
	answers [3]error
	order   [3]int
	last    bk.EntryID
	err     error
}{
	{[3]error{bk.ErrNoSuchEntry, bk.ErrNoSuchEntry, jNormal}, [3]int{2, 0, 1}, 1, nil},
	{[3]error{jNormal, bk.ErrNoSuchEntry, bk.ErrNoSuchEntry}, [3]int{2, 0, 1}, 2, nil},
	{[3]error{bk.ErrNoSuchEntry, jNormal, bk.ErrNoSuchEntry}, [3]int{2, 0, 1}, 1, nil},
	{[3]error{bk.ErrBookieIO, bk.ErrNoSuchEntry, bk.ErrNoSuchEntry}, [3]int{2, 0, 1}, 1, nil},
	{[3]error{bk.ErrBookieIO, bk.ErrBookieIO, bk.ErrNoSuchEntry}, [3]int{2, 0, 1}, 0, bk.ErrRecoveryFailed},
	{[3]error{jSilent, jSilent, bk.ErrNoSuchEntry}, [3]int{2, 0, 1}, 0, bk.ErrTimeout},
	{[3]error{jCorrupt, bk.ErrNoSuchEntry, bk.ErrNoSuchEntry}, [3]int{2, 0, 1}, 1, nil},
	{[3]error{jCorrupt, jCorrupt, bk.ErrNoSuchEntry}, [3]int{2, 0, 1}, 0, bk.ErrRecoveryFailed},
	{[3]error{bk.ErrNoSuchLedger, bk.ErrNoSuchLedger, jSilent}, [3]int{2, 0, 1}, 1, nil},
	{[3]error{bk.ErrUnknownLedgerState, bk.ErrNoSuchEntry, bk.ErrBookieIO}, [3]int{2, 0, 1}, 0, bk.ErrRecoveryFailed},
	{[3]error{jCorrupt, bk.ErrNoSuchEntry, bk.ErrNoSuchEntry}, [3]int{2, 0, 1}, 1, nil}, // EOK without a body
}

// javaHolds says what position p holds of entry e.
func javaHolds(e bk.EntryID, p int) bool { return e <= 1 || e == 2 && p == 0 }

// runJava recovers. lac scripts the last-entry reads, reads those of entry 2.
func runJava(t *testing.T, lac, reads *[3]error, order [3]int) (Metadata, error) {
	t.Helper()
	r := newTestRecovery(t, RecoveryConfig{})
	for acts := r.take(); len(acts) > 0; acts = r.take() {
		for _, p := range order {
			for _, a := range acts {
				if a.Slot.Pos == p && a.Kind != ActUpdate && a.Kind != ActFinished && a.Kind != ActFrame {
					javaAnswer(r, a, lac, reads)
				}
			}
		}
		for range ofKind(acts, ActUpdate) {
			r.Updated()
		}
	}
	done, err := r.Finished()
	require.True(t, done)
	return r.Result(), err
}

func javaAnswer(r *recovery, a Action, lac, reads *[3]error) {
	p := a.Slot.Pos
	switch a.Kind {
	case ActReadLAC:
		last := bk.EntryID(1)
		if p == 0 {
			last = 2
		}
		var err error
		if lac != nil {
			err = lac[p]
		}
		r.LACAnswer(a.Slot, LACAnswer{Entry: last, LAC: last - 1, Length: int64(last) + 1}, err)
	case ActRead:
		var err error
		if !javaHolds(a.Entry, p) {
			err = bk.ErrNoSuchEntry
		}
		if reads != nil && a.Entry == 2 && reads[p] != nil {
			err = reads[p]
		}
		r.ReadAnswer(a.Entry, a.Slot, int64(a.Entry)+1, err)
	case ActSend:
		r.Ack(a.Entry, a.Slot)
	}
}

func TestJavaRecovery_LastEntryReads(t *testing.T) {
	for _, c := range javaLAC {
		t.Run(fmt.Sprint(c.answers), func(t *testing.T) {
			m, err := runJava(t, &c.answers, nil, [3]int{0, 1, 2})
			checkJava(t, m, err, c.last, c.err)
		})
	}
}

func TestJavaRecovery_ReadsOfAnUnconfirmedEntry(t *testing.T) {
	for i, c := range javaRead {
		t.Run(fmt.Sprint(i, c.answers), func(t *testing.T) {
			m, err := runJava(t, nil, &c.answers, c.order)
			checkJava(t, m, err, c.last, c.err)
		})
	}
}

func checkJava(t *testing.T, m Metadata, err error, last bk.EntryID, want error) {
	t.Helper()
	if want != nil {
		require.ErrorIs(t, err, bk.ErrRecoveryFailed)
		require.ErrorIs(t, err, want)
		return
	}
	require.NoError(t, err)
	require.Equal(t, last, m.LastEntry)
	require.Equal(t, int64(last)+1, m.Length)
}

func TestJavaRecovery_CoverageOfSixBookies(t *testing.T) {
	q := bk.Quorum{Ensemble: 6, Write: 2, Ack: 2}
	for _, c := range []struct {
		unknown []int
		ok      bool
	}{
		{[]int{0, 2, 4}, true}, {[]int{0, 3}, true}, {[]int{0, 1}, false},
		{[]int{0, 5}, false}, {[]int{1, 3, 5}, true}, {[]int{1, 2}, false},
	} {
		r := newTestRecovery(t, RecoveryConfig{Quorum: q, Metadata: inRecovery(openMeta("b0", "b1", "b2", "b3", "b4", "b5"))})
		replies := make([]lacReply, 6)
		for p := range replies {
			replies[p] = lacReply{entry: 5, lac: 5, length: 6}
		}
		for _, p := range c.unknown {
			replies[p] = lacErr(bk.ErrBookieIO)
		}
		r.lacs(replies...)
		for _, a := range ofKind(r.take(), ActRead) {
			r.ReadAnswer(a.Entry, a.Slot, 0, bk.ErrNoSuchEntry)
		}
		if c.ok {
			require.Equal(t, bk.EntryID(5), ofKind(r.take(), ActUpdate)[0].Metadata.LastEntry, "%v", c.unknown)
		} else {
			_, err := r.Finished()
			require.ErrorIs(t, err, bk.ErrRecoveryFailed, "%v", c.unknown)
		}
	}
}
