package conn

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// idsV3 is what every message that answers a request about a ledger tells.
type idsV3 interface{ GetLedgerId() int64 }

// entryV3 is what those about one entry tell besides.
type entryV3 interface{ GetEntryId() int64 }

// checkV3 compares the ids in an answer with those asked for. One about another
// ledger or entry proves nothing, neither "missing" nor "on disk". Answers that
// refuse may come without a message, those that bring something may not.
func checkV3(c *Call, m *bkpb.Response) error {
	msg := messageOf(c.Op, m)
	if msg == nil {
		if c.Status == bk.StatusOK {
			return lie(c, "message", "one", "none")
		}
		return nil
	}
	if got := bk.LedgerID(msg.GetLedgerId()); got != c.Ledger {
		return lie(c, "ledger id", c.Ledger.String(), got.String())
	}
	e, ok := msg.(entryV3)
	if !ok {
		return nil
	}
	got, want := bk.EntryID(e.GetEntryId()), c.Entry
	if c.Op == OpLongPoll {
		// Either no entry, or the one behind the LAC that was asked about.
		if got == bk.InvalidEntryID {
			return nil
		}
		want = c.Entry + 1
	}
	if got != want {
		return lie(c, "entry id", want.String(), got.String())
	}
	return nil
}

// checkV2 does so for an answer that was matched by a request id.
func checkV2(c *Call, r *wire.Response) error {
	switch {
	case r.Ledger != c.Ledger:
		return lie(c, "ledger id", c.Ledger.String(), r.Ledger.String())
	case r.Entry != c.Entry:
		return lie(c, "entry id", c.Entry.String(), r.Entry.String())
	}
	return nil
}

// messageOf gives the message that answers op, nil if there is none.
func messageOf(op Op, m *bkpb.Response) idsV3 {
	switch op {
	case OpFenceRead, OpLongPoll:
		if r := m.GetReadResponse(); r != nil {
			return r
		}
	case OpRecoveryAdd, OpDeferredAdd:
		if r := m.GetAddResponse(); r != nil {
			return r
		}
	case OpReadLAC:
		if r := m.GetReadLacResponse(); r != nil {
			return r
		}
	case OpWriteLAC:
		if r := m.GetWriteLacResponse(); r != nil {
			return r
		}
	case OpForce:
		if r := m.GetForceLedgerResponse(); r != nil {
			return r
		}
	}
	return nil
}

func lie(c *Call, field, want, got string) error {
	return &bk.CorruptError{Where: fmt.Sprintf("answer to %s of ledger %d entry %d, %s", c.Op, c.Ledger, c.Entry, field),
		Offset: -1, Want: want, Got: got}
}
