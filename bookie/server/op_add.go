package server

import (
	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// addV2 puts an add into the batch. Its body and key lie in the read buffer:
// AddBatch copies them before the next read.
func (c *conn) addV2(r *wire.Request) {
	b := &c.batch
	if len(r.Body) < bk.MinBodySize {
		b.answers = wire.AppendAddAnswer(b.answers, r.Version, bk.StatusBadRequest, r.Ledger, r.Entry)
		return
	}
	var flags bookie.AddFlags
	if r.Flags&wire.FlagRecoveryAdd != 0 {
		flags |= bookie.AddRecovery
	}
	if r.Flags&wire.FlagHighPriority != 0 {
		flags |= bookie.AddHighPriority
	}
	b.v2adds = append(b.v2adds, bookie.Add{
		Ledger: r.Ledger, Entry: r.Entry, MasterKey: r.MasterKey, Body: r.Body,
		Flags: flags, Tag: uint64(r.Version),
	})
}

// v2Sink answers version 2 adds. The tag of an add is its protocol version.
type v2Sink struct{ c *conn }

// AddsDone queues the answers of one journal group and wakes the writer once.
func (s *v2Sink) AddsDone(results []bookie.AddResult) {
	s.c.out.sendAdds(results)
	s.c.done(len(results))
}

// deferredSync is the bit of AddRequest.write_flags for an add that need not
// be durable before it is answered. On the wire: do not renumber.
const deferredSync = 1

func (c *conn) addV3(r *bkpb.Request) {
	b, a := &c.batch, r.AddRequest
	if len(a.GetBody()) < bk.MinBodySize || len(a.GetMasterKey()) > keyMax {
		b.answers = appendStatusV3(b.answers, r, bk.StatusBadRequest)
		return
	}
	var flags bookie.AddFlags
	if a.Flag != nil && a.GetFlag() == bkpb.AddRequest_RECOVERY_ADD { // absent reads as the first value
		flags |= bookie.AddRecovery
	}
	if r.Header.GetPriority() > 0 {
		flags |= bookie.AddHighPriority
	}
	if a.GetWriteFlags()&deferredSync != 0 {
		flags |= bookie.AddDeferredSync
	}
	b.v3adds = append(b.v3adds, bookie.Add{
		Ledger: bk.LedgerID(a.GetLedgerId()), Entry: bk.EntryID(a.GetEntryId()),
		MasterKey: a.GetMasterKey(), Body: a.GetBody(), Flags: flags, Tag: r.Header.GetTxnId(),
	})
}

// v3Sink answers version 3 adds. The tag of an add is its transaction id.
type v3Sink struct{ c *conn }

// AddsDone queues the answers of one journal group and wakes the writer once.
func (s *v3Sink) AddsDone(results []bookie.AddResult) {
	var buf []byte
	for _, r := range results {
		l, e := int64(r.Ledger), int64(r.Entry)
		status := v3Status(r.Status)
		buf = mustAppendV3(buf, &bkpb.Response{
			Header: wire.V3Header(wire.OpAdd, r.Tag, 0), Status: status,
			AddResponse: &bkpb.AddResponse{Status: status, LedgerId: &l, EntryId: &e},
		})
	}
	s.c.out.send(buf)
	s.c.done(len(results))
}
