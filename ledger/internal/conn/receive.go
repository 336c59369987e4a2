package conn

import (
	"bytes"
	"fmt"
	"net"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// receiver decodes what one connection brings. It belongs to the reader
// goroutine.
type receiver struct {
	link   *link
	ledger bk.LedgerID // of acks
	acks   []Ack       // run of add answers of one ledger
	live   []Ack       // those of them that someone waits for
	done   []*Call     // answered in this batch
	resp   wire.Response
	up     time.Duration // when the connection was made
	now    time.Duration // when the batch came
}

// readLoop reads until the connection fails.
func (l *link) readLoop(conn net.Conn) error {
	fr := wire.NewFrameReader(conn)
	rc := receiver{link: l, up: l.pool.now()}
	for {
		if err := fr.Fill(); err != nil {
			return readErr(err)
		}
		rc.now = l.pool.now()
		l.mu.Lock()
		l.heard = rc.now
		l.mu.Unlock()
		for {
			frame, err := fr.Next()
			if err == nil && frame != nil {
				err = rc.frame(frame)
			}
			if err != nil {
				rc.deliver()
				return err
			}
			if frame == nil {
				break
			}
		}
		rc.deliver()
	}
}

func (rc *receiver) frame(frame []byte) error {
	if rc.link.proto == v3 {
		return rc.frameV3(frame)
	}
	r := &rc.resp
	if err := wire.DecodeResponse(r, frame); err != nil {
		return err
	}
	if r.Version != wire.V2Version {
		return fmt.Errorf("%s answer of version %d: %w", r.Op, r.Version, wire.ErrMalformed)
	}
	switch r.Op {
	case wire.OpAdd:
		if rc.recoveryAdd(r) {
			break
		}
		if r.Ledger != rc.ledger && len(rc.acks) > 0 {
			rc.deliverAcks()
		}
		rc.ledger = r.Ledger
		rc.acks = append(rc.acks, Ack{r.Entry, r.Status})
	case wire.OpRead:
		rc.link.mu.Lock()
		c := rc.link.calls.takeKey(callKey{ledger: r.Ledger, entry: r.Entry})
		rc.link.mu.Unlock()
		rc.answered(c, r)
	case wire.OpBatchRead:
		rc.link.mu.Lock()
		c := rc.link.calls.takeID(uint64(r.RequestID))
		rc.link.mu.Unlock()
		rc.answered(c, r)
	}
	return nil
}

// recoveryAdd takes the answer to an OpRecoveryAddV2; false if it is that to an
// ordinary add.
func (rc *receiver) recoveryAdd(r *wire.Response) bool {
	if rc.link.calls.adds.Load() == 0 {
		return false
	}
	rc.link.mu.Lock()
	c := rc.link.calls.takeKey(callKey{true, r.Ledger, r.Entry})
	rc.link.mu.Unlock()
	if c == nil {
		return false
	}
	c.Status, c.Answer = r.Status, r.Entry
	rc.done = append(rc.done, c)
	return true
}

// answered fills in a call's answer; nobody waits for an answer if c is nil.
func (rc *receiver) answered(c *Call, r *wire.Response) {
	if c == nil {
		return
	}
	c.Status, c.Answer = r.Status, r.Entry
	sent := max(c.deadline-c.Timeout, rc.up) // dialling says nothing about answers
	c.Bookie.answered(c.Op == OpBatchRead, sent, rc.now, r.Status == bk.StatusOK)
	c.wrong = checkV2(c, r)
	switch {
	case r.Status != bk.StatusOK:
	case c.Op == OpBatchRead:
		c.pooled, _ = rc.link.pool.bodies.Get().(*[]byte)
		if c.pooled == nil {
			c.pooled = new([]byte)
		}
		c.Body = append((*c.pooled)[:0], r.Body...)
		c.Bookie.batchOK.Store(true)
	default:
		c.Body = bytes.Clone(r.Body)
	}
	rc.done = append(rc.done, c)
}

func (rc *receiver) frameV3(frame []byte) error {
	m, err := wire.DecodeResponseV3(frame)
	if err != nil {
		return err
	}
	id, op := m.GetHeader().GetTxnId(), wire.Op(m.GetHeader().GetOperation())
	rc.link.mu.Lock()
	c := rc.link.calls.byID[id]
	if c != nil && c.Op.wire() == op {
		rc.link.calls.takeID(id)
	}
	rc.link.mu.Unlock()
	if c == nil {
		return nil
	}
	if want := c.Op.wire(); op != want {
		return fmt.Errorf("answer to %s carries operation %s: %w", want, op, wire.ErrMalformed)
	}
	c.Status = statusV3(m)
	c.wrong = checkV3(c, m)
	if rr := m.GetReadResponse(); rr != nil {
		c.Answer, c.Body = bk.EntryID(rr.GetEntryId()), rr.GetBody()
		if rr.MaxLac != nil {
			c.MaxLAC = bk.EntryID(rr.GetMaxLac())
		}
	}
	if lr := m.GetReadLacResponse(); lr != nil {
		c.Body, c.LACBody = lr.GetLastEntryBody(), lr.GetLacBody()
	}
	rc.done = append(rc.done, c)
	return nil
}

// statusV3 is the status of an answer: that of its envelope, or, if that is
// good, that of the message in it.
func statusV3(m *bkpb.Response) bk.Status {
	code := m.GetStatus()
	if code == bkpb.StatusCode_EOK {
		switch {
		case m.GetReadResponse() != nil:
			code = m.GetReadResponse().GetStatus()
		case m.GetAddResponse() != nil:
			code = m.GetAddResponse().GetStatus()
		case m.GetReadLacResponse() != nil:
			code = m.GetReadLacResponse().GetStatus()
		case m.GetWriteLacResponse() != nil:
			code = m.GetWriteLacResponse().GetStatus()
		case m.GetForceLedgerResponse() != nil:
			code = m.GetForceLedgerResponse().GetStatus()
		}
	}
	s, _ := bk.StatusFromV3(int32(code))
	return s
}

// deliver hands over all answers of the batch.
func (rc *receiver) deliver() {
	if len(rc.acks) > 0 {
		rc.deliverAcks()
	}
	for i, c := range rc.done {
		c.finish(c.wrong)
		rc.done[i] = nil
	}
	rc.done = rc.done[:0]
}

// deliverAcks hands over the run of add answers of one ledger.
func (rc *receiver) deliverAcks() {
	l := rc.link
	l.mu.Lock()
	a := l.adds[rc.ledger]
	rc.live = rc.live[:0]
	if a != nil && !a.dead {
		for _, k := range rc.acks {
			if a.ring.answered(k.Entry) {
				rc.live = append(rc.live, k)
			}
		}
	}
	l.mu.Unlock()
	rc.acks = rc.acks[:0]
	if len(rc.live) > 0 {
		a.sink.AddsDone(a, rc.live)
	}
}
