package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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
	"github.com/loglode/loglode/metadata/storetest"
)

// R01: a fence that reaches the LAC reads alone leaves a hole. The schedule of
// the case: an add is lost on its way to b1, is on b2 and on its way to b3 when
// the recovery fences b1 and b2 and its fence of b3 is lost. Recovery reads fence
// too: either the entry is in the ledger, or its writer is never told that it is.
func TestR01_RecoveryReadsFence(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		ens := w.ensemble(wr.ID())
		acked := make(chan error, 1)
		late, fenced := make(chan struct{}), make(chan struct{})
		ens[0].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Op == wire.OpAdd && !r.Recovery {
				return fakebookie.Silent() // the copy is lost
			}
			return fakebookie.Pass()
		})
		ens[1].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			switch {
			case r.Op == wire.OpAdd && !r.Recovery:
				return fakebookie.Hold(fenced) // it is stored; the answer comes after the recovery
			case r.Fence && r.Entry == bk.InvalidEntryID:
				return fakebookie.Refuse(bk.StatusNoEntry) // heard before the copy came
			case r.Op == wire.OpRead:
				return fakebookie.Late(time.Second)
			}
			return fakebookie.Pass()
		})
		ens[2].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			switch {
			case r.Op == wire.OpAdd && !r.Recovery:
				<-late // the add itself is late
				return fakebookie.Pass()
			case r.Fence && r.Entry == bk.InvalidEntryID:
				return fakebookie.Silent() // the fence is lost
			}
			return fakebookie.Pass()
		})
		wr.Go(w.ctx, payload(0), func(_ bk.EntryID, err error) { acked <- err })
		synctest.Wait()
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		close(late)
		close(fenced)
		err := <-acked
		if r.LAC() < 0 {
			require.Error(t, err, "acknowledged, and not in the closed ledger")
		}
		synctest.Wait()
		require.True(t, ens[2].Fenced(wr.ID()), "by the recovery read")
		require.NoError(t, wr.Abort())
	})
}

// R03: the end of a ledger whose last ensemble holds nothing is in the ensemble
// before; recovery neither starts over nor reaches below the last segment.
func TestR03_Rule33_LastEnsembleHoldsNothing(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent %v", silent), func(t *testing.T) {
			inWorld(t, 6, ledger.Options{}, func(w *world) {
				id := w.threeSegments()
				last := w.ensemble(id)
				if silent { // the LAC reads time out at first
					for _, b := range last {
						var n atomic.Int32
						b.SetHook(func(fakebookie.Request) fakebookie.Verdict {
							if n.Add(1) == 1 {
								return fakebookie.Silent()
							}
							return fakebookie.Pass()
						})
					}
					_, err := w.c.Open(w.ctx, id, ledger.Recover)
					require.ErrorIs(t, err, bk.ErrRecoveryFailed)
					require.ErrorIs(t, err, bk.ErrTimeout)
				}
				for _, b := range w.Bookies {
					b.Forget()
				}
				r := w.open(w.c, id, ledger.Recover)
				require.Equal(t, bk.EntryID(19), r.LAC())
				require.Equal(t, int64(20), r.Length())
				var firsts []bk.EntryID
				for _, s := range r.Metadata().Segments {
					firsts = append(firsts, s.First)
				}
				require.Equal(t, []bk.EntryID{0, 10, 20}, firsts)
				for _, b := range w.Bookies {
					for _, q := range b.Seen() {
						require.False(t, q.Op == wire.OpAdd, "nothing is to be written back: %+v", q)
						require.True(t, q.Entry >= 19 || q.Entry == bk.InvalidEntryID, "%+v", q)
					}
				}
				n := 0
				for ent, err := range r.Entries(w.ctx, 0, 19) {
					require.NoError(t, err)
					require.Equal(t, bk.EntryID(n), ent.ID)
					n++
				}
				require.Equal(t, 20, n)
			})
		})
	}
}

// threeSegments makes an open ledger with E=Qw=Qa=2: entries 0-9 at b0 and b1,
// 10-19 at b1 and b2, nothing yet at b3 and b4. Each entry is one byte.
func (w *world) threeSegments() bk.LedgerID {
	q := bk.Quorum{Ensemble: 2, Write: 2, Ack: 2}
	m := &layout.LedgerMetadata{
		Quorum: q, State: layout.StateOpen, LastEntry: bk.InvalidEntryID, HasPassword: true, Digest: bk.DigestCRC32C,
	}
	d, err := bk.NewDigester(bk.DigestCRC32C, nil)
	require.NoError(w, err)
	key := bk.MasterKey(nil)
	const id = 5
	for i, at := range [3][2]int{{0, 1}, {1, 2}, {3, 4}} {
		seg := layout.Segment{First: bk.EntryID(10 * i)}
		for _, n := range at {
			seg.Ensemble = append(seg.Ensemble, w.Bookies[n].ID)
			for e := seg.First; i < 2 && e < seg.First+10; e++ {
				w.Bookies[n].Put(id, key[:], d.AppendEntry(nil, id, e, e-1, int64(e)+1, []byte{byte(e)}))
			}
		}
		m.Segments = append(m.Segments, seg)
	}
	_, err = w.Layout.CreateLedger(w.ctx, id, m)
	require.NoError(w, err)
	return id
}

// R05: while the metadata take no ensemble change, no add is acknowledged that
// the stored ensemble does not hold; a second client, which has the stored
// metadata alone, finds all that was.
func TestR05_NoAckOnAnUnpublishedEnsemble(t *testing.T) {
	const seed = 5
	for round := range 20 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Logf("seed %d; go test ./ledger -run %s", seed+round, t.Name())
			rng := rand.New(rand.NewPCG(seed+uint64(round), 0))
			inWorld(t, 7, ledger.Options{}, func(w *world) {
				c, store := w.onFaulty(ledger.Options{MetadataTimeout: 2 * time.Second})
				wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
				require.NoError(t, err)
				w.append(wr, 1+rng.IntN(5))
				ens := w.ensemble(wr.ID())
				store.OnCall(func(ctx context.Context, call storetest.Call) storetest.Fault {
					if call.Method != "Txn" {
						return storetest.Pass
					}
					<-ctx.Done() // a black hole
					return storetest.LoseRequest
				})
				acked := wr.LAC()
				var mu sync.Mutex
				for _, i := range rng.Perm(3) {
					w.SetDown(ens[i].ID, true)
					wr.Go(w.ctx, payload(wr.LastPushed()+1), func(e bk.EntryID, err error) {
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							acked = max(acked, e)
						}
					})
					<-time.After(time.Duration(rng.IntN(1500)) * time.Millisecond)
				}
				<-time.After(10 * time.Second)
				for _, b := range ens {
					w.SetDown(b.ID, false)
				}
				other := w.client(ledger.Options{})
				r, err := other.Open(w.ctx, wr.ID(), ledger.Recover)
				require.NoError(t, err)
				mu.Lock()
				require.GreaterOrEqual(t, r.LAC(), acked)
				mu.Unlock()
				w.readAll(r, r.LAC())
			})
		})
	}
}

// R22: a tailing reader that is cut off from the metadata while all bookies of
// the ledger are replaced reads on within 5 s of the end of that and what one
// poll takes; also when its watch ended, when its signals are lost, and when
// they come late and twice.
func TestR22_WatchIsLostDuringAFullEnsembleSwap(t *testing.T) {
	for _, kind := range []string{"unreachable", "watch dropped", "session expired"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, 6, ledger.Options{}, func(w *world) {
				wr := w.create(3, 3, 2)
				w.append(wr, 5)
				opts := ledger.Options{LongPollTimeout: 2 * time.Second, MetadataTimeout: time.Second}
				c, store := w.onFaulty(opts)
				r := w.open(c, wr.ID(), ledger.NoRecovery)
				got := make(chan bk.EntryID, 1000)
				ended := make(chan error, 1)
				next := func() bk.EntryID {
					select {
					case e := <-got:
						return e
					case err := <-ended:
						require.NoError(t, err, "the reader ended")
						return 0
					}
				}
				go func() {
					for e := bk.InvalidEntryID; ; e++ {
						ent, err := r.ReadNext(w.ctx, e)
						for errors.Is(err, bk.ErrBookieUnavailable) { // all that its metadata name are down
							<-time.After(time.Second)
							ent, err = r.ReadNext(w.ctx, e)
						}
						if err != nil {
							ended <- err
							return
						}
						got <- ent.ID
					}
				}()
				for range 5 { // all that only these bookies have
					next()
				}
				store.OnCall(func(context.Context, storetest.Call) storetest.Fault { return storetest.Refuse })
				switch kind {
				case "watch dropped":
					store.DropWatches()
				case "session expired":
					require.NoError(t, store.ExpireSessions(w.ctx))
					store.DropWatches()
				}
				old := w.ensemble(wr.ID())
				for _, b := range old {
					w.SetDown(b.ID, true)
					w.append(wr, 5)
				}
				w.append(wr, 100)
				for _, b := range old { // they answer again, but get nothing new; some entries are on two of them only
					w.SetDown(b.ID, false)
				}
				<-time.After(30 * time.Second)
				heal := time.Now()
				store.OnCall(nil)
				for e := next(); e < wr.LAC(); e = next() {
				}
				require.Less(t, time.Since(heal), opts.LongPollTimeout+5*time.Second)
				require.NoError(t, wr.Close(w.ctx))
				require.ErrorIs(t, <-ended, bk.ErrLedgerClosed)
			})
		})
	}
}

// An entry behind the first gap was never confirmed: recovery does not look at
// it, however many bookies hold it.
func TestRule39_StopsAtTheFirstGap(t *testing.T) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 3)
		synctest.Wait()
		require.NoError(t, wr.Abort())
		d, err := bk.NewDigester(bk.DigestCRC32C, nil)
		require.NoError(t, err)
		key := bk.MasterKey(nil)
		for _, b := range w.ensemble(wr.ID()) {
			for e := bk.EntryID(4); e < 8; e++ {
				b.Put(wr.ID(), key[:], d.AppendEntry(nil, wr.ID(), e, 1, 1000, nil))
			}
		}
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		require.Equal(t, bk.EntryID(2), r.LAC())
		require.Equal(t, int64(21), r.Length())
		w.readAll(r, 2)
		_, err = r.Read(w.ctx, 4)
		require.ErrorIs(t, err, bk.ErrReadPastLAC)
	})
}

// Rule 52: a bookie that failed is the last choice for a new ensemble for some
// seconds, and a choice all the same.
func TestRule52_QuarantineIsAPreference(t *testing.T) {
	inWorld(t, 6, ledger.Options{}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 1)
		bad := w.ensemble(wr.ID())[0]
		w.SetDown(bad.ID, true)
		w.append(wr, 5)
		synctest.Wait()
		w.SetDown(bad.ID, false)
		chosen := func(q int) (n int) {
			for range 20 {
				m, err := w.c.Metadata(w.ctx, w.create(q, q, q).ID())
				require.NoError(w, err)
				for _, b := range m.LastSegment().Ensemble {
					if b == bad.ID {
						n++
					}
				}
			}
			return n
		}
		require.Zero(t, chosen(3))
		require.Equal(t, 20, chosen(6), "rather that bookie than none")
		<-time.After(6 * time.Second)
		require.Positive(t, chosen(3))
	})
}

// R02: the fence of a recovery read alone keeps the old writer out as well.
func TestR02_FenceOfARecoveryReadAlone(t *testing.T) {
	inWorld(t, 3, ledger.Options{LACDelay: -1}, func(w *world) {
		wr := w.create(3, 3, 2)
		w.append(wr, 5)
		synctest.Wait()
		ens := w.ensemble(wr.ID())
		ens[2].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Fence && r.Entry == bk.InvalidEntryID {
				return fakebookie.Silent()
			}
			return fakebookie.Pass()
		})
		r := w.open(w.client(ledger.Options{}), wr.ID(), ledger.Recover)
		require.Equal(t, bk.EntryID(4), r.LAC())
		synctest.Wait()
		require.True(t, ens[2].Fenced(wr.ID()))
		_, err := wr.Append(w.ctx, nil)
		require.True(t, errors.Is(err, bk.ErrFenced) || errors.Is(err, bk.ErrLedgerClosed), "%v", err)
	})
}
