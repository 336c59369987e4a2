package ledger_test

import (
	"context"
	"net"
	"regexp"
	"slices"
	"strconv"
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
	"github.com/loglode/loglode/metadata/storetest"
)

// Every rule of creating, adding, changing ensembles, closing and deleting
// (1-24), and of metadata and connections (47-53), has a test here that names it
// and runs the client against bookies or metadata that break a wrong one.
func TestWriterRulesHaveTheirTests(t *testing.T) {
	rules := map[int]bool{}
	for _, name := range testNames(t, "*_test.go") {
		for _, m := range regexp.MustCompile(`(?:Rule|And)(\d+)`).FindAllStringSubmatch(name, -1) {
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			rules[n] = true
		}
	}
	for n := 1; n <= 53; n++ {
		if n <= 24 || n >= 47 {
			require.True(t, rules[n], "rule %d has no test", n)
		}
	}
}

// Rule 16: the new segment starts behind the LAC, however many entries are
// pending and whichever failed; where one starts already, it is replaced.
func TestRule16_NewSegmentStartsBehindTheLAC(t *testing.T) {
	inWorld(t, 6, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 3)
		w.append(wr, 4)
		ens := w.ensemble(wr.ID())
		for p, b := range ens {
			b.SetHook(func(r fakebookie.Request) fakebookie.Verdict {
				switch {
				case p == 1 && r.Entry == 7:
					return fakebookie.Refuse(bk.StatusIO) // not the first pending one
				case p == 1:
					return fakebookie.Silent()
				}
				return fakebookie.Pass()
			})
		}
		// The substitute fails too, before anything is confirmed.
		var once sync.Once
		for _, b := range w.Bookies {
			if !slices.Contains(ens, b) {
				b.SetHook(func(fakebookie.Request) fakebookie.Verdict {
					v := fakebookie.Pass()
					once.Do(func() { v = fakebookie.Refuse(bk.StatusIO) })
					return v
				})
			}
		}
		for e := bk.EntryID(4); e < 9; e++ {
			wr.Go(w.ctx, payload(e), func(_ bk.EntryID, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		require.NoError(t, wr.Force(w.ctx))
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Len(t, m.Segments, 2, "the second change replaced the segment of the first")
		require.EqualValues(t, 4, m.Segments[1].First)
		for e := bk.EntryID(4); e < 9; e++ {
			for _, b := range w.ensemble(wr.ID()) {
				require.NotNil(t, b.Entry(wr.ID(), e), "entry %d at %s", e, b.ID)
			}
		}
	})
}

// Rule 19: entries up to the LAC stay where they are.
func TestRule19_ConfirmedEntriesAreNotCopied(t *testing.T) {
	inWorld(t, 4, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 10)
		synctest.Wait()
		old := w.ensemble(wr.ID())
		w.SetDown(old[2].ID, true)
		synctest.Wait()
		w.append(wr, 1)
		synctest.Wait()
		w.append(wr, 1) // rule 8, if the failure came late
		synctest.Wait()
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Len(t, m.Segments, 2)
		require.Contains(t, m.Segments[0].Ensemble, old[2].ID, "the old segment names the failed bookie")
		fresh := w.ensemble(wr.ID())[2]
		for e := range m.Segments[1].First {
			require.Nil(t, fresh.Entry(wr.ID(), e))
		}
		require.NotNil(t, fresh.Entry(wr.ID(), 11))
	})
}

// Rule 47: a change of the ensemble is computed again from what another wrote
// meanwhile: its fields stay, and a bookie that re-replication put in an older
// segment stays.
func TestRule47_ChangeIsMadeOnFreshMetadata(t *testing.T) {
	inWorld(t, 6, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		w.SetDown(w.ensemble(wr.ID())[0].ID, true)
		w.append(wr, 3)
		require.Equal(t, 2, w.segments(wr.ID()))
		w.update(wr.ID(), func(m *layout.LedgerMetadata) {
			m.Custom = map[string][]byte{"by": []byte("another")}
			m.Segments[0].Ensemble = slices.Clone(m.Segments[0].Ensemble)
			m.Segments[0].Ensemble[0] = "swapped:1"
		})
		w.SetDown(w.ensemble(wr.ID())[1].ID, true)
		w.append(wr, 3)
		require.NoError(t, wr.Close(w.ctx))
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Len(t, m.Segments, 3)
		require.Equal(t, bk.BookieID("swapped:1"), m.Segments[0].Ensemble[0])
		require.Equal(t, []byte("another"), m.Custom["by"])
		require.EqualValues(t, 8, m.LastEntry)
	})
}

// Rule 48: the outcome of a close is not known: it is read back, whether it was
// applied or not, and the ledger is closed once.
func TestRule48_UnknownOutcomeOfAClose(t *testing.T) {
	for _, fault := range []storetest.Fault{storetest.LoseAnswer, storetest.LoseRequest} {
		for reads := range 3 { // and this many attempts to read back fail
			inWorld(t, 3, ledger.Options{}, func(w *world) {
				c, store := w.onFaulty(ledger.Options{})
				wr, err := c.Create(w.ctx, threeTwo)
				require.NoError(t, err)
				w.append(wr, 3)
				synctest.Wait()
				store.OnCall(func(_ context.Context, call storetest.Call) storetest.Fault {
					switch {
					case call.Method == "Txn" && call.N == 0:
						return fault
					case call.Method == "Get" && call.N < reads:
						return storetest.Refuse
					}
					return storetest.Pass
				})
				require.NoError(t, wr.Close(w.ctx), "%v, %d", fault, reads)
				m, err := w.c.Metadata(w.ctx, wr.ID())
				require.NoError(t, err)
				require.Equal(t, layout.StateClosed, m.State)
				require.EqualValues(t, 2, m.LastEntry)
			})
		}
	}
}

// Rule 49: the state only moves on. A writer that tries to change its ensemble,
// or to close, does not take a ledger back from recovery, nor open it again.
func TestRule49_StateOnlyMovesForward(t *testing.T) {
	for _, state := range []layout.State{layout.StateInRecovery, layout.StateClosed} {
		for name, act := range map[string]func(w *world, wr *ledger.Writer) error{
			"change": func(w *world, wr *ledger.Writer) error {
				w.SetDown(w.ensemble(wr.ID())[0].ID, true)
				_, err := wr.Append(w.ctx, payload(3))
				return err
			},
			"close": func(w *world, wr *ledger.Writer) error { return wr.Close(w.ctx) },
			"fenced": func(w *world, wr *ledger.Writer) error {
				for _, b := range w.Bookies {
					b.SetHook(refuseAdds(bk.StatusFenced))
				}
				_, err := wr.Append(w.ctx, payload(3))
				return err
			},
		} {
			t.Run(state.String()+" "+name, func(t *testing.T) {
				inWorld(t, 5, ledger.Options{}, func(w *world) {
					wr := w.create(3, 3, 3)
					w.append(wr, 3)
					synctest.Wait()
					w.update(wr.ID(), func(m *layout.LedgerMetadata) { m.State, m.LastEntry, m.Length = state, 1, 14 })
					_, v, err := w.Layout.Ledger(w.ctx, wr.ID())
					require.NoError(t, err)
					require.Error(t, act(w, wr))
					synctest.Wait()
					m, now, err := w.Layout.Ledger(w.ctx, wr.ID())
					require.NoError(t, err)
					require.Equal(t, v, now, "nothing was written")
					require.Equal(t, state, m.State)
				})
			})
		}
	}
}

// Rule 50: the metadata name bookies by ids, and an id is looked up at every
// dial. A bookie that moved gets its entries at the new address; one that cannot
// be found is a bookie that failed.
func TestRule50_BookiesAreIDs(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		var mu sync.Mutex
		at := map[string]string{}
		c, err := ledger.New(w.Layout, ledger.Options{Seed: 1, LACDelay: -1, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			if to, ok := at[addr]; ok {
				addr = to
			}
			return w.Dial(ctx, addr)
		}})
		require.NoError(t, err)
		w.clients = append(w.clients, c)
		move := func(id bk.BookieID, to string) {
			mu.Lock()
			at[string(id)] = to
			mu.Unlock()
			w.Cut(id)
			synctest.Wait()
		}
		require.NoError(t, w.Add(w.ctx))
		wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 3})
		require.NoError(t, err)
		w.append(wr, 3)
		synctest.Wait()
		ens := w.ensemble(wr.ID())
		var spare *fakebookie.Bookie
		for _, b := range w.Bookies {
			if !slices.Contains(ens, b) {
				spare = b
			}
		}
		move(ens[0].ID, string(spare.ID))
		w.append(wr, 1)
		require.NotNil(t, spare.Entry(wr.ID(), 3), "at the new address")
		require.Nil(t, ens[0].Entry(wr.ID(), 3))
		require.Equal(t, ens, w.ensemble(wr.ID()), "the same id")
		move(ens[1].ID, "nowhere:1")
		w.append(wr, 1)
		require.NotContains(t, w.ensemble(wr.ID()), ens[1])
	})
}

// Rule 51: a connection that is lost fails what was outstanding on it at once,
// and nothing is sent to that bookie again: the ledger changes its ensemble.
func TestRule51_LostConnectionFailsItsAddsAtOnce(t *testing.T) {
	inWorld(t, 4, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 3)
		w.append(wr, 2)
		bad := w.ensemble(wr.ID())[2]
		bad.SetHook(func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() })
		done := make(chan error, 5)
		for e := bk.EntryID(2); e < 7; e++ {
			wr.Go(w.ctx, payload(e), func(_ bk.EntryID, err error) { done <- err })
		}
		synctest.Wait()
		require.Empty(t, done)
		bad.Forget()
		bad.SetHook(nil)
		start := time.Now()
		w.Cut(bad.ID)
		for range 5 {
			require.NoError(t, <-done)
		}
		require.Less(t, time.Since(start), time.Second, "long before any timeout")
		require.Empty(t, bad.Seen(), "nothing is sent again")
		require.NotContains(t, w.ensemble(wr.ID()), bad)
	})
}

// Rule 52: ensembles and substitutes come from the writable bookies; a read-only
// one still serves its ledgers' fences, reads and write-backs.
func TestRule52_ReadOnlyBookiesAreNotChosen(t *testing.T) {
	inWorld(t, 4, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 5)
		old := w.ensemble(wr.ID())
		require.NoError(t, w.SetReadOnly(w.ctx, old[0].ID))
		old[0].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Op == wire.OpAdd && !r.Recovery {
				return fakebookie.Refuse(bk.StatusReadOnly)
			}
			return fakebookie.Pass()
		})
		for range 20 {
			other := w.create(3, 3, 2)
			require.NotContains(t, w.ensemble(other.ID()), old[0])
		}
		require.NoError(t, wr.Abort())
		w.readAll(w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover), 4)
		require.True(t, old[0].Fenced(wr.ID()))
	})
}

// Rule 53: what happens without options, by the clock.
func TestRule53_Defaults(t *testing.T) {
	silent := func(fakebookie.Request) fakebookie.Verdict { return fakebookie.Silent() }
	took := func(f func()) time.Duration {
		start := time.Now()
		f()
		return time.Since(start)
	}
	t.Run("add", func(t *testing.T) {
		inWorld(t, 4, ledger.Options{LACDelay: -1}, func(w *world) {
			wr := w.create(3, 3, 3)
			w.append(wr, 1)
			w.ensemble(wr.ID())[0].SetHook(silent)
			d := took(func() { w.append(wr, 1) })
			require.InDelta(t, 5, d.Seconds(), 0.5, "an add without an answer")
		})
	})
	t.Run("connect", func(t *testing.T) {
		inWorld(t, 4, ledger.Options{}, func(w *world) {
			// Requests end by their own timeouts: only a dial without any shows.
			dials := make(chan time.Duration, 100)
			c, err := ledger.New(w.Layout, ledger.Options{Seed: 1, Dial: func(ctx context.Context, _ string) (net.Conn, error) {
				d := took(func() { <-ctx.Done() })
				select {
				case dials <- d:
				default:
				}
				return nil, ctx.Err()
			}})
			require.NoError(t, err)
			w.clients = append(w.clients, c)
			_, err = c.Create(w.ctx, bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}) // dials ahead
			require.NoError(t, err)
			require.Equal(t, 10*time.Second, <-dials)
		})
	})
	t.Run("no add-quorum timeout, no limit of changes", func(t *testing.T) {
		inWorld(t, 20, ledger.Options{LACDelay: -1, FailWhenShort: true}, func(w *world) {
			wr := w.create(3, 3, 3)
			w.append(wr, 1)
			for _, b := range w.Bookies[:14] {
				b.SetHook(silent)
			}
			d := took(func() { w.append(wr, 1) })
			require.Greater(t, d, 20*time.Second, "change after change")
			require.NoError(t, wr.Close(w.ctx))
		})
	})
}
