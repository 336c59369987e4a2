package segment

import (
	"context"
	"errors"
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// conditions maps what the layers below report to what a user of streams can
// act on. The first match wins.
var conditions = []struct{ from, to error }{
	{bk.ErrFenced, stream.ErrFenced},
	{bk.ErrUnauthorized, stream.ErrUnauthorized},
	{bk.ErrNotEnoughBookies, stream.ErrNotEnoughBookies},
	{bk.ErrBufferFull, stream.ErrBufferFull},
	{bk.ErrPayloadTooLong, stream.ErrRecordTooLong},
	{bk.ErrMetadataConflict, stream.ErrConflict},
	{bk.ErrCorrupt, stream.ErrCorrupt},
	{bk.ErrNoSuchLedger, stream.ErrNotFound},
	{bk.ErrRecoveryFailed, stream.ErrUnavailable},
	{bk.ErrBookieUnavailable, stream.ErrUnavailable},
	{bk.ErrTooManyRequests, stream.ErrUnavailable},
	{bk.ErrBookieIO, stream.ErrUnavailable},
	{bk.ErrReadOnly, stream.ErrUnavailable},
	{bk.ErrUnknownLedgerState, stream.ErrUnavailable},
	{bk.ErrTimeout, stream.ErrTimeout},
	{bk.ErrClosed, stream.ErrClosed},
	{bk.ErrLedgerClosed, stream.ErrClosed},
	{metadata.ErrNotFound, stream.ErrNotFound},
	{metadata.ErrExists, stream.ErrExists},
	{metadata.ErrConflict, stream.ErrConflict},
	{metadata.ErrUnknownOutcome, stream.ErrUnavailable},
	{metadata.ErrUnavailable, stream.ErrUnavailable},
	{metadata.ErrClosed, stream.ErrClosed},
	{context.DeadlineExceeded, stream.ErrTimeout},
}

// MapError adds to an error of the ledger or of the metadata store the stream
// condition that it stands for; both stay visible to errors.Is. Errors that
// have a stream condition already, or that stand for none, pass unchanged.
func MapError(err error) error {
	if err == nil {
		return nil
	}
	var to error
	for _, c := range conditions {
		if errors.Is(err, c.to) {
			return err
		}
		if to == nil && errors.Is(err, c.from) {
			to = c.to
		}
	}
	if to == nil {
		return err
	}
	return fmt.Errorf("%w: %w", to, err)
}
