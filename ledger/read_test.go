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
)

// closedLedger writes n entries and closes.
func (w *world) closedLedger(e, qw, qa, n int) bk.LedgerID {
	wr := w.create(e, qw, qa)
	w.append(wr, n)
	synctest.Wait() // the last copies too
	require.NoError(w, wr.Close(w.ctx))
	return wr.ID()
}

func TestRule25ClosedLedgerAsksNoBookie(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 3, 2, 5)
		for _, b := range w.Bookies {
			b.Forget()
			b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		}
		r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
		require.Equal(t, bk.EntryID(4), r.LAC())
		for _, mode := range []ledger.OpenMode{ledger.NoRecovery, ledger.Recover} {
			w.open(w.c, id, mode)
		}
		for _, b := range w.Bookies {
			require.Empty(t, b.Seen())
		}
	})
}

func TestRule26OpenLedgerTellsLACAndItsCloseIsSeen(t *testing.T) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 5)
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
		require.False(t, r.Closed())
		require.Equal(t, bk.EntryID(3), r.LAC(), "the LAC that the last entry carries")
		require.NoError(t, wr.Close(w.ctx))
		lac, err := r.WaitLAC(w.ctx, 3)
		require.NoError(t, err)
		require.Equal(t, bk.EntryID(4), lac)
		require.True(t, r.Closed())
		require.Equal(t, int64(35), r.Length())
		_, err = r.WaitLAC(w.ctx, 4)
		require.ErrorIs(t, err, bk.ErrLedgerClosed)
		_, err = r.ReadNext(w.ctx, 4)
		require.ErrorIs(t, err, bk.ErrLedgerClosed)
	})
}

func TestRule27LACOnlyMovesUp(t *testing.T) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		r := w.open(w.c, wr.ID(), ledger.NoRecovery)
		require.Equal(t, bk.InvalidEntryID, r.LAC())
		before := r.LAC()
		for range 10 {
			w.append(wr, 2)
			lac, err := r.WaitLAC(w.ctx, before)
			require.NoError(t, err)
			require.Greater(t, lac, before)
			require.LessOrEqual(t, lac, wr.LAC())
			require.GreaterOrEqual(t, r.LAC(), lac)
			before = lac
		}
	})
}

func TestRule28ReadPastLACFailsWithoutTraffic(t *testing.T) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		r := w.open(w.c, wr.ID(), ledger.NoRecovery)
		synctest.Wait()
		for _, b := range w.Bookies {
			b.Forget()
		}
		_, err := r.Read(w.ctx, 2)
		require.ErrorIs(t, err, bk.ErrReadPastLAC)
		for _, err := range r.Entries(w.ctx, 0, 2) {
			require.ErrorIs(t, err, bk.ErrReadPastLAC)
		}
		_, err = r.Read(w.ctx, -1)
		require.ErrorIs(t, err, bk.ErrReadPastLAC)
		for _, b := range w.Bookies {
			require.Empty(t, b.Seen())
		}
	})
}

func TestRule29LongPollGoesOverTheEnsemble(t *testing.T) {
	inWorld(t, 5, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(5, 2, 2) // an entry is at two of five bookies only
		w.append(wr, 1)
		r := w.open(w.c, wr.ID(), ledger.NoRecovery)
		next := bk.InvalidEntryID
		for i := range 40 {
			if i%2 == 0 {
				time.AfterFunc(time.Minute, func() {
					wr.Go(w.ctx, payload(wr.LastPushed()+1), func(bk.EntryID, error) {})
				})
			} else {
				synctest.Wait() // the entry before is confirmed: this one says so
				w.append(wr, 1)
			}
			ent, err := r.ReadNext(w.ctx, next)
			require.NoError(t, err)
			require.Equal(t, next+1, ent.ID)
			require.Equal(t, string(payload(ent.ID)), string(ent.Payload))
			next = ent.ID
		}
	})
}

func TestRule29TailSurvivesEnsembleChanges(t *testing.T) {
	inWorld(t, 8, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
		got := make(chan error, 1)
		go func() {
			for e := bk.InvalidEntryID; e < 59; e++ {
				ent, err := r.ReadNext(w.ctx, e)
				if err != nil || string(ent.Payload) != string(payload(e+1)) {
					got <- err
					return
				}
			}
			got <- nil
		}()
		for i := range 6 {
			w.append(wr, 10)
			if i == 0 || i == 2 { // position 1 keeps everything
				w.SetDown(w.ensemble(wr.ID())[i%3].ID, true)
			}
		}
		require.NoError(t, <-got)
	})
}

// R08: the last entry of an idle ledger is visible within a second, to a reader
// that was there before and to one that comes later.
func TestR08Rule13LastEntryOfAnIdleLedgerIsVisible(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		r := w.open(w.c, wr.ID(), ledger.NoRecovery)
		seen := make(chan bk.Entry)
		go func() {
			for e := bk.InvalidEntryID; ; {
				ent, err := r.ReadNext(w.ctx, e)
				if err != nil {
					return
				}
				e = ent.ID
				seen <- ent
			}
		}()
		for e := range bk.EntryID(5) {
			w.append(wr, 1)
			if e < 4 {
				<-seen
			}
		}
		start := time.Now()
		require.Equal(t, bk.EntryID(4), (<-seen).ID)
		require.Less(t, time.Since(start), time.Second)
		select {
		case ent := <-seen:
			t.Errorf("entry %d out of nowhere", ent.ID)
		case <-time.After(time.Minute):
		}
		late := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
		require.Equal(t, bk.EntryID(4), late.LAC())
		require.Equal(t, bk.EntryID(4), wr.LastPushed(), "nothing was written for it")
		for _, b := range w.Bookies {
			n := 0
			for _, q := range b.Seen() {
				if q.Op == wire.OpWriteLAC {
					n++
				}
			}
			require.LessOrEqual(t, n, 5, "told once, not for ever")
		}
	})
}

// R07: a ledger that was fenced and never closed does not make its tailing
// readers spin.
func TestR07TailOfAFencedUnclosedLedgerDoesNotSpin(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		r := w.open(w.c, wr.ID(), ledger.NoRecovery)
		_, err := r.WaitLAC(w.ctx, 1)
		require.NoError(t, err)
		require.NoError(t, wr.Abort())
		w.update(wr.ID(), func(m *layout.LedgerMetadata) { m.State = layout.StateInRecovery }) // its recoverer died
		synctest.Wait()
		for _, b := range w.Bookies {
			b.Forget()
		}
		got := make(chan error, 1)
		go func() {
			_, err := r.WaitLAC(w.ctx, 2)
			got <- err
		}()
		<-time.After(time.Minute)
		n := 0
		for _, b := range w.Bookies {
			n += len(b.Seen())
		}
		require.Less(t, n, 120, "two requests a second")
		third := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		require.Equal(t, bk.EntryID(2), third.LAC())
		require.ErrorIs(t, <-got, bk.ErrLedgerClosed, "the reader sees the end")
		w.readAll(r, 2)
	})
}

func TestRule41And42AnyGoodCopyWillDo(t *testing.T) {
	verdicts := map[string]fakebookie.Verdict{
		"corrupt": fakebookie.Corrupt(), "silent": fakebookie.Silent(), "missing": fakebookie.Refuse(bk.StatusNoEntry),
		"io": fakebookie.Refuse(bk.StatusIO), "limbo": fakebookie.Refuse(bk.StatusUnknownLedgerState),
		"drop": fakebookie.Drop(), "unauthorized": fakebookie.Refuse(bk.StatusUnauthorized),
	}
	for name, v := range verdicts {
		for _, q := range []bk.Quorum{{Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 4, Write: 3, Ack: 2}} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, 4, ledger.Options{}, func(w *world) {
					id := w.closedLedger(q.Ensemble, q.Write, q.Ack, 200)
					for _, b := range w.ensemble(id)[:2] {
						b.SetHook(func(r fakebookie.Request) fakebookie.Verdict { return v })
					}
					r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
					w.readAll(r, 199)
					for e := bk.EntryID(0); e < 200; e += 40 {
						ent, err := r.Read(w.ctx, e)
						require.NoError(t, err)
						require.Equal(t, payload(e), ent.Payload)
					}
				})
			})
		}
	}
}

func TestRule41SpeculatesWhenAReplicaIsSilent(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 3, 2, 1)
		var silent []bk.BookieID
		c := w.client(ledger.Options{Events: ledger.Events{
			SpeculativeRead: func(_ bk.LedgerID, _ bk.EntryID, b bk.BookieID) { silent = append(silent, b) },
		}})
		first := w.ensemble(id)[0]
		first.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		r := w.open(c, id, ledger.NoRecovery)
		start := time.Now()
		_, err := r.Read(w.ctx, 0)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(start).Round(time.Second))
		require.Equal(t, []bk.BookieID{first.ID}, silent)

		first.Forget()
		start = time.Now()
		_, err = r.Read(w.ctx, 0)
		require.NoError(t, err)
		require.Zero(t, time.Since(start), "the silent one is asked last now")
		require.Empty(t, first.Seen())
	})
}

func TestRule43MostTellingError(t *testing.T) {
	io, missing, silent := fakebookie.Refuse(bk.StatusIO), fakebookie.Refuse(bk.StatusNoEntry), fakebookie.Silent()
	for name, test := range map[string]struct {
		a, b fakebookie.Verdict
		want error
	}{
		"missing io":      {missing, io, bk.ErrBookieIO},
		"missing corrupt": {missing, fakebookie.Corrupt(), bk.ErrCorrupt},
		"corrupt missing": {fakebookie.Corrupt(), missing, bk.ErrCorrupt},
		"silent missing":  {silent, missing, bk.ErrTimeout},
		"missing missing": {missing, missing, bk.ErrNoSuchEntry},
		"drop io":         {fakebookie.Drop(), io, bk.ErrBookieIO},
		"limbo missing":   {fakebookie.Refuse(bk.StatusUnknownLedgerState), missing, bk.ErrBookieIO}, // what version 2 makes of it
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, ledger.Options{}, func(w *world) {
				id := w.closedLedger(2, 2, 1, 1)
				ens := w.ensemble(id)
				ens[0].SetHook(func(fakebookie.Request) fakebookie.Verdict { return test.a })
				ens[1].SetHook(func(fakebookie.Request) fakebookie.Verdict { return test.b })
				_, err := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery).Read(w.ctx, 0)
				require.ErrorIs(t, err, test.want)
				if test.want != bk.ErrNoSuchEntry {
					require.NotErrorIs(t, err, bk.ErrNoSuchEntry)
				}
				var facts *bk.QuorumError
				require.ErrorAs(t, err, &facts)
				require.Equal(t, bk.EntryID(0), facts.Entry)
			})
		})
	}
}

func TestRule45BatchReadsAreContinuedAndFallBack(t *testing.T) {
	t.Run("short batches", func(t *testing.T) {
		inWorld(t, 3, ledger.Options{}, func(w *world) {
			id := w.closedLedger(3, 3, 2, 300)
			for i, b := range w.Bookies {
				for e := bk.EntryID(i); e < 300; e += 3 {
					b.Remove(id, e) // every batch stops after two entries at most
				}
			}
			w.readAll(w.open(w.c, id, ledger.NoRecovery), 299)
		})
	})
	t.Run("not supported", func(t *testing.T) {
		inWorld(t, 3, ledger.Options{}, func(w *world) {
			id := w.closedLedger(3, 3, 2, 300)
			batches := 0
			for _, b := range w.Bookies {
				b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
					if r.Op == wire.OpBatchRead {
						batches++
						return fakebookie.Drop()
					}
					return fakebookie.Pass()
				})
			}
			w.readAll(w.open(w.client(ledger.Options{}), id, ledger.NoRecovery), 299)
			require.LessOrEqual(t, batches, 3*8)
		})
	})
	t.Run("never with striping", func(t *testing.T) {
		inWorld(t, 4, ledger.Options{}, func(w *world) {
			id := w.closedLedger(4, 3, 2, 50)
			w.readAll(w.open(w.c, id, ledger.NoRecovery), 49)
			for _, b := range w.Bookies {
				for _, q := range b.Seen() {
					require.NotEqual(t, wire.OpBatchRead, q.Op)
				}
			}
		})
	})
}

func TestRule46EntryBelowLACMayBeMissingAtOneBookie(t *testing.T) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 5)
		synctest.Wait()
		w.ensemble(wr.ID())[0].Remove(wr.ID(), 0)
		r := w.open(w.c, wr.ID(), ledger.NoRecovery)
		w.readAll(r, 3)
	})
}

func TestReadsObeyTheirContext(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 3, 2, 5)
		wr := w.create(3, 3, 2)
		open := w.open(w.c, wr.ID(), ledger.NoRecovery)
		for _, b := range w.Bookies {
			b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		}
		r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
		for _, op := range []struct {
			name string
			f    func(ctx context.Context) error
		}{
			{"read", func(ctx context.Context) error { _, err := r.Read(ctx, 1); return err }},
			{"entries", func(ctx context.Context) error {
				for _, err := range r.Entries(ctx, 0, 4) {
					return err
				}
				return nil
			}},
			{"wait", func(ctx context.Context) error { _, err := open.WaitLAC(ctx, 0); return err }},
			{"read next", func(ctx context.Context) error { _, err := open.ReadNext(ctx, 0); return err }},
			{"append", func(ctx context.Context) error { _, err := wr.Append(ctx, nil); return err }},
			{"close", func(ctx context.Context) error { return wr.Close(ctx) }},
			{"recover", func(ctx context.Context) error { _, err := w.c.Open(ctx, wr.ID(), ledger.Recover); return err }},
		} {
			ctx, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
			start := time.Now()
			require.ErrorIs(t, op.f(ctx), context.DeadlineExceeded, op.name)
			require.Equal(t, 300*time.Millisecond, time.Since(start), op.name)
			cancel()
		}
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.NotEqual(t, layout.StateClosed, m.State)
	})
}
