package conn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

// A fencing read of version 2 is never on the way where the answer to a plain
// read could be taken for its own.
func TestFencingReadsOfVersion2AreAlone(t *testing.T) {
	fresh := func() *calls { return &calls{byID: map[uint64]*Call{}, byKey: map[callKey]*Call{}} }
	fence := &Call{Op: OpFenceReadV2, Ledger: 1, Entry: 3}
	plain := &Call{Op: OpRead, Ledger: 1, Entry: 3, deadline: time.Second}

	s := fresh()
	require.False(t, s.clash(fence))
	s.add(fence)
	require.True(t, s.clash(plain))
	require.True(t, s.clash(&Call{Op: OpFenceReadV2, Ledger: 1, Entry: 3}))
	require.False(t, s.clash(&Call{Op: OpRead, Ledger: 1, Entry: 4}))
	require.False(t, s.clash(&Call{Op: OpBatchRead, Ledger: 1, Entry: 3}))
	require.False(t, s.clash(&Call{Op: OpRecoveryAddV2, Ledger: 1, Entry: 3}))
	require.Same(t, fence, s.takeKey(callKey{ledger: 1, entry: 3}))
	require.False(t, s.clash(plain))

	s.add(plain)
	require.True(t, s.clash(fence))
	require.Len(t, s.takeDue(2*time.Second), 1)
	require.True(t, s.clash(fence), "the answer may still come")
	require.Empty(t, s.takeAll())
	require.False(t, s.clash(fence), "not on another connection")

	add := &Call{Op: OpRecoveryAddV2, Ledger: 1, Entry: 3}
	s.add(add)
	require.Equal(t, int32(1), s.adds.Load())
	require.Same(t, add, s.takeKey(callKey{add: true, ledger: 1, entry: 3}))
	s.add(add)
	require.Len(t, s.takeAll(), 1)
	require.Zero(t, s.adds.Load())
	require.Equal(t, bk.EntryID(3), add.Entry)
}
