package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata/layout"
)

func TestWriteCloseRead(t *testing.T) {
	for _, digest := range []bk.DigestType{bk.DigestCRC32C, bk.DigestCRC32, bk.DigestHMAC, bk.DigestDummy} {
		for _, q := range []bk.Quorum{
			{Ensemble: 1, Write: 1, Ack: 1}, {Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 5, Write: 3, Ack: 2},
		} {
			t.Run(digest.String(), func(t *testing.T) {
				inWorld(t, 5, ledger.Options{}, func(w *world) {
					wr := w.create(q.Ensemble, q.Write, q.Ack, ledger.WithDigest(digest), ledger.WithPassword([]byte("secret")),
						ledger.WithCustomMetadata(map[string][]byte{"k": []byte("v")}))
					w.append(wr, 300)
					require.Equal(t, bk.EntryID(299), wr.LAC())
					length := wr.Length()
					require.NoError(t, wr.Close(w.ctx))

					r := w.open(w.c, wr.ID(), ledger.NoRecovery)
					require.True(t, r.Closed())
					require.Equal(t, bk.EntryID(299), r.LAC())
					require.Equal(t, length, r.Length())
					w.readAll(r, 299)
					ent, err := r.Read(w.ctx, 17)
					require.NoError(t, err)
					require.Equal(t, payload(17), ent.Payload)
					require.NoError(t, r.Close())

					m, err := w.c.Metadata(w.ctx, wr.ID())
					require.NoError(t, err)
					require.Equal(t, layout.StateClosed, m.State)
					require.Equal(t, []byte("v"), m.Custom["k"])
				})
			})
		}
	}
}
