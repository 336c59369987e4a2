package bookie

import (
	"context"
	"encoding/binary"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/journal"
	"github.com/loglode/loglode/bookie/internal/ledgerstate"
)

// Fence refuses ordinary adds to a ledger from now on, for ever. It is durable
// once StatusOK is returned, and each add that was acknowledged before can be
// read. An unknown ledger is created, fenced. Other statuses:
// StatusUnauthorized (wrong key, or nil: none), StatusIO (also when ctx ended: the
// ledger may be fenced all the same), StatusBadRequest (negative id).
func (b *Bookie) Fence(ctx context.Context, l bk.LedgerID, masterKey []byte) bk.Status {
	if !b.enter() {
		return bk.StatusIO
	}
	defer b.leave()
	if l < 0 {
		return bk.StatusBadRequest
	}
	if masterKey == nil {
		return bk.StatusUnauthorized
	}
	s, j := b.shardOf(l), b.journalOf(l)
	if j.Stalled() {
		return bk.StatusIO // it could not be made durable, and would only queue
	}
	st, err := s.table.Lock(l)
	if err != nil {
		b.logError("fence", l, err)
		return bk.StatusIO
	}
	if st.Exists && !sameKey(st.Key, masterKey) {
		st.Unlock()
		return bk.StatusUnauthorized
	}
	if st.Fenced && st.FenceSynced {
		st.Unlock()
		return bk.StatusOK
	}
	// A fence that is set but not durable yet gets a record of its own: its
	// first one may fail.
	var recs []journal.Record
	if !st.Exists {
		recs = append(recs, b.create(s, st, masterKey, &pending{}))
	}
	st.Fenced = true
	s.table.MarkDirty(st)
	recs = append(recs, journal.Record{Type: journal.TypeFence, Body: binary.BigEndian.AppendUint64(nil, uint64(l))})
	c := newCall(func() { b.fenceSynced(s, l) })
	err = j.Append(c, recs)
	st.Unlock()
	if err != nil {
		return bk.StatusIO
	}
	return b.wait(ctx, c)
}

// fenceSynced notes that the fence needs no record any more. It runs on the
// journal's goroutine.
func (b *Bookie) fenceSynced(s *shard, l bk.LedgerID) {
	s.table.Update(l, func(st *ledgerstate.State) { st.FenceSynced = true })
	b.log.Info("ledger fenced", zap.Int64("ledger", int64(l)))
	if b.o.Events.Fenced != nil {
		b.o.Events.Fenced(l)
	}
}

func (b *Bookie) wait(ctx context.Context, c *call) bk.Status {
	select {
	case err := <-c.done:
		return statusOf(err)
	case <-ctx.Done():
		return bk.StatusIO
	}
}

// Force returns StatusOK once each journal write handed over before is
// durable.
func (b *Bookie) Force(ctx context.Context, _ bk.LedgerID) bk.Status {
	if !b.enter() {
		return bk.StatusIO
	}
	defer b.leave()
	calls := make([]*call, len(b.journals))
	for i, j := range b.journals {
		calls[i] = newCall(nil)
		if err := j.Append(calls[i], nil); err != nil {
			return bk.StatusIO
		}
	}
	for _, c := range calls {
		if s := b.wait(ctx, c); s != bk.StatusOK {
			return s
		}
	}
	return bk.StatusOK
}
