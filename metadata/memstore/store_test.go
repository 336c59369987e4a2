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

// A strict tree wants parents, as ZooKeeper does, and WithParents makes them.
func TestStrictTree(t *testing.T) {
	ctx := t.Context()
	s := NewStrictTree().Open()
	defer s.Close()
	_, err := s.Txn(ctx, metadata.Create("/a/b/c", nil))
	require.ErrorIs(t, err, metadata.ErrNotFound)
	_, err = s.Txn(ctx, metadata.Create("/a/b/c", nil).WithParents(), metadata.Check("/nowhere", metadata.AnyVersion))
	require.ErrorIs(t, err, metadata.ErrNotFound)
	require.Empty(t, s.tree.root.children)

	_, err = s.Txn(ctx, metadata.Create("/a/b/c", []byte("v")).WithParents(), metadata.Create("/a/b/d", nil))
	require.NoError(t, err)
	for _, key := range []string{"/a", "/a/b", "/a/b/d"} {
		n, err := s.Get(ctx, key)
		require.NoError(t, err)
		require.Empty(t, n.Value)
		require.Equal(t, metadata.Version(1), n.Version)
	}
	_, err = s.Txn(ctx, metadata.Delete("/a/b", metadata.AnyVersion))
	require.ErrorIs(t, err, metadata.ErrNotEmpty)

	// Versions count the writes of one node, and begin anew.
	for range 2 {
		_, err = s.Txn(ctx, metadata.Set("/a/b/c", nil, 1))
		require.NoError(t, err)
		_, err = s.Txn(ctx, metadata.Delete("/a/b/c", 2), metadata.Create("/a/b/c", nil))
		require.NoError(t, err)
	}
	// Four creates below /a/b so far, none of them sequential.
	for _, want := range []string{"/a/b/q-0000000004", "/a/b/q-0000000005"} {
		res, err := s.Txn(ctx, metadata.Create("/a/b/q-", nil).AsSequential())
		require.NoError(t, err)
		require.Equal(t, want, res.Nodes[0].Key)
	}
}
