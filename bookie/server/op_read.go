package server

import (
	"encoding/binary"
	"slices"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

func (c *conn) readV2(r *wire.Request) {
	t := task{do: doReadV2, op: wire.OpRead, version: r.Version, ledger: r.Ledger, entry: r.Entry}
	c.enqueueV2(&t, r)
}

// enqueueV2 sends a read to the read workers, a fencing one to those that wait
// for the journal.
func (c *conn) enqueueV2(t *task, r *wire.Request) {
	if r.Flags&wire.FlagFence == 0 {
		c.batch.reads = append(c.batch.reads, *t)
		return
	}
	t.fence = true
	t.key = slices.Clone(r.MasterKey)
	c.batch.syncs = append(c.batch.syncs, *t)
}

func doReadV2(w *worker, _ *conn, t *task) {
	s := bk.StatusOK
	if t.fence {
		s = w.fence(t.ledger, t.key)
	}
	if s == bk.StatusOK {
		s = w.appendReadV2(t)
	}
	if s != bk.StatusOK {
		*w.buf = t.appendStatusV2(*w.buf, s)
	}
	w.n++
}

// appendReadV2 appends a whole answer with the entry, or nothing if there is
// none.
func (w *worker) appendReadV2(t *task) bk.Status {
	start := len(*w.buf)
	buf := wire.AppendReadAnswer(*w.buf, t.version, bk.StatusOK, t.ledger, t.entry, 0)
	front := len(buf)
	buf, s := w.read(t.ledger, t.entry, buf)
	if s == bk.StatusOK && len(buf)-start > wire.MaxFrame {
		s = bk.StatusBadRequest
	}
	if s != bk.StatusOK {
		*w.buf = buf[:start]
		return s
	}
	binary.BigEndian.PutUint32(buf[start:], uint32(front-start-wire.LengthSize+len(buf)-front))
	*w.buf = buf
	return bk.StatusOK
}

// read appends the body of an entry to dst. Negative ids other than "last"
// name no entry that a reader can ask for.
func (w *worker) read(l bk.LedgerID, e bk.EntryID, dst []byte) ([]byte, bk.Status) {
	body, s := w.s.store.Read(l, e, dst)
	if s == bk.StatusBadRequest && e < bk.InvalidEntryID {
		s = bk.StatusNoEntry
	}
	if s != bk.StatusOK {
		return dst, s
	}
	return body, s
}

func (c *conn) readV3(r *bkpb.Request) {
	q := r.GetReadRequest()
	if len(q.GetMasterKey()) > keyMax {
		c.batch.answers = appendStatusV3(c.batch.answers, r, bk.StatusBadRequest)
		return
	}
	t := task{
		do: doReadV3, v3: r, op: wire.OpRead,
		ledger: bk.LedgerID(q.GetLedgerId()), entry: bk.EntryID(q.GetEntryId()), key: q.GetMasterKey(),
	}
	switch {
	case q != nil && q.Flag != nil && q.GetFlag() == bkpb.ReadRequest_FENCE_LEDGER:
		t.fence = true
		c.batch.syncs = append(c.batch.syncs, t)
		return
	case q != nil && q.PreviousLac != nil:
		t.do = doLongPoll
	}
	c.batch.reads = append(c.batch.reads, t)
}

func doReadV3(w *worker, _ *conn, t *task) {
	if t.fence {
		if s := w.fence(t.ledger, t.key); s != bk.StatusOK {
			w.statusV3(t, s)
			return
		}
	}
	w.answerReadV3(t)
}

// answerReadV3 reads the entry of t and answers with it. A plain read also
// tells how far the ledger is confirmed; a fencing one does not.
func (w *worker) answerReadV3(t *task) {
	body, s := w.read(t.ledger, t.entry, w.body[:0])
	if s != bk.StatusOK {
		w.statusV3(t, s)
		return
	}
	w.body = body
	q := &bkpb.ReadResponse{Body: body}
	if !t.fence {
		lac, s := w.s.store.LAC(t.ledger)
		if s != bk.StatusOK {
			w.statusV3(t, s)
			return
		}
		q.MaxLac = (*int64)(&lac)
	}
	w.answerRead(t, t.entry, q)
	w.shrink()
}

// answerRead answers a version 3 read that went well.
func (w *worker) answerRead(t *task, e bk.EntryID, q *bkpb.ReadResponse) {
	m := responseTo(t.v3, bk.StatusOK)
	q.Status, q.LedgerId, q.EntryId = m.Status, (*int64)(&t.ledger), (*int64)(&e)
	m.ReadResponse = q
	w.answerV3(t, m)
}
