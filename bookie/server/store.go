package server

import (
	"context"
	"iter"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
)

// Store is what the server serves; *bookie.Bookie is the one of production.
// Its methods are documented there.
type Store interface {
	AddBatch(sink bookie.AddSink, adds []bookie.Add)
	EntryReader
	LACStore
	Guard
}

// EntryReader reads entries.
type EntryReader interface {
	Read(l bk.LedgerID, e bk.EntryID, dst []byte) ([]byte, bk.Status)
	Entries(l bk.LedgerID) (iter.Seq[bk.EntryID], bk.Status)
}

// LACStore knows how far ledgers are confirmed.
type LACStore interface {
	LAC(l bk.LedgerID) (bk.EntryID, bk.Status)
	WaitLAC(l bk.LedgerID, after bk.EntryID, fn func(lac bk.EntryID)) (cancel func() bool)
	WriteLAC(ctx context.Context, l bk.LedgerID, masterKey, lacBody []byte) bk.Status
	ReadLAC(l bk.LedgerID) (lacBody, lastEntry []byte, s bk.Status)
}

// Guard fences, forces and tells of the disks.
type Guard interface {
	Fence(ctx context.Context, l bk.LedgerID, masterKey []byte) bk.Status
	Force(ctx context.Context, l bk.LedgerID) bk.Status
	Info() (total, free int64, err error)
}

var _ Store = (*bookie.Bookie)(nil)
