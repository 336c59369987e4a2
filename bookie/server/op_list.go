package server

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// doListEntries answers with the ids of a ledger that this bookie holds.
func doListEntries(w *worker, _ *conn, t *task) {
	l := t.v3.GetListOfEntriesOfLedgerRequest.GetLedgerId()
	ids, s := w.s.store.Entries(bk.LedgerID(l))
	if s != bk.StatusOK {
		w.statusV3(t, s)
		return
	}
	m := responseTo(t.v3, bk.StatusOK)
	m.GetListOfEntriesOfLedgerResponse = &bkpb.GetListOfEntriesOfLedgerResponse{
		Status: m.Status, LedgerId: &l,
		AvailabilityOfEntriesOfLedger: wire.AppendAvailability(nil, ids),
	}
	w.answerV3(t, m)
}
