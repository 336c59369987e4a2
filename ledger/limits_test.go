package ledger_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/storetest"
)

// segments counts the segments of a ledger.
func (w *world) segments(id bk.LedgerID) int {
	m, err := w.c.Metadata(w.ctx, id)
	require.NoError(w, err)
	return len(m.Segments)
}

func refuseAdds(s bk.Status) func(fakebookie.Request) fakebookie.Verdict {
	return func(r fakebookie.Request) fakebookie.Verdict {
		if r.Op == wire.OpAdd {
			return fakebookie.Refuse(s)
		}
		return fakebookie.Pass()
	}
}

func TestRule20DelayedEnsembleChange(t *testing.T) {
	delayed := ledger.Options{DelayEnsembleChange: true, LACDelay: -1}
	t.Run("waits for more than Qw - Qa failures", func(t *testing.T) {
		inWorld(t, 5, delayed, func(w *world) {
			wr := w.create(3, 3, 2)
			w.append(wr, 2)
			ens := w.ensemble(wr.ID())
			ens[0].SetHook(refuseAdds(bk.StatusIO))
			w.append(wr, 20)
			synctest.Wait()
			require.Equal(t, 1, w.segments(wr.ID()), "one lost copy of three is bearable")
			require.Len(t, ens[0].Seen(), 22, "the bookie goes on getting every entry")

			ens[1].SetHook(refuseAdds(bk.StatusIO))
			w.append(wr, 1)
			require.Equal(t, 2, w.segments(wr.ID()), "two are not: both are replaced at once")
			now := w.ensemble(wr.ID())
			require.NotContains(t, now, ens[0])
			require.NotContains(t, now, ens[1])
			require.Equal(t, ens[2], now[2])
			require.NoError(t, wr.Close(w.ctx))
			w.readAll(w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery), 22)
		})
	})
	t.Run("a read-only bookie is replaced at once", func(t *testing.T) {
		inWorld(t, 4, delayed, func(w *world) {
			wr := w.create(3, 3, 2)
			w.append(wr, 2)
			ens := w.ensemble(wr.ID())
			ens[0].SetHook(refuseAdds(bk.StatusReadOnly))
			w.append(wr, 5)
			synctest.Wait()
			w.append(wr, 1) // rule 8, if the failure came late
			require.Equal(t, 2, w.segments(wr.ID()))
			require.NotContains(t, w.ensemble(wr.ID()), ens[0])
		})
	})
	t.Run("off by default", func(t *testing.T) {
		inWorld(t, 4, ledger.Options{LACDelay: -1}, func(w *world) {
			wr := w.create(3, 3, 2)
			w.append(wr, 2)
			w.ensemble(wr.ID())[0].SetHook(refuseAdds(bk.StatusIO))
			w.append(wr, 5)
			synctest.Wait()
			w.append(wr, 1) // rule 8, if the failure came late
			require.Equal(t, 2, w.segments(wr.ID()))
		})
	})
}

func TestEnsembleChangesMax(t *testing.T) {
	inWorld(t, 8, ledger.Options{EnsembleChangesMax: 2}, func(w *world) {
		wr := w.create(3, 3, 3)
		for range 2 {
			w.append(wr, 2)
			w.SetDown(w.ensemble(wr.ID())[1].ID, true)
		}
		w.append(wr, 2) // the second change
		w.SetDown(w.ensemble(wr.ID())[1].ID, true)
		_, err := wr.Append(w.ctx, payload(6))
		require.ErrorIs(t, err, bk.ErrTooManyChanges)
		_, err = wr.Append(w.ctx, payload(6))
		require.ErrorIs(t, err, bk.ErrTooManyChanges, "for good")
		synctest.Wait()
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Len(t, m.Segments, 3)
		require.Equal(t, layout.StateClosed, m.State)
		require.Equal(t, bk.EntryID(5), m.LastEntry)
		w.readAll(w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery), 5)
	})
}

// An add that does not get its ack quorum in time ends the writer: all that is
// pending fails, and the ledger is closed at the LAC.
func TestAddQuorumTimeout(t *testing.T) {
	inWorld(t, 8, ledger.Options{AddQuorumTimeout: 3 * time.Second, AddTimeout: 2 * time.Second}, func(w *world) {
		wr := w.create(3, 3, 2)
		for range 10 {
			w.append(wr, 1)
			<-time.After(time.Second) // time with nothing pending does not count
		}
		for _, b := range w.Bookies {
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				if r.Op == wire.OpAdd {
					return fakebookie.Silent()
				}
				return fakebookie.Pass()
			})
		}
		start := time.Now()
		var errs []error
		wr.Go(w.ctx, payload(10), func(_ bk.EntryID, err error) { errs = append(errs, err) })
		<-time.After(2 * time.Second)
		wr.Go(w.ctx, payload(11), func(_ bk.EntryID, err error) { errs = append(errs, err) })
		_, err := wr.Append(w.ctx, payload(12))
		require.ErrorIs(t, err, bk.ErrTimeout)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Len(t, errs, 2)
		require.ErrorIs(t, errs[0], bk.ErrTimeout)
		require.ErrorIs(t, errs[1], bk.ErrTimeout)
		synctest.Wait()
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Equal(t, layout.StateClosed, m.State)
		require.Equal(t, bk.EntryID(9), m.LastEntry)
	})
}

// hung blocks each metadata call of these methods until its context ends.
func hung(s *storetest.Faulty, methods ...string) {
	s.OnCall(func(ctx context.Context, c storetest.Call) storetest.Fault {
		for _, m := range methods {
			if c.Method == m {
				<-ctx.Done()
				return storetest.Refuse
			}
		}
		return storetest.Pass
	})
}

var allMethods = []string{"Get", "List", "Txn", "Watch", "Session"}

// Every call ends by the deadline of its context with a typed error, whatever is
// silent: the bookies or the metadata.
func TestDeadlineOfEveryCall(t *testing.T) {
	const wait = time.Second
	silent := func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() }
	for name, test := range map[string]struct {
		deafBookies, deafMetadata bool
		opts                      []ledger.CreateOption
		call                      func(ctx context.Context, c *ledger.Client, wr *ledger.Writer) error
	}{
		"create": {deafMetadata: true, call: func(ctx context.Context, c *ledger.Client, _ *ledger.Writer) error {
			_, err := c.Create(ctx, threeTwo)
			return err
		}},
		"create advanced": {deafMetadata: true, call: func(ctx context.Context, c *ledger.Client, _ *ledger.Writer) error {
			_, err := c.CreateAdvanced(ctx, threeTwo, ledger.WithLedgerID(99))
			return err
		}},
		"append": {deafBookies: true, call: func(ctx context.Context, _ *ledger.Client, wr *ledger.Writer) error {
			_, err := wr.Append(ctx, payload(3))
			return err
		}},
		"append beyond the limit": {deafBookies: true, call: func(ctx context.Context, _ *ledger.Client, wr *ledger.Writer) error {
			for {
				_, err := wr.Append(ctx, make([]byte, 1<<20))
				if err != nil {
					return err
				}
			}
		}},
		"force": {deafBookies: true, call: func(ctx context.Context, _ *ledger.Client, wr *ledger.Writer) error {
			wr.Go(ctx, payload(3), func(bk.EntryID, error) {})
			return wr.Force(ctx)
		}},
		"force of a deferred ledger": {deafBookies: true, opts: []ledger.CreateOption{ledger.WithDeferredSync()},
			call: func(ctx context.Context, _ *ledger.Client, wr *ledger.Writer) error { return wr.Force(ctx) }},
		"close with entries in flight": {deafBookies: true, call: func(ctx context.Context, _ *ledger.Client, wr *ledger.Writer) error {
			wr.Go(ctx, payload(3), func(bk.EntryID, error) {})
			return wr.Close(ctx)
		}},
		"close": {deafMetadata: true, call: func(ctx context.Context, _ *ledger.Client, wr *ledger.Writer) error { return wr.Close(ctx) }},
		"delete": {deafMetadata: true, call: func(ctx context.Context, c *ledger.Client, wr *ledger.Writer) error {
			return c.Delete(ctx, wr.ID())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				c, store := w.onFaulty(ledger.Options{})
				wr, err := c.Create(w.ctx, threeTwo, test.opts...)
				require.NoError(t, err)
				w.append(wr, 3)
				if test.deafBookies {
					for _, b := range w.Bookies {
						b.SetHook(silent)
					}
				}
				if test.deafMetadata {
					hung(store, allMethods...)
				}
				ctx, cancel := context.WithTimeout(w.ctx, wait)
				defer cancel()
				start := time.Now()
				err = test.call(ctx, c, wr)
				require.ErrorIs(t, err, bk.ErrTimeout)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, wait, time.Since(start))
				store.OnCall(nil)
			})
		})
	}
}

// Without a deadline of the caller nothing waits for ever either.
func TestNothingHangsWithoutADeadline(t *testing.T) {
	opts := ledger.Options{MetadataTimeout: 4 * time.Second, AddTimeout: 2 * time.Second}
	inWorld(t, 5, opts, func(w *world) {
		c, store := w.onFaulty(opts)
		wr, err := c.Create(w.ctx, threeTwo)
		require.NoError(t, err)
		w.append(wr, 3)
		hung(store, allMethods...)
		ctx := context.Background()
		start := time.Now()
		_, err = c.Create(ctx, threeTwo)
		require.ErrorIs(t, err, bk.ErrTimeout)
		require.ErrorIs(t, c.Delete(ctx, wr.ID()), bk.ErrTimeout)
		require.LessOrEqual(t, time.Since(start), 8*time.Second)

		for _, b := range w.Bookies {
			b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		}
		start = time.Now()
		_, err = wr.Append(ctx, payload(3))
		require.Error(t, err)
		require.Less(t, time.Since(start), time.Minute)
		require.Error(t, wr.Close(ctx))
		require.Less(t, time.Since(start), time.Minute)
	})
}
