package metadata

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysTakenApart(t *testing.T) {
	for _, k := range []struct{ key, parent, name string }{
		{"/a", "/", "a"}, {"/a/b", "/a", "b"}, {"/a/b/c.d", "/a/b", "c.d"},
	} {
		parent, name := Split(k.key)
		require.Equal(t, k.parent, parent)
		require.Equal(t, k.name, name)
		require.Equal(t, k.key, Child(parent, name))
		require.Equal(t, k.name, Name(k.key))
		require.NoError(t, ValidKey(k.key))
	}
	require.NoError(t, ValidKey("/"))
	require.NoError(t, ValidKey("/"+strings.Repeat("x", MaxKeyBytes-1)))
	require.ErrorIs(t, ValidOp(Put("/", nil)), ErrInvalidKey)
	require.NoError(t, ValidOp(Create("/a/", nil).AsSequential()))
	require.ErrorIs(t, ValidOp(Create("/a/", nil)), ErrInvalidKey)
}

// FuzzValidKey: a key that is taken cannot name anything outside its tree.
func FuzzValidKey(f *testing.F) {
	for _, k := range []string{"/", "/a/../b", "//", "/a\x00", "a", "/…", "/a/b"} {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if err := ValidKey(key); err != nil {
			require.ErrorIs(t, err, ErrInvalidKey)
			return
		}
		require.True(t, strings.HasPrefix(key, "/"))
		require.NotContains(t, key+"/", "/../")
		require.NotContains(t, key, "//")
		require.NotContains(t, key, "\x00")
	})
}

func TestTxnErrorShowsTheCondition(t *testing.T) {
	err := error(&TxnError{Index: 2, Key: "/a", Err: ErrExists})
	require.ErrorIs(t, err, ErrExists)
	require.ErrorContains(t, err, `txn op 2 on "/a"`)
	var te *TxnError
	require.True(t, errors.As(err, &te))
}
