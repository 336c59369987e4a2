package ledger_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// bodyLength is the length field of a stored entry.
func bodyLength(body []byte) int64 { return int64(binary.BigEndian.Uint64(body[24:])) }

func TestRule1MetadataOfNewLedger(t *testing.T) {
	inWorld(t, 5, ledger.Options{}, func(w *world) {
		wr := w.create(4, 3, 2, ledger.WithDigest(bk.DigestHMAC), ledger.WithPassword([]byte("p")))
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Equal(t, bk.Quorum{Ensemble: 4, Write: 3, Ack: 2}, m.Quorum)
		require.Equal(t, layout.StateOpen, m.State)
		require.Equal(t, bk.DigestHMAC, m.Digest)
		require.Equal(t, []byte("p"), m.Password)
		require.Len(t, m.Segments, 1)
		require.Equal(t, bk.EntryID(0), m.Segments[0].First)
		ids := slices.Clone(m.Segments[0].Ensemble)
		slices.Sort(ids)
		require.Len(t, slices.Compact(ids), 4)

		_, err = w.c.Create(w.ctx, bk.Quorum{Ensemble: 6, Write: 3, Ack: 2})
		require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
		_, err = w.c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 4, Ack: 2})
		require.ErrorIs(t, err, bk.ErrInvalidQuorum)
	})
}

func TestRule2ChosenIDThatExistsFails(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2, ledger.WithLedgerID(77))
		require.Equal(t, bk.LedgerID(77), wr.ID())
		_, err := w.c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}, ledger.WithLedgerID(77))
		require.ErrorIs(t, err, bk.ErrLedgerExists)
	})
}

func TestRule3CreateAsksNoBookie(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		w.create(3, 3, 2)
		synctest.Wait()
		for _, b := range w.Bookies {
			require.Empty(t, b.Seen())
		}
	})
}

func TestRule4And5IDsLengthAndLACInEntries(t *testing.T) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 20)
		synctest.Wait()
		length := int64(0)
		for e := range bk.EntryID(20) {
			length += int64(len(payload(e)))
			for _, b := range w.Bookies {
				body := b.Entry(wr.ID(), e)
				require.NotNil(t, body, "entry %d at %s", e, b.ID)
				require.Equal(t, e-1, bk.BodyLAC(body), "one append at a time: the entry before is confirmed")
				require.Equal(t, length, bodyLength(body))
			}
		}
		require.Equal(t, length, wr.Length())
	})
}

func TestRule6CompletesAtAckQuorum(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		slow := make(chan struct{})
		w.Bookies[0].SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Hold(slow) })
		w.append(wr, 5) // two bookies suffice
		synctest.Wait()
		require.NotNil(t, w.Bookies[0].Entry(wr.ID(), 4), "all of the write set were asked at once")

		w.Bookies[1].SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Hold(slow) })
		var done []bk.EntryID
		wr.Go(w.ctx, payload(5), func(e bk.EntryID, err error) { done = append(done, e) })
		synctest.Wait()
		require.Empty(t, done, "one answer is not enough")
		close(slow)
		synctest.Wait()
		require.Equal(t, []bk.EntryID{5}, done)
	})
}

func TestRule7CallbacksInOrderOneAtATime(t *testing.T) {
	inWorld(t, 5, ledger.Options{}, func(w *world) {
		wr := w.create(5, 3, 2)
		var mu sync.Mutex
		var order []bk.EntryID
		var wg sync.WaitGroup
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range 100 {
					wr.Go(w.ctx, []byte("x"), func(e bk.EntryID, err error) {
						if !mu.TryLock() {
							t.Error("two callbacks at once")
							return
						}
						defer mu.Unlock()
						if err != nil {
							t.Error(err)
						}
						order = append(order, e)
					})
				}
			}()
		}
		wg.Wait()
		require.NoError(t, wr.Close(w.ctx))
		require.Len(t, order, 800)
		for i, e := range order {
			require.Equal(t, bk.EntryID(i), e)
		}
	})
}

func TestRule8LateFailureChangesEnsembleAtNextAdd(t *testing.T) {
	inWorld(t, 4, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		ens := w.ensemble(wr.ID())
		fail := make(chan struct{})
		ens[2].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			<-fail // answer after the entry is complete
			return fakebookie.Refuse(bk.StatusIO)
		})
		w.append(wr, 1)
		close(fail)
		synctest.Wait()
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Len(t, m.Segments, 1)
		require.Equal(t, ens[2].ID, m.Segments[0].Ensemble[2], "nothing to do before the next add")

		w.append(wr, 1)
		m, err = w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Len(t, m.Segments, 2)
		require.Equal(t, bk.EntryID(1), m.Segments[1].First, "rule 16: behind the LAC")
		require.NotEqual(t, ens[2].ID, m.Segments[1].Ensemble[2])
	})
}

func TestRule9FencedOrUnauthorizedEndsWriter(t *testing.T) {
	for _, status := range []bk.Status{bk.StatusFenced, bk.StatusUnauthorized} {
		t.Run(status.String(), func(t *testing.T) {
			inWorld(t, 5, ledger.Options{}, func(w *world) {
				wr := w.create(3, 3, 2)
				w.append(wr, 3)
				ens := w.ensemble(wr.ID())
				for _, b := range ens {
					b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
						if r.Op == wire.OpAdd && r.Entry == 4 {
							return fakebookie.Refuse(status)
						}
						return fakebookie.Lose() // entries 3 and 5 stay without an answer
					})
				}
				var errs []error
				for e := bk.EntryID(3); e <= 5; e++ {
					wr.Go(w.ctx, payload(e), func(id bk.EntryID, err error) {
						require.Equal(t, bk.InvalidEntryID, id)
						errs = append(errs, err)
					})
				}
				synctest.Wait()
				require.Len(t, errs, 3)
				for _, err := range errs {
					require.ErrorIs(t, err, status.Err())
				}
				_, err := wr.Append(w.ctx, nil)
				require.ErrorIs(t, err, status.Err(), "for good")
				m, err := w.c.Metadata(w.ctx, wr.ID())
				require.NoError(t, err)
				require.Equal(t, layout.StateClosed, m.State, "closed at the LAC")
				require.Equal(t, bk.EntryID(2), m.LastEntry)
				require.Len(t, m.Segments, 1, "no ensemble change")
			})
		})
	}
}

func TestRule10OtherFailuresReplaceTheBookieWithoutRetry(t *testing.T) {
	verdicts := map[string]fakebookie.Verdict{
		"silent": fakebookie.Silent(), "drop": fakebookie.Drop(),
	}
	for _, s := range []bk.Status{
		bk.StatusNoLedger, bk.StatusNoEntry, bk.StatusBadRequest, bk.StatusIO, bk.StatusBadVersion,
		bk.StatusReadOnly, bk.StatusTooManyRequests,
	} {
		verdicts[s.String()] = fakebookie.Refuse(s)
	}
	for name, v := range verdicts {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 4, ledger.Options{LACDelay: -1}, func(w *world) {
				var changes []ledger.EnsembleChange
				c := w.client(ledger.Options{LACDelay: -1, Events: ledger.Events{
					EnsembleChanged: func(ch ledger.EnsembleChange) { changes = append(changes, ch) },
				}})
				wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 3})
				require.NoError(t, err)
				w.append(wr, 2)
				bad := w.ensemble(wr.ID())[1]
				bad.Forget()
				bad.SetHook(func(fakebookie.Request) fakebookie.Verdict { return v })
				w.append(wr, 3)
				synctest.Wait()
				require.Len(t, bad.Seen(), 1, "no retry at the bookie that failed")
				require.Len(t, changes, 1)
				require.Equal(t, bk.EntryID(2), changes[0].First)
				require.Equal(t, []bk.BookieID{bad.ID}, changes[0].From)
				require.NotNil(t, w.Bookie(changes[0].To[0]).Entry(wr.ID(), 2), "rule 18: the pending entry was sent again")
				require.Nil(t, w.Bookie(changes[0].To[0]).Entry(wr.ID(), 1), "rule 19: confirmed ones were not")
				require.NoError(t, wr.Close(w.ctx))
				w.readAll(w.open(w.c, wr.ID(), ledger.NoRecovery), 4)
			})
		})
	}
}

func TestRule11FailedAddMayStillBecomePartOfTheLedger(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 2)
		for i, b := range w.Bookies {
			b.SetHook(func(fakebookie.Request) fakebookie.Verdict {
				if i < 2 { // one missing answer proves nothing: W - A + 1 would
					return fakebookie.Lose()
				}
				return fakebookie.Silent()
			})
		}
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		_, err := wr.Append(ctx, payload(2))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "outcome unknown")
		require.NoError(t, wr.Abort())
		for _, b := range w.Bookies {
			b.SetHook(nil)
		}
		w.readAll(w.open(w.c, wr.ID(), ledger.Recover), 2)
	})
}

func TestRule12DeferredSyncMovesLACByForceAlone(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2, ledger.WithDeferredSync())
		w.append(wr, 5)
		require.Equal(t, bk.InvalidEntryID, wr.LAC())
		require.NoError(t, wr.Force(w.ctx))
		require.Equal(t, bk.EntryID(4), wr.LAC())

		w.append(wr, 1)
		bad := w.ensemble(wr.ID())[0]
		bad.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Op == wire.OpForce {
				return fakebookie.Refuse(bk.StatusIO)
			}
			return fakebookie.Pass()
		})
		require.ErrorIs(t, wr.Force(w.ctx), bk.ErrBookieIO, "one failure fails the force")
		_, err := wr.Append(w.ctx, nil)
		require.ErrorIs(t, err, bk.ErrBookieIO, "and ends the ledger")
		synctest.Wait()
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Len(t, m.Segments, 1, "no ensemble change")
		require.Equal(t, bk.EntryID(4), m.LastEntry)
	})
}

func TestRule15NoSubstitute(t *testing.T) {
	run := func(t *testing.T, strict bool) {
		inWorld(t, 3, ledger.Options{FailWhenShort: strict}, func(w *world) {
			wr := w.create(3, 3, 2)
			w.append(wr, 3)
			w.SetDown(w.Bookies[1].ID, true)
			if strict {
				// The failure may be found at once, or at the next add (rule 8).
				last, err := bk.EntryID(2), error(nil)
				for err == nil {
					synctest.Wait()
					var e bk.EntryID
					if e, err = wr.Append(w.ctx, payload(last+1)); err == nil {
						last = e
					}
				}
				require.LessOrEqual(t, last, bk.EntryID(3))
				require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
				synctest.Wait()
				m, merr := w.c.Metadata(w.ctx, wr.ID())
				require.NoError(t, merr)
				require.Equal(t, layout.StateClosed, m.State)
				require.Equal(t, last, m.LastEntry)
				return
			}
			w.append(wr, 11)
			require.NoError(t, w.Add(w.ctx)) // a fourth bookie comes
			synctest.Wait()
			w.append(wr, 1)
			ids := fmt.Sprint(w.ensemble(wr.ID()))
			require.NotContains(t, ids, string(w.Bookies[1].ID), "replaced as soon as another could be had")
			w.SetDown(w.Bookies[0].ID, true)
			require.NoError(t, wr.Close(w.ctx))
			w.readAll(w.open(w.c, wr.ID(), ledger.NoRecovery), 14)
		})
	}
	t.Run("strict", func(t *testing.T) { run(t, true) })
	t.Run("goes on", func(t *testing.T) { run(t, false) })
}

func TestBytesInFlightAreBounded(t *testing.T) {
	inWorld(t, 3, ledger.Options{BytesInFlight: 1000}, func(w *world) {
		wr := w.create(3, 3, 2)
		gate := make(chan struct{})
		for _, b := range w.Bookies {
			b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Hold(gate) })
		}
		big := make([]byte, 400)
		nop := func(bk.EntryID, error) {}
		require.NoError(t, wr.TryGo(big, nop))
		require.NoError(t, wr.TryGo(big, nop))
		require.ErrorIs(t, wr.TryGo(big, nop), bk.ErrBufferFull)

		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		var blockedErr error
		wr.Go(ctx, big, func(_ bk.EntryID, err error) { blockedErr = err })
		require.ErrorIs(t, blockedErr, context.DeadlineExceeded)

		var wg sync.WaitGroup
		for range 20 {
			wg.Add(1)
			go wr.Go(w.ctx, big, func(_ bk.EntryID, err error) {
				if err != nil {
					t.Error(err)
				}
				wg.Done()
			})
		}
		synctest.Wait()
		require.Equal(t, bk.EntryID(1), wr.LastPushed(), "the others wait")
		close(gate)
		wg.Wait()
		require.Equal(t, bk.EntryID(21), wr.LAC())

		_, err := wr.Append(w.ctx, make([]byte, ledger.MaxPayload(bk.DigestCRC32C)+1))
		require.ErrorIs(t, err, bk.ErrPayloadTooLong)
		_, err = wr.Append(w.ctx, make([]byte, ledger.MaxPayload(bk.DigestCRC32C)))
		require.NoError(t, err, "an entry over the limit of bytes in flight goes alone")
	})
}

func TestAbortFailsPendingBeforeItReturns(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		for _, b := range w.Bookies {
			b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		}
		var errs []error
		for range 10 {
			wr.Go(w.ctx, nil, func(_ bk.EntryID, err error) { errs = append(errs, err) })
		}
		require.NoError(t, wr.Abort())
		require.Len(t, errs, 10)
		require.ErrorIs(t, errors.Join(errs...), bk.ErrClosed)
		require.ErrorIs(t, wr.Err(), bk.ErrClosed)
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Equal(t, layout.StateOpen, m.State)
	})
}
