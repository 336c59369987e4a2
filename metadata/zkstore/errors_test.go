package zkstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

// What each error of the client library means for a read and for a transaction
// that was handed to a connection.
func TestErrorsOfTheClientLibrary(t *testing.T) {
	s := &Store{l: &link{}}
	own := &txn{s: s, l: s.l, ops: []metadata.Op{metadata.Create("/a", nil)}}
	session := &txn{s: s, l: &link{}, ops: own.ops}
	for _, c := range []struct {
		err              error
		refused, lost    bool
		own, ofTheOthers error // nil: any error that is none of metadata's
	}{
		{zk.ErrConnectionClosed, false, true, metadata.ErrUnknownOutcome, metadata.ErrUnknownOutcome},
		{zk.ErrClosing, false, true, metadata.ErrUnknownOutcome, metadata.ErrUnknownOutcome},
		{&net.OpError{Op: "write", Err: errors.New("broken pipe")}, false, true, metadata.ErrUnknownOutcome, metadata.ErrUnknownOutcome},
		{io.ErrUnexpectedEOF, false, true, metadata.ErrUnknownOutcome, metadata.ErrUnknownOutcome},
		{fmt.Errorf("unknown error: -7"), false, false, metadata.ErrUnknownOutcome, metadata.ErrUnknownOutcome},
		{zk.ErrShortBuffer, false, false, metadata.ErrUnknownOutcome, metadata.ErrUnknownOutcome},
		{zk.ErrAPIError, false, false, metadata.ErrUnknownOutcome, metadata.ErrUnknownOutcome},
		{zk.ErrNoServer, false, true, metadata.ErrUnavailable, metadata.ErrUnavailable},
		{zk.ErrSessionMoved, false, true, metadata.ErrUnavailable, metadata.ErrUnavailable},
		{zk.ErrSessionExpired, false, true, metadata.ErrUnavailable, metadata.ErrSessionLost},
		{zk.ErrNoNode, true, false, metadata.ErrNotFound, metadata.ErrNotFound},
		{zk.ErrNodeExists, true, false, metadata.ErrExists, metadata.ErrExists},
		{zk.ErrBadVersion, true, false, metadata.ErrConflict, metadata.ErrConflict},
		{zk.ErrNotEmpty, true, false, metadata.ErrNotEmpty, metadata.ErrNotEmpty},
		{zk.ErrNoAuth, true, false, nil, nil},
		{zk.ErrNoChildrenForEphemerals, true, false, nil, nil},
	} {
		require.Equal(t, c.refused, refused(c.err), "%v", c.err)
		require.Equal(t, c.lost, lost(c.err), "%v", c.err)
		for tx, want := range map[*txn]error{own: c.own, session: c.ofTheOthers} {
			err := tx.failure(t.Context(), true, c.err)
			if want != nil {
				require.ErrorIs(t, err, want)
				continue
			}
			require.ErrorIs(t, err, c.err)
			for _, known := range []error{metadata.ErrUnknownOutcome, metadata.ErrUnavailable, metadata.ErrSessionLost} {
				require.NotErrorIs(t, err, known)
			}
		}
	}
	require.ErrorIs(t, own.failure(t.Context(), false, zk.ErrConnectionClosed), metadata.ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, own.failure(ctx, true, ctx.Err()), metadata.ErrUnknownOutcome)
	require.ErrorIs(t, own.failure(ctx, false, ctx.Err()), context.Canceled)
	require.ErrorIs(t, readError(t.Context(), metadata.ErrClosed), metadata.ErrClosed)
}
