package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/storetest"
)

// onFaulty makes a client whose metadata calls can fail.
func (w *world) onFaulty(opts ledger.Options) (*ledger.Client, *storetest.Faulty) {
	s := storetest.NewFaulty(w.Store)
	cluster, err := layout.Open(w.ctx, s, "/bk")
	require.NoError(w, err)
	opts.Dial, opts.Seed = w.Dial, 1
	c, err := ledger.New(cluster, opts)
	require.NoError(w, err)
	w.clients = append(w.clients, c)
	return c, s
}

// However many callers wait for room, all of them hear of the writer's end.
func TestEveryBlockedCallerHearsOfTheEnd(t *testing.T) {
	ends := map[string]func(w *world, wr *ledger.Writer){
		"fenced": func(w *world, wr *ledger.Writer) { w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover) },
		"abort":  func(w *world, wr *ledger.Writer) { require.NoError(w, wr.Abort()) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{BytesInFlight: 1000}, func(w *world) {
				wr := w.create(3, 3, 2)
				gate := make(chan struct{})
				defer close(gate)
				for _, b := range w.Bookies {
					b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
						if r.V3 {
							return fakebookie.Pass()
						}
						return fakebookie.Hold(gate)
					})
				}
				var failed atomic.Int32
				for range 12 {
					go wr.Go(w.ctx, make([]byte, 400), func(_ bk.EntryID, err error) {
						if err != nil {
							failed.Add(1)
						}
					})
				}
				synctest.Wait()
				require.Equal(t, bk.EntryID(1), wr.LastPushed(), "ten wait")
				end(w, wr)
				<-time.After(time.Minute)
				require.Equal(t, int32(12), failed.Load(), "nobody waits for ever")
			})
		})
	}
}

// An ensemble change under load moves all that is in flight to a bookie that
// there is no connection to yet.
func TestEnsembleChangeMovesAllBytesInFlight(t *testing.T) {
	inWorld(t, 4, ledger.Options{FailWhenShort: true}, func(w *world) {
		wr := w.create(3, 3, 3)
		w.append(wr, 1)
		gate := make(chan struct{})
		victim := w.ensemble(wr.ID())[0]
		victim.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Hold(gate) })
		var wg sync.WaitGroup
		for range 24 {
			wg.Add(1)
			wr.Go(w.ctx, make([]byte, 512<<10), func(_ bk.EntryID, err error) {
				if err != nil {
					t.Error(err)
				}
				wg.Done()
			})
		}
		synctest.Wait()
		w.SetDown(victim.ID, true)
		close(gate)
		wg.Wait()
		require.NoError(t, wr.Close(w.ctx))
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Len(t, m.Segments, 2, "one change was enough")
	})
}

// Two bookies fail while another is being replaced, and one more is there: it
// replaces one of the two, and the ledger goes on with the ack quorum that this
// gives.
func TestRule15ReplacesAsManyAsThereAre(t *testing.T) {
	inWorld(t, 5, ledger.Options{}, func(w *world) {
		c, store := w.onFaulty(ledger.Options{})
		wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
		require.NoError(t, err)
		w.append(wr, 3)
		gate := make(chan struct{})
		store.OnCall(func(_ context.Context, c storetest.Call) storetest.Fault {
			if c.Method == "Txn" {
				<-gate
			}
			return storetest.Pass
		})
		ens := w.ensemble(wr.ID())
		w.SetDown(ens[1].ID, true)
		done := make(chan error, 2)
		wr.Go(w.ctx, payload(3), func(_ bk.EntryID, err error) { done <- err })
		synctest.Wait()
		w.SetDown(ens[0].ID, true)
		w.SetDown(ens[2].ID, true)
		wr.Go(w.ctx, payload(4), func(_ bk.EntryID, err error) { done <- err })
		<-time.After(time.Second)
		close(gate)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		w.append(wr, 20)
		require.NoError(t, wr.Close(w.ctx))
	})
}

// A reader that does not hear of an ensemble change reads all the same: that
// the old bookies lack an entry is no proof that it does not exist.
func TestReadLooksForNewMetadataBeforeItFails(t *testing.T) {
	for _, q := range []bk.Quorum{{Ensemble: 3, Write: 2, Ack: 2}, {Ensemble: 2, Write: 2, Ack: 2}} {
		inWorld(t, 6, ledger.Options{}, func(w *world) {
			wr := w.create(q.Ensemble, q.Write, q.Ack)
			w.append(wr, 6)
			c, store := w.onFaulty(ledger.Options{})
			r := w.open(c, wr.ID(), ledger.NoRecovery)
			store.DropWatches()
			ens := w.ensemble(wr.ID())
			for _, b := range ens[1:] { // the first one stays, and tells the LAC
				w.SetDown(b.ID, true)
			}
			w.append(wr, 30)
			for _, b := range ens {
				w.SetDown(b.ID, false)
			}
			<-time.After(time.Second)
			lac, err := r.WaitLAC(w.ctx, 30)
			require.NoError(t, err)
			for e := bk.EntryID(0); e <= lac; e++ {
				ent, err := r.Read(w.ctx, e)
				require.NoError(t, err, "entry %d of %d, %v", e, lac, q)
				require.Equal(t, string(payload(e)), string(ent.Payload))
			}
			w.readAll(r, lac)
		})
	}
}

// R22: a reader that hears nothing of the metadata any more finds the new
// bookies and the end by itself.
func TestR22TailWithADeafWatch(t *testing.T) {
	inWorld(t, 6, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 5)
		c, store := w.onFaulty(ledger.Options{})
		r := w.open(c, wr.ID(), ledger.NoRecovery)
		store.DropWatches()
		for _, b := range w.ensemble(wr.ID()) {
			w.SetDown(b.ID, true)
			w.append(wr, 5)
		}
		w.append(wr, 100)
		require.NoError(t, wr.Close(w.ctx))
		for _, b := range w.Bookies {
			w.SetDown(b.ID, false)
		}
		start := time.Now()
		e := bk.InvalidEntryID
		for {
			ent, err := r.ReadNext(w.ctx, e)
			if err != nil {
				require.ErrorIs(t, err, bk.ErrLedgerClosed)
				break
			}
			e = ent.ID
		}
		require.Equal(t, wr.LAC(), e)
		require.Less(t, time.Since(start), 20*time.Second, "two rounds of polls")
	})
}

// Metadata that cannot be read when a watch signals are read later, without
// another signal.
func TestRule26CloseIsSeenAfterAnOutageOfMetadata(t *testing.T) {
	inWorld(t, 3, ledger.Options{MetadataTimeout: time.Second}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		c, store := w.onFaulty(ledger.Options{MetadataTimeout: time.Second})
		r := w.open(c, wr.ID(), ledger.NoRecovery)
		store.OnCall(func(context.Context, storetest.Call) storetest.Fault { return storetest.Refuse })
		require.NoError(t, wr.Close(w.ctx))
		<-time.After(time.Minute)
		store.OnCall(nil)
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		defer cancel()
		_, err := r.WaitLAC(ctx, 2)
		require.ErrorIs(t, err, bk.ErrLedgerClosed)
	})
}

// A ledger that is closed after its metadata were read to open it, and before
// the watch began, is seen closed.
func TestRule26CloseBeforeTheWatchIsSeen(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		c, store := w.onFaulty(ledger.Options{})
		store.OnCall(func(_ context.Context, call storetest.Call) storetest.Fault {
			if call.Method == "Watch" {
				require.NoError(t, wr.Close(w.ctx))
			}
			return storetest.Pass
		})
		r := w.open(c, wr.ID(), ledger.NoRecovery)
		require.True(t, r.Closed())
		_, err := r.WaitLAC(w.ctx, 2)
		require.ErrorIs(t, err, bk.ErrLedgerClosed)
	})
}

// R07: nor does a ledger that no bookie has heard of yet.
func TestR07TailOfAnEmptyLedgerDoesNotSpin(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
		for _, b := range w.Bookies {
			b.Forget()
		}
		var seen time.Time
		done := make(chan error, 1)
		go func() {
			_, err := r.ReadNext(w.ctx, bk.InvalidEntryID)
			seen = time.Now()
			done <- err
		}()
		<-time.After(time.Minute)
		n := 0
		for _, b := range w.Bookies {
			n += len(b.Seen())
		}
		require.Less(t, n, 120, "two requests a second")
		start := time.Now()
		w.append(wr, 1)
		require.NoError(t, <-done)
		require.Less(t, seen.Sub(start), time.Second, "the first entry is seen")
	})
}

// R08: the LAC of an idle writer reaches the bookies though they did not answer
// when it was told first.
func TestR08LACIsToldAgain(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		var deaf atomic.Bool
		deaf.Store(true)
		wr := w.create(3, 3, 2)
		for _, b := range w.Bookies {
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				if deaf.Load() && r.V3 && !r.LongPoll {
					return fakebookie.Drop()
				}
				return fakebookie.Pass()
			})
		}
		w.append(wr, 5)
		<-time.After(10 * time.Second)
		deaf.Store(false)
		<-time.After(5 * time.Second)
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
		require.Equal(t, bk.EntryID(4), r.LAC())
	})
}

// A store that reads but takes no writes: the writer asks in measure, and ends
// with the reason when that lasts.
func TestMetadataThatTakesNoWrites(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		c, store := w.onFaulty(ledger.Options{MetadataTimeout: 10 * time.Second})
		wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 3})
		require.NoError(t, err)
		w.append(wr, 3)
		var txns atomic.Int32
		store.OnCall(func(_ context.Context, c storetest.Call) storetest.Fault {
			if c.Method == "Txn" {
				txns.Add(1)
				return storetest.Refuse
			}
			return storetest.Pass
		})
		w.SetDown(w.ensemble(wr.ID())[0].ID, true)
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		_, err = wr.Append(ctx, payload(3))
		require.ErrorIs(t, err, metadata.ErrUnavailable)
		require.Less(t, txns.Load(), int32(60))
	})
}

// The counters stay when one of several clients goes.
func TestMetricsOutliveOneClient(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		reg := prometheus.NewRegistry()
		a, b := w.client(ledger.Options{Registerer: reg}), w.client(ledger.Options{Registerer: reg})
		require.NoError(t, a.Close())
		wr, err := b.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
		require.NoError(t, err)
		w.append(wr, 5)
		_ = w.client(ledger.Options{Registerer: reg})
		families, err := reg.Gather()
		require.NoError(t, err)
		got := map[string]float64{}
		for _, f := range families {
			got[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
		}
		require.Equal(t, 5.0, got["loglode_ledger_entries_added_total"], fmt.Sprint(got))
	})
}
