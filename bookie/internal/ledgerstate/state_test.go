package ledgerstate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

func TestStoredRoundTrip(t *testing.T) {
	for _, s := range []Stored{
		{LAC: bk.InvalidEntryID},
		{Fenced: true, LAC: -1, Key: []byte("key")},
		{Unordered: true, HasHighest: true, Highest: 1 << 62, LAC: 1<<62 - 1, Key: make([]byte, 20), LACBody: make([]byte, 36)},
		{HasHighest: true, Highest: -5, LAC: -9},
	} {
		b := s.Append(nil)
		got, err := Parse(b)
		require.NoError(t, err)
		require.Equal(t, s, got)
		for n := range b {
			_, err := Parse(b[:n])
			require.ErrorIs(t, err, bk.ErrCorrupt)
		}
	}
}

func TestEvictionKeepsWhatIsInUse(t *testing.T) {
	stored := map[bk.LedgerID]Stored{}
	table := NewTable(func(l bk.LedgerID) (Stored, bool, error) {
		s, ok := stored[l]
		return s, ok, nil
	})
	for l := range bk.LedgerID(100) {
		s, err := table.Lock(l)
		require.NoError(t, err)
		s.Exists = true
		s.MoveLAC(bk.EntryID(l))
		table.MarkDirty(s)
		if l == 7 {
			s.Wait(&Waiter{After: 1000})
		}
		s.Unlock()
	}
	for range 5 {
		table.Evict(0, math.MaxUint64)
	}
	require.Equal(t, 100, table.Len(), "all are dirty")
	taken := table.TakeDirty()
	for range 5 {
		table.Evict(0, math.MaxUint64)
	}
	require.Equal(t, 100, table.Len(), "all are on their way to the index")
	for _, s := range taken {
		s.Lock()
		stored[s.ID] = s.Stored
		s.Unlock()
	}
	s, err := table.Lock(3)
	require.NoError(t, err)
	table.MarkDirty(s) // a change after the flush began is for the next one
	s.Unlock()
	table.Settle(taken)
	require.True(t, table.Dirty())
	again := table.TakeDirty()
	require.Equal(t, []*State{s}, again)
	table.Settle(again)
	for range 5 {
		table.Evict(10, math.MaxUint64)
	}
	require.Equal(t, 10, table.Len())
	for range 5 {
		table.Evict(0, math.MaxUint64)
	}
	require.Equal(t, 1, table.Len(), "one has a waiter")
	for l := range bk.LedgerID(100) {
		s, err := table.LockKnown(l)
		require.NoError(t, err)
		require.Equal(t, bk.EntryID(l), s.LAC)
		s.Unlock()
	}
	s, err = table.LockKnown(1000)
	require.NoError(t, err)
	require.Nil(t, s)
	require.Equal(t, 100, table.Len(), "a ledger that is not known takes no memory")
}
