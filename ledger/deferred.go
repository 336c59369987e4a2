package ledger

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// genShift leaves room for the position in the tag of a call.
const genShift = 16

// sendDeferred sends an add of a deferred-sync ledger, which needs protocol
// version 3. The caller holds mu.
func (w *Writer) sendDeferred(e bk.EntryID, pos int) {
	ent := w.at(e)
	err := w.startDeferred(pos, &conn.Call{
		Op: conn.OpDeferredAdd, Ledger: w.id, Entry: e, Key: &w.key,
		Payload: ent.chunk.Bytes(int(ent.from)+wire.AddRequestOverhead, int(ent.to)),
	})
	if err != nil {
		w.failCopy(e, pos, err)
	}
}

// sendForce asks one bookie to force the ledger. The caller holds mu.
func (w *Writer) sendForce(a *quorum.Action) {
	c := &conn.Call{Op: conn.OpForce, Ledger: w.id, Entry: bk.EntryID(a.Force)}
	if err := w.startDeferred(a.Slot.Pos, c); err != nil {
		w.forceFailed(a.Force, a.Slot, &bk.BookieError{Bookie: a.Bookie, Err: err})
	}
}

func (w *Writer) startDeferred(pos int, c *conn.Call) error {
	s := &w.slots[pos]
	c.Tag = int(s.gen)<<genShift | pos
	c.Timeout = w.c.opts.AddTimeout
	c.Done = w.answered
	if err := s.bookie.Queue(c); err != nil {
		return err
	}
	s.bookie.Kick()
	return nil
}

// deferredAnswer takes the answer to an add or a force in protocol version 3.
func (w *Writer) deferredAnswer(c *conn.Call) {
	w.mu.Lock()
	s := quorum.Slot{Pos: c.Tag & (1<<genShift - 1), Gen: uint32(c.Tag >> genShift)}
	err := c.Failure()
	if err == nil {
		w.heardFrom(s, c.Bookie.EpochV3())
	}
	switch {
	case c.Op == conn.OpForce && err != nil:
		w.forceFailed(uint32(c.Entry), s, err)
	case c.Op == conn.OpForce:
		if id := uint32(c.Entry); w.core.ForceAck(id, s) {
			w.forceDone(id, nil)
		}
	case err != nil:
		w.core.Fail(c.Entry, s, err)
	default:
		w.core.Ack(c.Entry, s)
	}
	w.act()
	w.settle()
}

func (w *Writer) forceFailed(id uint32, s quorum.Slot, err error) {
	w.core.ForceFail(id, s, err)
	w.forceDone(id, err)
}

func (w *Writer) forceDone(id uint32, err error) {
	if err == nil && w.core.Pending() == 0 {
		w.idle() // the LAC moved
	}
	if ch := w.forces[id]; ch != nil {
		delete(w.forces, id)
		ch <- err
	}
}
