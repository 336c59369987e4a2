package server

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// listMax is the size in bytes up to which a list is written run by run, as
// Apache's bookies do; a longer one may not fit its frame.
const listMax = 1 << 20

// doListEntries answers with the ids of a ledger that this bookie holds.
func doListEntries(w *worker, _ *conn, t *task) {
	l := t.v3.GetListOfEntriesOfLedgerRequest.GetLedgerId()
	ids, s := w.s.store.Entries(bk.LedgerID(l))
	if s != bk.StatusOK {
		w.statusV3(t, s)
		return
	}
	list := wire.AppendAvailability(nil, ids)
	if len(list) > listMax {
		list = wire.AppendAvailabilityShort(nil, ids)
	}
	m := responseTo(t.v3, bk.StatusOK)
	m.GetListOfEntriesOfLedgerResponse = &bkpb.GetListOfEntriesOfLedgerResponse{
		Status: m.Status, LedgerId: &l, AvailabilityOfEntriesOfLedger: list,
	}
	w.answerV3(t, m)
}
