package server

import (
	"context"

	"github.com/loglode/loglode/bookie/bk"
)

// keyMax is the size in bytes of the longest master key that a bookie takes. It
// keeps keys for ever; those of clients have 20.
const keyMax = 1 << 10

// fence makes a ledger refuse ordinary adds, durably, before a fencing read
// looks at it. A request without a key has no right to.
func (w *worker) fence(l bk.LedgerID, masterKey []byte) bk.Status {
	if masterKey == nil {
		return bk.StatusUnauthorized
	}
	ctx, cancel := context.WithTimeout(w.s.ctx, w.s.opts.OpTimeout)
	defer cancel()
	return w.s.store.Fence(ctx, l, masterKey)
}
