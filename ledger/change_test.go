package ledger_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

// faultyStore lets a test do things to transactions.
type faultyStore struct {
	metadata.Store
	mu    sync.Mutex // guards fault
	fault func(do func() (metadata.Result, error)) (metadata.Result, error)
}

func (s *faultyStore) setFault(f func(do func() (metadata.Result, error)) (metadata.Result, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *faultyStore) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	s.mu.Lock()
	f := s.fault
	s.mu.Unlock()
	do := func() (metadata.Result, error) { return s.Store.Txn(ctx, ops...) }
	if f == nil {
		return do()
	}
	return f(do)
}

// onFaultyStore makes a client whose metadata store a test can disturb.
func (w *world) onFaultyStore(opts ledger.Options) (*ledger.Client, *faultyStore) {
	s := &faultyStore{Store: w.Store}
	cluster, err := layout.Open(w.ctx, s, "/bk")
	require.NoError(w, err)
	opts.Dial, opts.Seed = w.Dial, 1
	c, err := ledger.New(cluster, opts)
	require.NoError(w, err)
	w.clients = append(w.clients, c)
	return c, s
}

// update changes a ledger's metadata behind a writer's back.
func (w *world) update(id bk.LedgerID, change func(m *layout.LedgerMetadata)) {
	m, v, err := w.Layout.Ledger(w.ctx, id)
	require.NoError(w, err)
	m = m.Clone()
	change(m)
	_, err = w.Layout.UpdateLedger(w.ctx, id, m, v)
	require.NoError(w, err)
}

func TestRule7NothingCompletesWhileTheChangeIsNotStored(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		c, store := w.onFaultyStore(ledger.Options{LACDelay: -1})
		wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
		require.NoError(t, err)
		w.append(wr, 2)
		gate := make(chan struct{})
		store.setFault(func(do func() (metadata.Result, error)) (metadata.Result, error) {
			<-gate
			return do()
		})
		bad := w.ensemble(wr.ID())[0]
		bad.SetHook(func(r fakebookie.Request) fakebookie.Verdict { return fakebookie.Refuse(bk.StatusIO) })
		wr.Go(w.ctx, payload(2), func(bk.EntryID, error) {}) // may complete before its failure is known
		synctest.Wait()
		var done atomic.Int32
		for e := bk.EntryID(3); e < 6; e++ {
			wr.Go(w.ctx, payload(e), func(_ bk.EntryID, err error) {
				if err == nil {
					done.Add(1)
				}
			})
		}
		synctest.Wait()
		require.Zero(t, done.Load(), "two bookies have the entries, but the metadata still name the failed one")
		close(gate)
		synctest.Wait()
		require.Equal(t, int32(3), done.Load())
	})
}

func TestRule14FailuresDuringAChangeJoinTheNextRound(t *testing.T) {
	inWorld(t, 6, ledger.Options{}, func(w *world) {
		c, store := w.onFaultyStore(ledger.Options{LACDelay: -1})
		wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 3})
		require.NoError(t, err)
		w.append(wr, 1)
		var out, most atomic.Int32
		gate := make(chan struct{})
		store.setFault(func(do func() (metadata.Result, error)) (metadata.Result, error) {
			most.Store(max(most.Load(), out.Add(1)))
			defer out.Add(-1)
			<-gate
			return do()
		})
		ens := w.ensemble(wr.ID())
		w.SetDown(ens[0].ID, true)
		var got error
		wr.Go(w.ctx, payload(1), func(_ bk.EntryID, err error) { got = err })
		synctest.Wait()
		w.SetDown(ens[1].ID, true)
		wr.Go(w.ctx, payload(2), func(bk.EntryID, error) {})
		synctest.Wait()
		close(gate)
		synctest.Wait()
		require.NoError(t, got)
		require.Equal(t, int32(1), most.Load(), "one change at a time")
		require.Equal(t, bk.EntryID(2), wr.LAC())
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Equal(t, bk.EntryID(1), m.LastSegment().First)
		require.NotContains(t, m.LastSegment().Ensemble, ens[0].ID)
		require.NotContains(t, m.LastSegment().Ensemble, ens[1].ID)
		require.Equal(t, ens[2].ID, m.LastSegment().Ensemble[2], "rule 15: others keep their position")
	})
}

func TestRule17ConflictingChange(t *testing.T) {
	for _, state := range []layout.State{layout.StateOpen, layout.StateInRecovery, layout.StateClosed} {
		t.Run(state.String(), func(t *testing.T) {
			inWorld(t, 5, ledger.Options{}, func(w *world) {
				wr := w.create(3, 3, 3)
				w.append(wr, 2)
				bad := w.ensemble(wr.ID())[0]
				w.update(wr.ID(), func(m *layout.LedgerMetadata) {
					m.State = state
					if state == layout.StateClosed {
						m.LastEntry, m.Length = 1, wr.Length()
					}
					m.Custom = map[string][]byte{"by": []byte("another")}
				})
				w.SetDown(bad.ID, true)
				_, err := wr.Append(w.ctx, payload(2))
				switch state {
				case layout.StateInRecovery:
					require.ErrorIs(t, err, bk.ErrFenced)
				case layout.StateClosed:
					require.ErrorIs(t, err, bk.ErrLedgerClosed)
				default:
					require.NoError(t, err)
				}
				m, err := w.c.Metadata(w.ctx, wr.ID())
				require.NoError(t, err)
				require.Equal(t, state, m.State)
				require.Equal(t, []byte("another"), m.Custom["by"], "rule 47: the other's change is kept")
			})
		})
	}
}

// A dead bookie that is still listed, and of which the writer knows nothing, is
// no substitute while there is another: the ensemble that names it is never
// stored. One that is the last there is, is tried.
func TestRule15SubstituteThatRefusesIsNotStored(t *testing.T) {
	for seed := uint64(1); seed <= 16; seed++ {
		inWorld(t, 3, ledger.Options{}, func(w *world) {
			changes := make(chan ledger.EnsembleChange, 100)
			c := w.client(ledger.Options{Seed: seed, Events: ledger.Events{
				EnsembleChanged: func(ch ledger.EnsembleChange) { changes <- ch },
			}})
			wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 3})
			require.NoError(t, err)
			w.append(wr, 3)
			for range 3 {
				require.NoError(t, w.Add(w.ctx))
			}
			dead, spare := w.Bookies[3:5], w.Bookies[5]
			for _, b := range dead {
				w.SetDown(b.ID, true)
			}
			gone := w.ensemble(wr.ID())[0]
			w.SetDown(gone.ID, true)
			w.append(wr, 10)
			synctest.Wait()
			require.Len(t, changes, 1)
			require.Equal(t, []bk.BookieID{spare.ID}, (<-changes).To)
			require.Equal(t, spare, w.ensemble(wr.ID())[0])

			w.SetDown(spare.ID, true) // the ensemble cannot be had any more
			_, err = wr.Append(w.ctx, payload(13))
			require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
			require.NotZero(t, w.Dials(dead[0].ID))
			require.NotZero(t, w.Dials(dead[1].ID))
		})
	}
}

func TestRule18EntriesComeBackFromTheNewBookie(t *testing.T) {
	inWorld(t, 5, ledger.Options{}, func(w *world) {
		wr := w.create(4, 2, 2) // striped: some pending entries are not touched by the change
		ens := w.ensemble(wr.ID())
		ens[1].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Op == wire.OpAdd && r.Entry >= 4 {
				return fakebookie.Refuse(bk.StatusIO)
			}
			return fakebookie.Pass()
		})
		for e := range bk.EntryID(40) {
			wr.Go(w.ctx, payload(e), func(_ bk.EntryID, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		require.NoError(t, wr.Close(w.ctx))
		w.SetDown(ens[1].ID, true)
		w.readAll(w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery), 39)
	})
}

func TestRule21CloseAtLACAndRule23Empty(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		require.NoError(t, wr.Close(w.ctx))
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Equal(t, layout.StateClosed, m.State)
		require.Equal(t, bk.InvalidEntryID, m.LastEntry)
		require.Zero(t, m.Length)
		r := w.open(w.c, wr.ID(), ledger.NoRecovery)
		require.Equal(t, bk.InvalidEntryID, r.LAC())
		w.readAll(r, -1)
		_, err = r.WaitLAC(w.ctx, bk.InvalidEntryID)
		require.ErrorIs(t, err, bk.ErrLedgerClosed)
		for _, b := range w.Bookies {
			require.Empty(t, b.Seen(), "close sends nothing to bookies")
		}

		wr = w.create(3, 3, 2)
		for e := range bk.EntryID(10) {
			wr.Go(w.ctx, payload(e), func(bk.EntryID, error) {})
		}
		require.NoError(t, wr.Close(w.ctx), "waits for what is in flight")
		m, err = w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Equal(t, bk.EntryID(9), m.LastEntry)
		require.Equal(t, int64(10*len(payload(0))), m.Length)
		_, err = wr.Append(w.ctx, nil)
		require.ErrorIs(t, err, bk.ErrLedgerClosed)
	})
}

func TestRule22CloseConflict(t *testing.T) {
	for name, test := range map[string]struct {
		change func(m *layout.LedgerMetadata)
		want   error
	}{
		"changed but open": {func(m *layout.LedgerMetadata) { m.Custom = map[string][]byte{"a": nil} }, nil},
		"closed the same":  {func(m *layout.LedgerMetadata) { m.State, m.LastEntry, m.Length = layout.StateClosed, 1, 14 }, nil},
		"closed otherwise": {func(m *layout.LedgerMetadata) { m.State, m.LastEntry, m.Length = layout.StateClosed, 0, 7 }, bk.ErrMetadataConflict},
		"in recovery":      {func(m *layout.LedgerMetadata) { m.State = layout.StateInRecovery }, bk.ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				wr := w.create(3, 3, 2)
				w.append(wr, 2)
				w.update(wr.ID(), test.change)
				err := wr.Close(w.ctx)
				if test.want == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, test.want)
			})
		})
	}
}

func TestRule24DeleteRemovesMetadataOnly(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 2)
		require.NoError(t, wr.Close(w.ctx))
		r := w.open(w.c, wr.ID(), ledger.NoRecovery)
		synctest.Wait()
		for _, b := range w.Bookies {
			b.Forget()
		}
		require.NoError(t, w.c.Delete(w.ctx, wr.ID()))
		for _, b := range w.Bookies {
			require.Empty(t, b.Seen())
		}
		w.readAll(r, 1) // a handle that is open reads on
		require.NoError(t, w.c.Delete(w.ctx, wr.ID()), "again")
		_, err := w.c.Open(w.ctx, wr.ID(), ledger.NoRecovery)
		require.ErrorIs(t, err, bk.ErrNoSuchLedger)
		for id, err := range w.c.List(w.ctx) {
			require.NoError(t, err)
			require.NotEqual(t, wr.ID(), id)
		}
	})
}

func TestRule48UnknownOutcomeOfAChangeIsReadBack(t *testing.T) {
	for _, applied := range []bool{true, false} {
		inWorld(t, 4, ledger.Options{}, func(w *world) {
			c, store := w.onFaultyStore(ledger.Options{})
			wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 3})
			require.NoError(t, err)
			w.append(wr, 2)
			lost := false
			store.setFault(func(do func() (metadata.Result, error)) (metadata.Result, error) {
				if lost {
					return do()
				}
				lost = true
				if applied {
					if _, err := do(); err != nil {
						return metadata.Result{}, err
					}
				}
				return metadata.Result{}, metadata.ErrUnknownOutcome
			})
			w.SetDown(w.ensemble(wr.ID())[2].ID, true)
			w.append(wr, 1)
			require.True(t, lost)
			m, err := w.c.Metadata(w.ctx, wr.ID())
			require.NoError(t, err)
			require.Len(t, m.Segments, 2, "applied=%v: the change is there once", applied)
			require.NoError(t, wr.Close(w.ctx))
		})
	}
}

// R06: a connection error and later timeouts of one bookie start one
// replacement each at most; every add completes once, in order.
func TestR06SameDeadBookieReportedTwice(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 1)
		ens := w.ensemble(wr.ID())
		ens[0].SetHook(func(r fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() }) // a black hole at first
		next, failed := bk.EntryID(1), 0
		var wg sync.WaitGroup
		for i := range 5000 {
			if i == 2500 {
				w.SetDown(ens[0].ID, true) // new adds fail at once, older ones were never answered
			}
			wg.Add(1)
			wr.Go(w.ctx, []byte("x"), func(e bk.EntryID, err error) {
				defer wg.Done()
				if err != nil {
					failed++
					return
				}
				if e != next {
					t.Errorf("entry %d completed, want %d", e, next)
				}
				next++
			})
		}
		wg.Wait()
		require.Zero(t, failed)
		require.Equal(t, bk.EntryID(5001), next)
		require.NoError(t, wr.Close(w.ctx))
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Equal(t, bk.EntryID(5000), m.LastEntry)
		require.LessOrEqual(t, len(m.Segments), 2, "one bookie, one replacement")
	})
}
