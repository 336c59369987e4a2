package server

import (
	"encoding/binary"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
)

func (c *conn) batchReadV2(r *wire.Request) {
	t := task{
		do: doBatchRead, op: wire.OpBatchRead, version: r.Version, ledger: r.Ledger, entry: r.Entry,
		requestID: r.RequestID, maxCount: r.MaxCount, maxSize: r.MaxSize,
	}
	c.enqueueV2(&t, r)
}

// doBatchRead answers with the entries from the first on that this bookie has
// without a gap, as many as fit. The first comes whatever the limits say.
func doBatchRead(w *worker, _ *conn, t *task) {
	s := bk.StatusOK
	if t.fence {
		s = w.fence(t.ledger, t.key)
	}
	if s == bk.StatusOK {
		s = w.appendBatch(t)
	}
	if s != bk.StatusOK {
		*w.buf = t.appendStatusV2(*w.buf, s)
	}
	w.n++
}

// appendBatch appends a whole answer, or nothing if the first entry cannot be
// sent.
func (w *worker) appendBatch(t *task) bk.Status {
	start := len(*w.buf)
	buf := wire.AppendBatchReadAnswer(*w.buf, t.version, bk.StatusOK, t.ledger, t.entry, t.requestID, 0)
	limit := min(max(t.maxSize, 0), wire.MaxFrame)
	for i := int32(0); t.maxCount <= 0 || i < t.maxCount; i++ {
		at := len(buf)
		next, s := w.read(t.ledger, t.entry+bk.EntryID(i), wire.AppendBatchEntry(buf, 0))
		size := int64(len(next) - start)
		if i == 0 && s == bk.StatusOK && size > wire.MaxFrame {
			s = bk.StatusBadRequest
		}
		if i == 0 && s != bk.StatusOK {
			*w.buf = buf[:start]
			return s
		}
		if s != bk.StatusOK || i > 0 && size > limit {
			break
		}
		buf = next
		binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at-wire.BatchEntryOverhead))
	}
	binary.BigEndian.PutUint32(buf[start:], uint32(len(buf)-start-wire.LengthSize))
	*w.buf = buf
	return bk.StatusOK
}
