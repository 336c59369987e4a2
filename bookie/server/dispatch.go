package server

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// decodeV2 sorts one version 2 request into the batch. The frame is good until
// the batch has been handed over, and no longer.
func (c *conn) decodeV2(frame []byte) error {
	var r wire.Request
	if err := wire.DecodeRequest(&r, frame); err != nil {
		return err
	}
	b := &c.batch
	b.ops[r.Op]++
	if c.auth != nil {
		return c.strangerV2(&r)
	}
	if r.Op == wire.OpAuth {
		return c.authV2(&r)
	}
	if r.BadVersion() {
		t := task{op: r.Op, version: r.Version, ledger: r.Ledger, entry: r.Entry, requestID: r.RequestID}
		b.answers = t.appendStatusV2(b.answers, bk.StatusBadVersion)
		return nil
	}
	switch r.Op {
	case wire.OpAdd:
		c.addV2(&r)
	case wire.OpRead:
		c.readV2(&r)
	default:
		c.batchReadV2(&r)
	}
	return nil
}

// appendStatusV2 appends an answer that carries nothing but a status.
func (t *task) appendStatusV2(dst []byte, s bk.Status) []byte {
	switch t.op {
	case wire.OpAdd:
		return wire.AppendAddAnswer(dst, t.version, s, t.ledger, t.entry)
	case wire.OpRead:
		return wire.AppendReadAnswer(dst, t.version, s, t.ledger, t.entry, 0)
	default:
		return wire.AppendBatchReadAnswer(dst, t.version, s, t.ledger, t.entry, t.requestID, 0)
	}
}

// decodeV3 sorts one version 3 request into the batch.
func (c *conn) decodeV3(frame []byte) error {
	r, err := wire.DecodeRequestV3(frame)
	if err != nil {
		return err
	}
	r.RequestContext = nil // nobody looks at it, and the request may wait
	b := &c.batch
	op := wire.Op(r.Header.GetOperation())
	b.ops[op]++
	if c.auth != nil && op != wire.OpStartTLS {
		return c.strangerV3(r)
	}
	if !op.InV3() {
		// Known, but nobody implements it: the header goes back as it came.
		return c.answerNow(&bkpb.Response{Header: r.Header, Status: bkpb.StatusCode_EBADREQ.Enum()})
	}
	if r.Header.GetVersion() != bkpb.ProtocolVersion_VERSION_THREE {
		b.answers = appendStatusV3(b.answers, r, bk.StatusBadVersion)
		return nil
	}
	switch op {
	case wire.OpAdd:
		c.addV3(r)
	case wire.OpRead:
		c.readV3(r)
	case wire.OpAuth:
		return c.authV3(r)
	case wire.OpWriteLAC:
		c.writeLAC(r)
	case wire.OpReadLAC:
		b.reads = append(b.reads, task{do: doReadLAC, v3: r})
	case wire.OpGetBookieInfo:
		b.reads = append(b.reads, task{do: doInfo, v3: r})
	case wire.OpStartTLS:
		return c.startTLS(r)
	case wire.OpForce:
		b.syncs = append(b.syncs, task{do: doForce, v3: r})
	case wire.OpListEntries:
		b.reads = append(b.reads, task{do: doListEntries, v3: r})
	default:
		return fmt.Errorf("operation %s has no handler: %w", op, wire.ErrMalformed)
	}
	return nil
}

// answerNow queues an answer that needs no work.
func (c *conn) answerNow(m *bkpb.Response) error {
	answers, err := wire.AppendV3(c.batch.answers, m)
	if err != nil {
		return err
	}
	c.batch.answers = answers
	return nil
}

// responseTo gives an answer to r without sub-message: version 3, operation
// and transaction id, no priority.
func responseTo(r *bkpb.Request, s bk.Status) *bkpb.Response {
	return &bkpb.Response{
		Header: wire.V3Header(wire.Op(r.Header.GetOperation()), r.Header.GetTxnId(), 0),
		Status: v3Status(s),
	}
}

func v3Status(s bk.Status) *bkpb.StatusCode { return bkpb.StatusCode(s.V3()).Enum() }

// appendStatusV3 appends the answer to r that carries nothing but a status
// and the ids of the request. A sub-message that is not there counts as zeros.
func appendStatusV3(dst []byte, r *bkpb.Request, s bk.Status) []byte {
	m := responseTo(r, s)
	status := m.Status
	switch wire.Op(r.Header.GetOperation()) {
	case wire.OpRead:
		l, e := r.ReadRequest.GetLedgerId(), r.ReadRequest.GetEntryId()
		m.ReadResponse = &bkpb.ReadResponse{Status: status, LedgerId: &l, EntryId: &e}
	case wire.OpAdd:
		l, e := r.AddRequest.GetLedgerId(), r.AddRequest.GetEntryId()
		m.AddResponse = &bkpb.AddResponse{Status: status, LedgerId: &l, EntryId: &e}
	case wire.OpWriteLAC:
		l := r.WriteLacRequest.GetLedgerId()
		m.WriteLacResponse = &bkpb.WriteLacResponse{Status: status, LedgerId: &l}
	case wire.OpReadLAC:
		l := r.ReadLacRequest.GetLedgerId()
		m.ReadLacResponse = &bkpb.ReadLacResponse{Status: status, LedgerId: &l}
	case wire.OpGetBookieInfo:
		m.GetBookieInfoResponse = &bkpb.GetBookieInfoResponse{Status: status}
	case wire.OpForce:
		l := r.ForceLedgerRequest.GetLedgerId()
		m.ForceLedgerResponse = &bkpb.ForceLedgerResponse{Status: status, LedgerId: &l}
	case wire.OpListEntries:
		l := r.GetListOfEntriesOfLedgerRequest.GetLedgerId()
		m.GetListOfEntriesOfLedgerResponse = &bkpb.GetListOfEntriesOfLedgerResponse{Status: status, LedgerId: &l}
	}
	return mustAppendV3(dst, m)
}

// mustAppendV3 appends an answer of bounded size with all its required fields:
// that this can be encoded is ours to keep.
func mustAppendV3(dst []byte, m *bkpb.Response) []byte {
	out, err := wire.AppendV3(dst, m)
	if err != nil {
		panic(fmt.Sprintf("server: answer to %s: %v", m.Header.GetOperation(), err))
	}
	return out
}

// answerV3 appends the answer of a task. An answer that is too large for a
// frame becomes a refusal: the bytes can still be had by version 2, or not at
// all.
func (w *worker) answerV3(t *task, m *bkpb.Response) {
	out, err := wire.AppendV3(*w.buf, m)
	if err != nil {
		out = appendStatusV3(*w.buf, t.v3, bk.StatusBadRequest)
	}
	*w.buf = out
	w.n++
}

// statusV3 appends an answer of nothing but a status and the ids asked for.
func (w *worker) statusV3(t *task, s bk.Status) {
	*w.buf = appendStatusV3(*w.buf, t.v3, s)
	w.n++
}
