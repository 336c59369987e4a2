package memstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

// A refused Txn leaves no trace, not even places made on the way.
func TestRefusedTxnLeavesTreeEmpty(t *testing.T) {
	s := New()
	_, err := s.Txn(t.Context(),
		metadata.Create("/a/b/c", nil),
		metadata.Create("/a/q-", nil).AsSequential(),
		metadata.Check("/nowhere", metadata.AnyVersion))
	require.ErrorIs(t, err, metadata.ErrNotFound)
	require.Empty(t, s.tree.root.children)
	require.Zero(t, s.tree.rev)
}

// Deleting everything leaves no places behind.
func TestDeletedPlacesArePruned(t *testing.T) {
	s := New()
	_, err := s.Txn(t.Context(), metadata.Create("/a/b/c", nil))
	require.NoError(t, err)
	_, err = s.Txn(t.Context(), metadata.Delete("/a/b/c", metadata.AnyVersion))
	require.NoError(t, err)
	require.Empty(t, s.tree.root.children)
}
