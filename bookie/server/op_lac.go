package server

import (
	"context"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// Sizes in bytes of explicit LAC bodies: without a digest, ledger id and LAC,
// and what a bookie takes. The largest of a client has 36.
const (
	lacBodyMin = 16
	lacBodyMax = 1 << 10
)

func (c *conn) writeLAC(r *bkpb.Request) {
	b, q := &c.batch, r.WriteLacRequest
	if n := len(q.GetBody()); n < lacBodyMin || n > lacBodyMax || len(q.GetMasterKey()) > keyMax {
		b.answers = appendStatusV3(b.answers, r, bk.StatusBadRequest)
		return
	}
	b.syncs = append(b.syncs, task{do: doWriteLAC, v3: r})
}

// doWriteLAC stores an explicit LAC. The ids in its body rule; those of the
// request are echoed.
func doWriteLAC(w *worker, _ *conn, t *task) {
	q := t.v3.WriteLacRequest
	ctx, cancel := context.WithTimeout(w.s.ctx, w.s.opts.OpTimeout)
	defer cancel()
	w.statusV3(t, w.s.store.WriteLAC(ctx, bk.BodyLedger(q.GetBody()), q.GetMasterKey(), q.GetBody()))
}

// doReadLAC answers with the explicit LAC and the last entry, those there are.
// One quirk is Apache's: an explicit LAC without any entry comes as EIO, with
// the LAC.
func doReadLAC(w *worker, _ *conn, t *task) {
	l := t.v3.ReadLacRequest.GetLedgerId()
	lac, last, s := w.s.store.ReadLAC(bk.LedgerID(l))
	if s == bk.StatusNoLedger {
		s = bk.StatusNoEntry
	}
	if s == bk.StatusOK && last == nil {
		s = bk.StatusIO
	}
	m := responseTo(t.v3, s)
	m.ReadLacResponse = &bkpb.ReadLacResponse{Status: m.Status, LedgerId: &l}
	if s == bk.StatusOK || s == bk.StatusIO {
		m.ReadLacResponse.LacBody, m.ReadLacResponse.LastEntryBody = lac, last
	}
	w.answerV3(t, m)
}
