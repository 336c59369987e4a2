package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
)

// A reader that waits at the end of a ledger is told when the ledger is
// deleted: nobody would ever append to it again.
func TestWaitingReaderIsToldOfADeletion(t *testing.T) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		c := w.client(ledger.Options{})
		r := w.open(c, wr.ID(), ledger.NoRecovery)
		time.AfterFunc(time.Minute, func() { _ = c.Delete(w.ctx, wr.ID()) })
		_, err := r.ReadNext(w.ctx, bk.InvalidEntryID)
		require.ErrorIs(t, err, bk.ErrNoSuchLedger)
		_, err = r.WaitLAC(w.ctx, bk.InvalidEntryID)
		require.ErrorIs(t, err, bk.ErrNoSuchLedger)
	})
}
