package ledger_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
	"github.com/loglode/loglode/metadata/storetest"
)

// weather makes a store unreachable, silent or slow.
var weather = map[string]func(context.Context, storetest.Call) storetest.Fault{
	"unreachable": func(context.Context, storetest.Call) storetest.Fault { return storetest.Refuse },
	"silent": func(ctx context.Context, _ storetest.Call) storetest.Fault {
		<-ctx.Done()
		return storetest.LoseRequest
	},
}

// While the metadata are out of reach, adds on a healthy ensemble go on, and
// creates fail by their deadline.
func TestMetadataOutage_HealthyEnsembleGoesOn(t *testing.T) {
	for name, hook := range weather {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 4, ledger.Options{}, func(w *world) {
				c, store := w.onFaulty(ledger.Options{})
				wr, err := c.Create(w.ctx, threeTwo)
				require.NoError(t, err)
				fresh, err := c.Create(w.ctx, threeTwo) // nothing was added to it before
				require.NoError(t, err)
				w.append(wr, 3)
				synctest.Wait()
				store.OnCall(hook)
				store.DropWatches()
				require.NoError(t, store.ExpireSessions(w.ctx))
				start := time.Now()
				w.append(wr, 100)
				w.append(fresh, 100)
				require.Less(t, time.Since(start), time.Second)
				<-time.After(5 * time.Minute)
				w.append(wr, 10)

				ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
				defer cancel()
				start = time.Now()
				_, err = c.Create(ctx, threeTwo)
				require.Error(t, err)
				require.LessOrEqual(t, time.Since(start), 3*time.Second)

				store.OnCall(nil)
				store.HealWatches()
				w.append(wr, 10)
				require.NoError(t, wr.Close(w.ctx))
				require.NoError(t, fresh.Close(w.ctx))
				_, err = c.Create(w.ctx, threeTwo)
				require.NoError(t, err)
				w.readAll(w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery), 122)
			})
		})
	}
}

// A bookie fails while the metadata are out of reach: nothing is acknowledged on
// an ensemble that is not published. The writer waits for MetadataTimeout at
// most; then it has ended, or goes on with what is stored.
func TestMetadataOutage_NothingIsAcknowledgedOnUnpublishedEnsembles(t *testing.T) {
	for name, hook := range weather {
		for _, back := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				opts := ledger.Options{MetadataTimeout: 8 * time.Second, AddTimeout: time.Second, LACDelay: -1}
				inWorld(t, 6, opts, func(w *world) {
					c, store := w.onFaulty(opts)
					wr, err := c.Create(w.ctx, threeTwo)
					require.NoError(t, err)
					w.append(wr, 3)
					synctest.Wait()
					old := w.ensemble(wr.ID())
					store.OnCall(hook)
					for _, b := range old[:2] { // the ack quorum needs a new bookie
						w.SetDown(b.ID, true)
					}
					synctest.Wait()
					var acked, failed atomic.Int32
					start := time.Now()
					for e := bk.EntryID(3); e < 8; e++ {
						wr.Go(w.ctx, payload(e), func(_ bk.EntryID, err error) {
							if err != nil {
								failed.Add(1)
								return
							}
							acked.Add(1)
							m, merr := w.c.Metadata(w.ctx, wr.ID())
							require.NoError(t, merr)
							require.NotContains(t, m.LastSegment().Ensemble, old[0].ID, "acknowledged on an ensemble that nobody can find")
						})
					}
					<-time.After(3 * time.Second)
					require.Zero(t, acked.Load())
					if back {
						store.OnCall(nil)
					}
					<-time.After(time.Minute)
					require.EqualValues(t, 5, acked.Load()+failed.Load(), "all have been told")
					require.Less(t, time.Since(start), 2*time.Minute)
					if !back {
						require.Zero(t, acked.Load())
						require.Error(t, wr.Err())
						store.OnCall(nil)
					}
					for _, b := range old {
						w.SetDown(b.ID, false)
					}
					r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
					require.GreaterOrEqual(t, r.LAC(), bk.EntryID(2)+bk.EntryID(acked.Load()))
				})
			})
		}
	}
}

// Slow metadata delay an ensemble change, and nothing else.
func TestMetadataOutage_SlowMetadata(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		c, store := w.onFaulty(ledger.Options{})
		store.OnCall(func(context.Context, storetest.Call) storetest.Fault {
			<-time.After(500 * time.Millisecond)
			return storetest.Pass
		})
		wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 3})
		require.NoError(t, err)
		start := time.Now()
		w.append(wr, 50)
		require.Less(t, time.Since(start), 5*time.Second, "at most the proof that the ledger is still open")
		w.SetDown(w.ensemble(wr.ID())[0].ID, true)
		w.append(wr, 50)
		require.Less(t, time.Since(start), 20*time.Second)
		require.NoError(t, wr.Close(w.ctx))
	})
}

// R22, the writer's side: all bookies of the ensemble are replaced one by one
// while the writer hears nothing of the list of bookies; one that could not be
// replaced at first is, once there is another, without any signal.
func TestR22_WriterWithADeafWatch(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		c, store := w.onFaulty(ledger.Options{})
		wr, err := c.Create(w.ctx, threeTwo)
		require.NoError(t, err)
		w.append(wr, 3)
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
		store.DropWatches()
		require.NoError(t, store.ExpireSessions(w.ctx))
		for range 3 {
			gone := w.ensemble(wr.ID())[0]
			w.SetDown(gone.ID, true)
			w.append(wr, 10) // with two
			require.NoError(t, w.Add(w.ctx))
			<-time.After(time.Minute)
			w.append(wr, 10)
			<-time.After(time.Minute)
			w.append(wr, 1)
			require.NotContains(t, w.ensemble(wr.ID()), gone)
		}
		w.append(wr, 100)
		last := wr.LAC()
		require.NoError(t, wr.Close(w.ctx))
		for e := bk.InvalidEntryID; e < last; {
			ent, err := r.ReadNext(w.ctx, e)
			require.NoError(t, err)
			e = ent.ID
		}
	})
}

// A writer that finds its bookies gone while it is idle, and the metadata out of
// reach, does not spin.
func TestMetadataOutage_NoBusyLoop(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		c, store := w.onFaulty(ledger.Options{MetadataTimeout: 30 * time.Second})
		wr, err := c.Create(w.ctx, threeTwo)
		require.NoError(t, err)
		w.append(wr, 3)
		var calls atomic.Int32
		store.OnCall(func(context.Context, storetest.Call) storetest.Fault {
			calls.Add(1)
			return storetest.Refuse
		})
		for _, b := range w.Bookies {
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				if r.Op == wire.OpAdd {
					return fakebookie.Drop()
				}
				return fakebookie.Pass()
			})
		}
		ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
		defer cancel()
		_, err = wr.Append(ctx, payload(3))
		require.Error(t, err)
		require.Less(t, calls.Load(), int32(100))
	})
}
