package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

func (w *world) createAdvanced(opts ...ledger.CreateOption) *ledger.AdvancedWriter {
	wr, err := w.c.CreateAdvanced(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}, opts...)
	require.NoError(w, err)
	return wr
}

// Entries given in any order complete in the order of their ids, and are stored
// as if they had come in it: LAC and length are those of rule 4 and 5.
func TestAdvancedCompletesInIDOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		rng := rand.New(rand.NewPCG(seed, 1))
		wr := w.createAdvanced()
		const n = 300
		var done []bk.EntryID
		for _, e := range rng.Perm(n) {
			wr.Go(w.ctx, bk.EntryID(e), payload(bk.EntryID(e)), func(got bk.EntryID, err error) {
				if err != nil || got != bk.EntryID(e) {
					t.Errorf("entry %d: told %d, %v", e, got, err)
				}
				done = append(done, got)
			})
		}
		require.NoError(t, wr.Close(w.ctx))
		synctest.Wait() // for the third copies
		length := int64(0)
		require.Len(t, done, n)
		for e := range bk.EntryID(n) {
			require.Equal(t, e, done[e])
			length += int64(len(payload(e)))
			require.Equal(t, length, bodyLength(w.Bookies[0].Entry(wr.ID(), e)))
		}
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
		require.Equal(t, length, r.Length())
		w.readAll(r, n-1)
	})
}

func TestAdvancedDuplicateIsRefused(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.createAdvanced()
		require.NoError(t, wr.Append(w.ctx, 0, payload(0)))
		require.ErrorIs(t, wr.Append(w.ctx, 0, payload(0)), bk.ErrDuplicateEntry, "confirmed")
		wr.Go(w.ctx, 2, payload(2), func(bk.EntryID, error) {})
		require.ErrorIs(t, wr.Append(w.ctx, 2, payload(2)), bk.ErrDuplicateEntry, "waiting")
		require.ErrorIs(t, wr.Append(w.ctx, -1, nil), bk.ErrBadRequest)
		require.NoError(t, wr.Append(w.ctx, 1, payload(1)))
		require.NoError(t, wr.Append(w.ctx, 3, payload(3)), "the writer goes on")
		require.NoError(t, wr.Close(w.ctx))
		require.ErrorIs(t, wr.Append(w.ctx, 4, nil), bk.ErrLedgerClosed)
		w.readAll(w.open(w.c, wr.ID(), ledger.NoRecovery), 3)
	})
}

// What a gap cuts off fails with the writer, whatever ends it, and is nowhere.
func TestAdvancedGapAtTheEnd(t *testing.T) {
	ends := map[string]func(w *world, wr *ledger.AdvancedWriter) error{
		"close": func(w *world, wr *ledger.AdvancedWriter) error {
			require.NoError(w, wr.Close(w.ctx))
			return bk.ErrLedgerClosed
		},
		"abort":  func(w *world, wr *ledger.AdvancedWriter) error { require.NoError(w, wr.Abort()); return bk.ErrClosed },
		"client": func(w *world, _ *ledger.AdvancedWriter) error { require.NoError(w, w.c.Close()); return bk.ErrClosed },
		"fenced": func(w *world, wr *ledger.AdvancedWriter) error {
			w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
			require.Error(w, wr.Append(w.ctx, 2, payload(2)))
			return bk.ErrFenced
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				wr := w.createAdvanced()
				errs := map[bk.EntryID]error{}
				for _, e := range []bk.EntryID{0, 1, 5, 3} {
					wr.Go(w.ctx, e, payload(e), func(_ bk.EntryID, err error) { errs[e] = err })
				}
				synctest.Wait()
				require.Len(t, errs, 2)
				want := end(w, wr)
				synctest.Wait()
				require.Len(t, errs, 4)
				require.NoError(t, errs[1])
				require.ErrorIs(t, errs[3], want)
				require.ErrorIs(t, errs[5], want)
				for _, b := range w.Bookies {
					require.Nil(t, b.Entry(wr.ID(), 3))
				}
			})
		})
	}
}

// Entries behind a gap are bounded by BytesInFlight; the one that fills the gap
// always gets in; a caller that gives up waiting leaves its id free.
func TestAdvancedBytesBehindAGapAreBounded(t *testing.T) {
	inWorld(t, 3, ledger.Options{BytesInFlight: 1000}, func(w *world) {
		wr := w.createAdvanced()
		big := make([]byte, 400)
		done := make(chan error, 16)
		tell := func(_ bk.EntryID, err error) { done <- err }
		wr.Go(w.ctx, 1, big, tell)
		wr.Go(w.ctx, 2, big, tell)
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		wr.Go(ctx, 3, big, tell)
		err := <-done
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, bk.ErrTimeout)
		for e := bk.EntryID(3); e < 8; e++ {
			go wr.Go(w.ctx, e, big, tell)
		}
		synctest.Wait()
		require.Empty(t, done)
		require.NoError(t, wr.Append(w.ctx, 0, big))
		for range 7 {
			require.NoError(t, <-done)
		}
		require.Equal(t, bk.EntryID(7), wr.LAC())
		require.NoError(t, wr.Close(w.ctx))
	})
}

// Many callers, a bookie that fails meanwhile, deferred sync or not.
func TestAdvancedFromManyCallers(t *testing.T) {
	for _, opts := range [][]ledger.CreateOption{nil, {ledger.WithDeferredSync()}} {
		t.Run(fmt.Sprint(len(opts)), func(t *testing.T) {
			inWorld(t, 4, ledger.Options{BytesInFlight: 4000}, func(w *world) {
				wr := w.createAdvanced(opts...)
				const callers, each = 8, 50
				done := make(chan error, callers*each)
				for i := range callers {
					go func() {
						for k := range each {
							e := bk.EntryID(k*callers + i)
							wr.Go(w.ctx, e, payload(e), func(_ bk.EntryID, err error) { done <- err })
						}
					}()
				}
				if len(opts) == 0 {
					bad := w.ensemble(wr.ID())[1]
					bad.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
						if r.Entry >= 100 {
							return fakebookie.Refuse(bk.StatusIO)
						}
						return fakebookie.Pass()
					})
				}
				for range callers * each {
					require.NoError(t, <-done)
				}
				require.NoError(t, wr.Close(w.ctx))
				r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
				w.readAll(r, callers*each-1)
			})
		})
	}
}
