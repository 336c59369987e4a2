package ledger_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/ledger"
)

// A read-only bookie takes the copies of a recovery where no other is left; a
// writer does not choose it.
func TestRule52RecoveryUsesAReadOnlyBookie(t *testing.T) {
	onRealBookies(t, 3, 1, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
		c := clientOf(t, b)
		q := bk.Quorum{Ensemble: 2, Write: 2, Ack: 2}
		w, err := c.Create(ctx, q)
		require.NoError(t, err)
		appendN(ctx, t, w, 3)
		m, err := c.Metadata(ctx, w.ID())
		require.NoError(t, err)
		spare, lost := -1, -1
		for i := range b.Len() {
			switch slices.Index(m.LastSegment().Ensemble, b.ID(i)) {
			case -1:
				spare = i
			case 1:
				lost = i
			}
		}
		b.Bookie(spare).SetReadOnly(true)
		synctest.Wait()
		all, err := b.Cluster.Bookies(ctx)
		require.NoError(t, err)
		require.Equal(t, []bk.BookieID{b.ID(spare)}, all.ReadOnly)
		_, err = c.Create(ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
		require.ErrorIs(t, err, bk.ErrNotEnoughBookies)

		// A bookie of the ensemble can be heard, but no copy gets to it.
		require.NoError(t, w.Abort())
		b.Net.OnFrame(func(f bookietest.Frame) bookietest.Verdict {
			return bookietest.Verdict{Break: f.ToBookie && f.Addr == string(b.ID(lost)) && bytes.Contains(f.Bytes, []byte("entry "))}
		})
		r, err := c.Open(ctx, w.ID(), ledger.Recover)
		require.NoError(t, err)
		m, err = c.Metadata(ctx, w.ID())
		require.NoError(t, err)
		require.Equal(t, []bk.BookieID{m.Segments[0].Ensemble[0], b.ID(spare)}, m.LastSegment().Ensemble)
		checkEntries(ctx, t, r, 2)
	})
}
