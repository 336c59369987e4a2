package bookie

import (
	"bytes"
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/journal"
)

type replayCount struct{ records, bytes int64 }

// replay brings back what a journal holds beyond the marks of the ledger
// directories. Each directory takes only what is above its own mark.
func (b *Bookie) replay(ctx context.Context, j *journalRef, count *replayCount) error {
	from, synced := journal.LSN(0), journal.LSN(0)
	for i, s := range b.shards {
		m := s.marks[j.id]
		if i == 0 || journal.LSN(m.From) < from {
			from = journal.LSN(m.From)
		}
		synced = max(synced, journal.LSN(m.Synced))
	}
	return j.Replay(from, synced, func(lsn journal.LSN, t journal.Type, body []byte) error {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("replay journal: %w", err)
		}
		l, ok := journal.BodyLedger(body)
		if !ok {
			return replayCorrupt(lsn, t, "a ledger id", fmt.Sprintf("%d bytes", len(body)))
		}
		s := b.shardOf(l)
		if lsn < journal.LSN(s.marks[j.id].From) {
			return nil
		}
		count.records++
		count.bytes += int64(len(body))
		return b.replayRecord(s, l, lsn, t, body)
	})
}

func replayCorrupt(lsn journal.LSN, t journal.Type, want, got string) error {
	return &bk.CorruptError{Where: fmt.Sprintf("journal record of type %d at LSN %d", t, lsn), Offset: -1, Want: want, Got: got}
}

func (b *Bookie) replayRecord(s *shard, l bk.LedgerID, lsn journal.LSN, t journal.Type, body []byte) error {
	if t == journal.TypeAdd {
		return b.replayAdd(s, l, lsn, body)
	}
	st, err := s.table.Lock(l)
	if err != nil {
		return err
	}
	defer st.Unlock()
	s.table.MarkDirty(st)
	if t == journal.TypeKey {
		st.Exists, st.Key = true, bytes.Clone(body[8:])
		return nil
	}
	if !st.Exists {
		return replayCorrupt(lsn, t, fmt.Sprintf("the key of ledger %d before it", l), "none")
	}
	switch t {
	case journal.TypeFence:
		st.Fenced, st.FenceSynced = true, true // Start syncs what was replayed
	case journal.TypeLAC:
		if len(body) < lacBodyMin {
			return replayCorrupt(lsn, t, "a LAC body", fmt.Sprintf("%d bytes", len(body)))
		}
		st.LACBody = bytes.Clone(body)
		st.MoveLAC(bk.BodyEntry(body))
	default:
		return replayCorrupt(lsn, t, "a known type", "another; was the journal written by a newer version?")
	}
	return nil
}

func (b *Bookie) replayAdd(s *shard, l bk.LedgerID, lsn journal.LSN, body []byte) error {
	if len(body) < bk.MinBodySize {
		return replayCorrupt(lsn, journal.TypeAdd, "an entry body", fmt.Sprintf("%d bytes", len(body)))
	}
	for !s.cache.Put([][]byte{body}) {
		// The mark stays: what comes after this record is not in the cache yet.
		err := errFlushFailed
		if !s.flushPending() {
			err = s.flushNow()
		}
		if err == errFlushFailed || vfs.IsNoSpaceError(err) {
			// It was in memory before, and can wait there again for room. The
			// bookie is read-only until a flush succeeds.
			b.state.block(cause{flushFailed, s.id}, err)
			s.cache.PutAnyway(body)
			break
		}
		if err != nil {
			return err
		}
	}
	st, err := s.table.Lock(l)
	if err != nil {
		return err
	}
	defer st.Unlock()
	if !st.Exists {
		return replayCorrupt(lsn, journal.TypeAdd, fmt.Sprintf("the key of ledger %d before it", l), "none")
	}
	s.table.MarkDirty(st)
	st.Added(bk.BodyEntry(body), bk.BodyLAC(body))
	return nil
}
