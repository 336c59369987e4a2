package server

import (
	"context"

	"github.com/loglode/loglode/bookie/bk"
)

// doForce answers once every add handed over before is durable.
func doForce(w *worker, _ *conn, t *task) {
	ctx, cancel := context.WithTimeout(w.s.ctx, w.s.opts.OpTimeout)
	defer cancel()
	w.statusV3(t, w.s.store.Force(ctx, bk.LedgerID(t.v3.ForceLedgerRequest.GetLedgerId())))
}
