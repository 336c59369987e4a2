package wire

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/proxy/wire/internal/idl"
	"github.com/loglode/loglode/stream"
)

// TestStatusTableCoversIDL: every code of the IDL has exactly one row, and no
// row has a number that the IDL lacks (a Java client rejects those).
func TestStatusTableCoversIDL(t *testing.T) {
	rows := map[Code]int{}
	for _, s := range statuses {
		rows[s.code]++
		require.NotEqual(t, "<UNSET>", s.code.String(), "code %d", s.code)
	}
	inIDL := 0
	for n := range Code(2000) {
		if n.String() == "<UNSET>" {
			require.Zero(t, rows[n], "code %d is not in the IDL", n)
			continue
		}
		inIDL++
		require.Equal(t, 1, rows[n], "code %d %s", n, n)
	}
	require.Equal(t, 37, inIDL)
	require.Equal(t, idl.StatusCode_SUCCESS, Success)
}

// TestStatusBothWays: a condition gives its code, the code gives the condition
// back, also through the header on the wire.
func TestStatusBothWays(t *testing.T) {
	seen := 0
	for _, s := range statuses {
		for _, cond := range s.errs {
			seen++
			wrapped := fmt.Errorf("append to stream s: %w", cond)
			require.Equal(t, s.code, CodeOf(wrapped), "%v", cond)
			h := HeaderOf(wrapped)
			require.Equal(t, s.code, h.Code)
			back := ErrorOf(h)
			require.ErrorIs(t, back, cond)
			require.Equal(t, s.code, CodeOf(back))
			require.Equal(t, s.code, CodeOf(fmt.Errorf("again: %w", back)))
		}
		require.Equal(t, s.code, CodeOf(ErrorOf(&ResponseHeader{Code: s.code})), "%s", s.code)
		for _, other := range statuses {
			for _, cond := range other.errs {
				if other.code != s.code && errors.Is(ErrorOf(&ResponseHeader{Code: s.code}), cond) {
					require.Contains(t, alike[s.code], cond, "%s stands for %v of another row", s.code, cond)
				}
			}
		}
	}
	require.Greater(t, seen, 15)
	require.Equal(t, Success, CodeOf(nil))
	require.Equal(t, InternalServerError, CodeOf(errors.New("odd")))
	require.NoError(t, ErrorOf(HeaderOf(nil)))
	require.ErrorIs(t, ErrorOf(nil), ErrProtocol)
	for _, cond := range []error{stream.ErrFenced, stream.ErrSealed, stream.ErrClosed, stream.ErrTruncated, stream.ErrNotFound,
		stream.ErrExists, stream.ErrNotEnoughBookies, stream.ErrBufferFull, stream.ErrCorrupt, stream.ErrConflict, stream.ErrTxIDOrder,
		stream.ErrRecordTooLong, stream.ErrNotOwner, stream.ErrEndOfStream, stream.ErrInvalidName, stream.ErrUnavailable,
		stream.ErrTimeout, stream.ErrUnauthorized, stream.ErrEmpty, stream.ErrUnsupported} {
		require.NotEqual(t, InternalServerError, CodeOf(cond), "%v has no code", cond)
	}
}

func TestStatusFoundCarriesOnlyTheLocation(t *testing.T) {
	h := HeaderOf(&StatusError{Code: Found, Location: "1;3;10.0.0.2:8000"})
	require.Nil(t, h.ErrMsg)
	require.Equal(t, "1;3;10.0.0.2:8000", h.GetLocation())
	err := ErrorOf(h)
	require.ErrorIs(t, err, stream.ErrNotOwner)
	require.Contains(t, err.Error(), "302 FOUND")
}

// TestStatusReactions: the codes for which DistributedLog's client does not
// take its default way, and which outcomes are certain.
func TestStatusReactions(t *testing.T) {
	want := map[Code]Reaction{Success: Done, Found: Redirect, ServiceUnavailable: DropHost, RegionUnavailable: KeepAndAsk, TooManyStreams: KeepAndAsk}
	for _, c := range []Code{RequestDenied, TooLargeRecord, NotImplemented, MetadataException, LogEmpty, LogNotFound, TruncatedTransaction,
		EndOfStream, TransactionOutOfOrder, OverCapacity, StreamNotReady, ChecksumFailed, InvalidStreamName} {
		want[c] = Fail
	}
	for _, s := range statuses {
		if r, ok := want[s.code]; ok {
			require.Equal(t, r, s.react, "%s", s.code)
		} else {
			require.Equal(t, Elsewhere, s.react, "%s", s.code)
		}
	}
	require.False(t, MayHaveHappened(WriteCancelled))
	require.False(t, MayHaveHappened(Found))
	require.True(t, MayHaveHappened(LockingException))
	require.True(t, MayHaveHappened(Code(9999)))
}
