package ledger_test

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
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

func TestRule28_UnconfirmedReadsAreASeparateCall(t *testing.T) {
	for _, q := range []bk.Quorum{{Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 4, Write: 3, Ack: 2}} {
		inWorld(t, 4, ledger.Options{LACDelay: -1}, func(w *world) {
			wr := w.create(q.Ensemble, q.Write, q.Ack)
			w.append(wr, 5) // the entries tell LAC 3
			synctest.Wait()
			r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
			require.Equal(t, bk.EntryID(3), r.LAC())
			_, err := r.Read(w.ctx, 4)
			require.ErrorIs(t, err, bk.ErrReadPastLAC)
			ent, err := r.ReadUnconfirmed(w.ctx, 4)
			require.NoError(t, err)
			require.Equal(t, payload(4), ent.Payload)
			require.Equal(t, bk.EntryID(3), r.LAC(), "to be there is not to be confirmed")
			_, err = r.ReadUnconfirmed(w.ctx, 5)
			require.ErrorIs(t, err, bk.ErrNoSuchEntry)
			_, err = r.ReadUnconfirmed(w.ctx, -1)
			require.ErrorIs(t, err, bk.ErrReadPastLAC)

			w.append(wr, 2)
			ent, err = r.ReadUnconfirmed(w.ctx, 6)
			require.NoError(t, err)
			require.Equal(t, bk.EntryID(5), ent.LAC)
			require.Equal(t, bk.EntryID(5), r.LAC(), "what a verified entry tells is known")

			next := bk.EntryID(0)
			for ent, err := range r.EntriesUnconfirmed(w.ctx, 0, 1<<40) {
				if err != nil {
					require.ErrorIs(t, err, bk.ErrNoSuchEntry)
					break
				}
				require.Equal(t, next, ent.ID)
				require.Equal(t, string(payload(next)), string(ent.Payload))
				next++
			}
			require.Equal(t, bk.EntryID(7), next)

			// Closed without them, the last entries are not the ledger's any more.
			require.NoError(t, wr.Abort())
			w.update(wr.ID(), func(m *layout.LedgerMetadata) {
				m.State, m.LastEntry, m.Length = layout.StateClosed, 5, 42
			})
			synctest.Wait()
			require.True(t, r.Closed())
			_, err = r.ReadUnconfirmed(w.ctx, 6)
			require.ErrorIs(t, err, bk.ErrReadPastLAC)
			for _, err := range r.EntriesUnconfirmed(w.ctx, 0, 6) {
				require.ErrorIs(t, err, bk.ErrReadPastLAC)
			}
		})
	}
}

// A bookie that holds a poll does not hold up the news that another has: the
// next one is asked after a while, and "no news" from some is not believed.
func TestRule29_NewsAtTheBookieAskedLast(t *testing.T) {
	inWorld(t, 5, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(5, 2, 2)
		w.append(wr, 1)
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery)
		ens := w.ensemble(wr.ID())
		for i, b := range ens {
			if i != 3 {
				// These hear nothing of later entries.
				b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
					if r.Op == wire.OpAdd {
						return fakebookie.Silent()
					}
					return fakebookie.Pass()
				})
			}
		}
		time.AfterFunc(time.Second, func() {
			for e := bk.EntryID(1); e < 5; e++ { // entry 3 is at 3 and 4, 4 at 4 and 0
				wr.Go(w.ctx, payload(e), func(bk.EntryID, error) {})
			}
			key := bk.MasterKey(nil)
			d, err := bk.NewDigester(bk.DigestCRC32C, nil)
			if err == nil {
				ens[3].PutLAC(wr.ID(), key[:], d.AppendLAC(nil, wr.ID(), 0))
			}
		})
		start := time.Now()
		lac, err := r.WaitLAC(w.ctx, bk.InvalidEntryID)
		require.NoError(t, err)
		require.Equal(t, bk.EntryID(0), lac)
		require.LessOrEqual(t, time.Since(start), 7*time.Second, "one after another every 2 s")
		require.NoError(t, wr.Abort())
	})
}

// An empty answer of fewer than E-Qa+1 bookies ends no round: the others are
// asked in the same one.
func TestRule29_RoundGoesOnAfterEmptyAnswers(t *testing.T) {
	inWorld(t, 5, ledger.Options{LACDelay: -1, LongPollTimeout: time.Second}, func(w *world) {
		wr := w.create(5, 3, 2)
		w.append(wr, 6)
		r := w.open(w.client(ledger.Options{LongPollTimeout: time.Second}), wr.ID(), ledger.NoRecovery)
		lac := r.LAC()
		for _, b := range w.Bookies {
			b.Forget()
		}
		ctx, cancel := context.WithTimeout(w.ctx, 4500*time.Millisecond)
		defer cancel()
		_, err := r.WaitLAC(ctx, lac)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		asked := 0
		for _, b := range w.Bookies {
			if len(b.Seen()) > 0 {
				asked++
			}
		}
		require.GreaterOrEqual(t, asked, 4, "E-Qa+1 of 5")
	})
}

func TestRule40_SegmentAndReplicaOfAnEntry(t *testing.T) {
	inWorld(t, 6, ledger.Options{}, func(w *world) {
		wr := w.create(3, 2, 2)
		w.append(wr, 6)
		synctest.Wait()
		gone := w.ensemble(wr.ID())[0]
		w.SetDown(gone.ID, true)
		w.append(wr, 6)
		synctest.Wait()
		require.NoError(t, wr.Close(w.ctx))
		w.SetDown(gone.ID, false)
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Greater(t, len(m.Segments), 1)
		for e := range bk.EntryID(12) {
			for _, b := range w.Bookies {
				b.Forget()
			}
			ent, err := w.open(w.client(ledger.Options{}), wr.ID(), ledger.NoRecovery).Read(w.ctx, e)
			require.NoError(t, err)
			require.Equal(t, payload(e), ent.Payload)
			want := m.SegmentOf(e).Ensemble[int(e)%3]
			for _, b := range w.Bookies {
				if b.ID == want {
					require.Len(t, b.Seen(), 1)
				} else {
					require.Empty(t, b.Seen(), "entry %d is asked of %s, not of %s", e, b.ID, want)
				}
			}
		}
	})
}

// A bookie that lost its disk and knows it does not say "no such entry", in
// neither version.
func TestRule44_UnknownLedgerStateIsNotMissing(t *testing.T) {
	limbo := fakebookie.Forge(withCode(107))
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 3, 2, 1)
		ens := w.ensemble(id)
		for _, b := range ens[1:] {
			b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Refuse(bk.StatusNoEntry) })
		}
		ens[0].SetHook(func(fakebookie.Request) fakebookie.Verdict { return limbo })
		r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
		_, err := r.Read(w.ctx, 0)
		require.ErrorIs(t, err, bk.ErrUnknownLedgerState)
		require.NotErrorIs(t, err, bk.ErrNoSuchEntry)
		for _, err := range r.Entries(w.ctx, 0, 0) {
			require.ErrorIs(t, err, bk.ErrUnknownLedgerState)
		}
	})
	// In a recovery it is not one of the Qw-Qa+1 that end the ledger.
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		synctest.Wait()
		require.NoError(t, wr.Abort())
		ens := w.ensemble(wr.ID())
		for i, b := range ens {
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				switch {
				case r.Op != wire.OpRead || r.Entry != 2 || i == 2:
					return fakebookie.Pass()
				case i == 1:
					return fakebookie.Refuse(bk.StatusNoEntry)
				}
				return fakebookie.Refuse(bk.StatusUnknownLedgerState)
			})
		}
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		require.Equal(t, bk.EntryID(2), r.LAC())
	})
}

// Batches that are not what they should be: nothing of them is taken.
func TestRule45_BatchIsVerifiedBeforeAnyOfItIsTaken(t *testing.T) {
	for name, lie := range map[string]func(b *fakebookie.Bookie, l bk.LedgerID, first bk.EntryID) [][]byte{
		"bad last entry": func(b *fakebookie.Bookie, l bk.LedgerID, first bk.EntryID) [][]byte {
			bad := b.Entry(l, first+1)
			bad[len(bad)-1] ^= 1
			return [][]byte{b.Entry(l, first), bad}
		},
		"a gap": func(b *fakebookie.Bookie, l bk.LedgerID, first bk.EntryID) [][]byte {
			return [][]byte{b.Entry(l, first), b.Entry(l, first+2)}
		},
		"another first entry": func(b *fakebookie.Bookie, l bk.LedgerID, first bk.EntryID) [][]byte {
			return [][]byte{b.Entry(l, first+1), b.Entry(l, first+2)}
		},
		"twice the same": func(b *fakebookie.Bookie, l bk.LedgerID, first bk.EntryID) [][]byte {
			return [][]byte{b.Entry(l, first), b.Entry(l, first)}
		},
		"nothing": func(*fakebookie.Bookie, bk.LedgerID, bk.EntryID) [][]byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				id := w.closedLedger(3, 3, 2, 90)
				for _, b := range w.ensemble(id)[:2] {
					b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
						if r.Op != wire.OpBatchRead || r.Entry+2 > 89 {
							return fakebookie.Pass()
						}
						return fakebookie.Forge(func(f []byte) []byte {
							f = f[:atBody+8]
							for _, body := range lie(b, r.Ledger, r.Entry) {
								f = append(wire.AppendBatchEntry(f, len(body)), body...)
							}
							return withLength(f)
						})
					})
				}
				r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
				w.readAll(r, 89)
			})
		})
	}
}

// More than was asked for is no harm.
func TestRule45_LongerBatchIsCut(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 3, 2, 90)
		for _, b := range w.Bookies {
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				if r.Op != wire.OpBatchRead {
					return fakebookie.Pass()
				}
				return fakebookie.Forge(func(f []byte) []byte {
					f = f[:atBody+8]
					for e := r.Entry; e < 90; e++ {
						body := b.Entry(id, e)
						f = append(wire.AppendBatchEntry(f, len(body)), body...)
					}
					return withLength(f)
				})
			})
		}
		r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
		next := bk.EntryID(3)
		for ent, err := range r.Entries(w.ctx, 3, 70) {
			require.NoError(t, err)
			require.Equal(t, next, ent.ID)
			next++
		}
		require.Equal(t, bk.EntryID(71), next)
	})
}

// A bookie that says it does not know the operation is asked for single entries,
// and where none knows it they are read ahead.
func TestRule45_FallBackWithoutAClosedConnection(t *testing.T) {
	for _, status := range []bk.Status{bk.StatusBadRequest, bk.StatusBadVersion} {
		inWorld(t, 3, ledger.Options{}, func(w *world) {
			id := w.closedLedger(3, 3, 2, 300)
			var batches atomic.Int32
			for _, b := range w.Bookies {
				b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
					if r.Op == wire.OpBatchRead {
						batches.Add(1)
						return fakebookie.Refuse(status)
					}
					return fakebookie.Late(10 * time.Millisecond)
				})
			}
			r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
			w.readAll(r, 299)
			start := time.Now()
			w.readAll(r, 299)
			require.Less(t, time.Since(start), 100*time.Millisecond, "300 reads of 10 ms one after another take 3 s")
			require.LessOrEqual(t, batches.Load(), int32(3*8))
		})
	}
}

// Where some bookies know batch reads, those are asked.
func TestRule45_MixedEnsemble(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		id := w.closedLedger(3, 3, 2, 300)
		for _, b := range w.Bookies[1:] {
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				if r.Op == wire.OpBatchRead {
					return fakebookie.Drop()
				}
				return fakebookie.Pass()
			})
		}
		r := w.open(w.client(ledger.Options{}), id, ledger.NoRecovery)
		w.readAll(r, 299)
		for _, b := range w.Bookies {
			b.Forget()
		}
		for range 5 {
			w.readAll(r, 299)
		}
		for _, b := range w.Bookies[1:] {
			require.LessOrEqual(t, len(b.Seen()), 2, "probes")
		}
	})
}

// I7: every call that reads ends by itself, whatever bookies do.
func TestI7_EveryReadCallEnds(t *testing.T) {
	faults := map[string]func(w *world){
		"silence": func(w *world) {
			for _, b := range w.Bookies {
				b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
			}
		},
		"closed connections": func(w *world) {
			for _, b := range w.Bookies {
				b.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Drop() })
			}
		},
		"refused connections": func(w *world) {
			for _, b := range w.Bookies {
				w.SetDown(b.ID, true)
			}
		},
		"dials that hang": nil,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				closed, open := w.closedLedger(3, 3, 2, 5), w.create(3, 3, 2)
				w.append(open, 3)
				opts := ledger.Options{}
				if fault == nil {
					opts.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
						<-ctx.Done()
						return nil, context.Cause(ctx)
					}
				} else {
					fault(w)
				}
				c := w.dialing(opts)
				r := w.open(c, closed, ledger.NoRecovery)
				for _, call := range []struct {
					name string
					f    func() error
				}{
					{"read", func() error { _, err := r.Read(w.ctx, 1); return err }},
					{"entries", func() error {
						for _, err := range r.Entries(w.ctx, 0, 4) {
							return err
						}
						return nil
					}},
					{"open", func() error { _, err := c.Open(w.ctx, open.ID(), ledger.NoRecovery); return err }},
					{"recover", func() error { _, err := c.Open(w.ctx, open.ID(), ledger.Recover); return err }},
				} {
					start := time.Now()
					require.Error(t, call.f(), call.name)
					require.Less(t, time.Since(start), 15*time.Second, call.name)
				}
			})
		})
	}
}

// dialing is client for options with a Dial of their own.
func (w *world) dialing(opts ledger.Options) *ledger.Client {
	if opts.Dial == nil {
		return w.client(opts)
	}
	opts.Seed = 1
	c, err := ledger.New(w.Layout, opts)
	require.NoError(w, err)
	w.clients = append(w.clients, c)
	return c
}

// withLength sets the length of a frame whose size changed.
func withLength(f []byte) []byte {
	binary.BigEndian.PutUint32(f, uint32(len(f)-wire.LengthSize))
	return f
}
