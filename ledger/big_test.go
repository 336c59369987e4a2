package ledger_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
	"github.com/loglode/loglode/metadata/layout"
)

// bigLedger makes an open ledger whose last entry, 1, is as large as a frame of
// version 2 allows and too large for any of version 3. Bookies refuse what does
// not fit, or close the connection as those of Java do.
func (w *world) bigLedger(refusal fakebookie.Verdict) (id bk.LedgerID, payload []byte) {
	const add = wire.LengthSize + 4 + bk.MasterKeySize // in front of the body, at least as much as an answer has
	payload = bytes.Repeat([]byte{7}, wire.MaxFrame-add-bk.HeaderSize-bk.DigestCRC32C.Size())
	d, err := bk.NewDigester(bk.DigestCRC32C, nil)
	require.NoError(w, err)
	key := bk.MasterKey(nil)
	id = 32
	m := &layout.LedgerMetadata{
		Quorum: bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}, State: layout.StateOpen, LastEntry: bk.InvalidEntryID,
		HasPassword: true, Digest: bk.DigestCRC32C, Segments: []layout.Segment{{First: 0}},
	}
	for i, b := range w.Bookies[:3] {
		m.Segments[0].Ensemble = append(m.Segments[0].Ensemble, b.ID)
		b.Put(id, key[:], d.AppendEntry(nil, id, 0, -1, 1, []byte{1}))
		if i != 1 { // one copy is to be written back
			b.Put(id, key[:], d.AppendEntry(nil, id, 1, 0, 1+int64(len(payload)), payload))
		}
		b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			last := r.Entry == bk.InvalidEntryID || r.Entry == 1
			switch {
			case i == 1 || !r.V3 || r.Op == wire.OpRead && !last && !r.LongPoll || r.Op == wire.OpWriteLAC:
				return fakebookie.Pass()
			case r.Op == wire.OpAdd && r.Entry == 0:
				return fakebookie.Pass()
			case r.LongPoll && r.Entry != 0:
				return fakebookie.Pass()
			}
			return refusal
		})
	}
	_, err = w.Layout.CreateLedger(w.ctx, id, m)
	require.NoError(w, err)
	return id, payload
}

func TestEntryTooLargeForVersion3(t *testing.T) {
	for name, refusal := range map[string]fakebookie.Verdict{
		"refused": fakebookie.Refuse(bk.StatusBadRequest), "closed": fakebookie.Drop(),
	} {
		t.Run("recovered "+name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				id, payload := w.bigLedger(refusal)
				r := w.open(w.c, id, ledger.Recover)
				require.Equal(t, bk.EntryID(1), r.LAC())
				require.Equal(t, int64(1+len(payload)), r.Length())
				ent, err := r.Read(w.ctx, 1)
				require.NoError(t, err)
				require.True(t, bytes.Equal(payload, ent.Payload))
				synctest.Wait()
				for _, b := range w.Bookies {
					require.True(t, b.Fenced(id), b.ID)
					require.NotEmpty(t, b.Entry(id, 1), b.ID)
				}
			})
		})
		t.Run("tailed "+name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				id, payload := w.bigLedger(refusal)
				r := w.open(w.c, id, ledger.NoRecovery)
				require.Equal(t, bk.EntryID(0), r.LAC())
				ent, err := r.ReadUnconfirmed(w.ctx, 1)
				require.NoError(t, err)
				require.True(t, bytes.Equal(payload, ent.Payload))
				d, err := bk.NewDigester(bk.DigestCRC32C, nil)
				require.NoError(t, err)
				key := bk.MasterKey(nil)
				time.AfterFunc(time.Second, func() { // the entry behind it confirms it
					for _, b := range w.Bookies {
						b.Put(id, key[:], d.AppendEntry(nil, id, 2, 1, 2+int64(len(payload)), []byte{2}))
					}
				})
				ent, err = r.ReadNext(w.ctx, 0)
				require.NoError(t, err)
				require.Equal(t, bk.EntryID(1), ent.ID)
				require.True(t, bytes.Equal(payload, ent.Payload))
			})
		})
	}
}
