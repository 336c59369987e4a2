package bookie

import (
	"bytes"
	"context"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/journal"
	"github.com/loglode/loglode/bookie/internal/ledgerstate"
)

// lacBodyMin is the least size in bytes of an explicit LAC body: ledger, LAC.
const lacBodyMin = 16

// lacBodyMax bounds what a client can make every copy of a ledger's state
// carry; real bodies have at most 36 bytes.
const lacBodyMax = 1 << 10

// LAC is the highest last-add-confirmed seen for a ledger, in entry headers
// and explicit LACs. StatusOK, StatusNoLedger or StatusIO.
func (b *Bookie) LAC(l bk.LedgerID) (bk.EntryID, bk.Status) {
	if !b.enter() {
		return bk.InvalidEntryID, bk.StatusIO
	}
	defer b.leave()
	st, err := b.shardOf(l).table.LockKnown(l)
	if err != nil {
		return bk.InvalidEntryID, b.readFailed(l, bk.InvalidEntryID, err)
	}
	if st == nil {
		return bk.InvalidEntryID, bk.StatusNoLedger
	}
	defer st.Unlock()
	return st.LAC, bk.StatusOK
}

// WaitLAC calls fn once the LAC of a ledger is above after, from the goroutine
// that moved it, with no lock held; at once, inside WaitLAC, if it already is.
// fn must not block. cancel takes the wait back; it reports whether fn will
// never be called. An unknown ledger is waited for too. When the bookie closes,
// fn is not called. A wait costs no goroutine.
func (b *Bookie) WaitLAC(l bk.LedgerID, after bk.EntryID, fn func(lac bk.EntryID)) (cancel func() bool) {
	never := func() bool { return true }
	if !b.enter() {
		return never
	}
	defer b.leave()
	t := b.shardOf(l).table
	st, err := t.Lock(l)
	if err != nil {
		b.logError("wait for LAC", l, err)
		return never
	}
	if lac := st.LAC; st.Exists && lac > after {
		st.Unlock()
		fn(lac)
		return func() bool { return false }
	}
	w := &ledgerstate.Waiter{After: after, Fn: fn}
	st.Wait(w)
	st.Unlock()
	return func() (cancelled bool) {
		// A state with waiters is never evicted, so this finds the same one.
		t.Update(l, func(st *ledgerstate.State) { cancelled = st.Cancel(w) })
		return cancelled
	}
}

// WriteLAC stores an explicit LAC body, durable once StatusOK is returned.
// Ledger and LAC are taken from the body. It creates an unknown ledger, and is
// taken on a fenced one. Other statuses: StatusUnauthorized, StatusReadOnly,
// StatusBadRequest, StatusIO (also when ctx ended).
func (b *Bookie) WriteLAC(ctx context.Context, l bk.LedgerID, masterKey, lacBody []byte) bk.Status {
	if !b.enter() {
		return bk.StatusIO
	}
	defer b.leave()
	if len(lacBody) < lacBodyMin || len(lacBody) > lacBodyMax {
		return bk.StatusBadRequest
	}
	if l = bk.BodyLedger(lacBody); l < 0 {
		return bk.StatusBadRequest
	}
	if b.state.get() != Writable {
		return bk.StatusReadOnly
	}
	lac := bk.BodyEntry(lacBody) // it lies where an entry body has its id
	s, j := b.shardOf(l), b.journalOf(l)
	st, err := s.table.Lock(l)
	if err != nil {
		b.logError("write LAC", l, err)
		return bk.StatusIO
	}
	if st.Exists && !sameKey(st.Key, masterKey) {
		st.Unlock()
		return bk.StatusUnauthorized
	}
	var recs []journal.Record
	if !st.Exists {
		recs = append(recs, b.create(s, st, masterKey, &pending{}))
	}
	st.LACBody = bytes.Clone(lacBody)
	st.MoveLAC(lac)
	s.table.MarkDirty(st)
	recs = append(recs, journal.Record{Type: journal.TypeLAC, Body: lacBody})
	c := newCall(nil)
	err = j.Append(c, recs)
	known, ready := st.LAC, st.Ready(nil)
	st.Unlock()
	for _, w := range ready {
		w.Fn(known)
	}
	if err != nil {
		return bk.StatusIO
	}
	return b.wait(ctx, c)
}

// ReadLAC gives the stored explicit LAC body and the entry with the highest
// id, each nil if there is none. StatusOK if there is either, StatusNoEntry if
// there is neither, StatusIO.
func (b *Bookie) ReadLAC(l bk.LedgerID) (lacBody, lastEntry []byte, s bk.Status) {
	if !b.enter() {
		return nil, nil, bk.StatusIO
	}
	defer b.leave()
	st, err := b.shardOf(l).table.LockKnown(l)
	if err != nil {
		return nil, nil, b.readFailed(l, bk.InvalidEntryID, err)
	}
	if st == nil {
		return nil, nil, bk.StatusNoEntry
	}
	lacBody = bytes.Clone(st.LACBody)
	st.Unlock()
	lastEntry, s = b.read(l, bk.InvalidEntryID, nil)
	switch {
	case s == bk.StatusIO:
		return nil, nil, s
	case s != bk.StatusOK:
		lastEntry = nil
	}
	if lacBody == nil && lastEntry == nil {
		return nil, nil, bk.StatusNoEntry
	}
	return lacBody, lastEntry, bk.StatusOK
}
