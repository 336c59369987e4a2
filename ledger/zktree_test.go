package ledger_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/memstore"
)

// The life of ledgers in each of ZooKeeper's trees: written, tailed through an
// ensemble change, recovered from a writer that went silent, listed, deleted.
func TestLedgersInZooKeeperTrees(t *testing.T) {
	for _, kind := range []layout.Kind{layout.Hierarchical, layout.LongHierarchical, layout.LegacyHierarchical, layout.Flat} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				store := memstore.NewStrictTree().Open()
				b := bookietest.Start(t, 4, bookietest.Options{Bookie: bookietest.Small(), Seed: 1, Store: store, Kind: kind})
				c := clientOf(t, b)
				w, err := c.Create(ctx, threeTwo)
				require.NoError(t, err)
				appendN(ctx, t, w, 20)
				m, err := c.Metadata(ctx, w.ID())
				require.NoError(t, err)
				for i := range b.Len() {
					if b.ID(i) == m.Segments[0].Ensemble[0] {
						b.Crash(i)
						break
					}
				}
				appendN(ctx, t, w, 20)
				r, err := clientOf(t, b).Open(ctx, w.ID(), ledger.Recover)
				require.NoError(t, err)
				checkEntries(ctx, t, r, 39)
				require.NoError(t, r.Close())
				m, err = c.Metadata(ctx, w.ID())
				require.NoError(t, err)
				require.Equal(t, layout.StateClosed, m.State)
				require.Greater(t, len(m.Segments), 1)
				_, err = w.Append(ctx, []byte("late"))
				require.ErrorIs(t, err, bk.ErrFenced)

				second, err := c.Create(ctx, threeTwo)
				require.NoError(t, err)
				require.NoError(t, second.Close(ctx))
				require.Greater(t, second.ID(), w.ID())
				require.NoError(t, c.Delete(ctx, w.ID()))
				_, err = c.Metadata(ctx, w.ID())
				require.ErrorIs(t, err, bk.ErrNoSuchLedger)
				var left []bk.LedgerID
				for id, err := range c.List(ctx) {
					require.NoError(t, err)
					left = append(left, id)
				}
				require.Equal(t, []bk.LedgerID{second.ID()}, left)
			})
		})
	}
}
