package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/ledger"
)

// onRealBookies runs test with n real bookies over in-memory pipes and
// crashable disks, in virtual time.
func onRealBookies(t *testing.T, n int, seed uint64, test func(ctx context.Context, t *testing.T, b *bookietest.Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		b := bookietest.Start(t, n, bookietest.Options{Bookie: bookietest.Small(), Seed: seed})
		test(ctx, t, b)
	})
}

func clientOf(t *testing.T, b *bookietest.Cluster) *ledger.Client {
	c, err := ledger.New(b.Cluster, ledger.Options{Dial: b.Dial, Seed: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

var threeTwo = bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}

func appendN(ctx context.Context, t *testing.T, w *ledger.Writer, n int) {
	for range n {
		_, err := w.Append(ctx, payload(w.LastPushed()+1))
		require.NoError(t, err)
	}
}

func checkEntries(ctx context.Context, t *testing.T, r *ledger.Reader, last bk.EntryID) {
	next := bk.EntryID(0)
	for ent, err := range r.Entries(ctx, 0, last) {
		require.NoError(t, err)
		require.Equal(t, next, ent.ID)
		require.Equal(t, string(payload(next)), string(ent.Payload))
		next++
	}
	require.Equal(t, last+1, next)
}

func TestRealBookiesWriteTailRead(t *testing.T) {
	for _, q := range []bk.Quorum{threeTwo, {Ensemble: 4, Write: 2, Ack: 2}} {
		onRealBookies(t, 4, 1, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
			c := clientOf(t, b)
			w, err := c.Create(ctx, q)
			require.NoError(t, err)
			r, err := clientOf(t, b).Open(ctx, w.ID(), ledger.NoRecovery)
			require.NoError(t, err)
			tailed := make(chan error, 1)
			go func() {
				for e := bk.InvalidEntryID; e < 499; e++ {
					ent, err := r.ReadNext(ctx, e)
					if err == nil && string(ent.Payload) != string(payload(e+1)) {
						err = fmt.Errorf("entry %d holds %q", e+1, ent.Payload)
					}
					if err != nil {
						tailed <- err
						return
					}
				}
				tailed <- nil
			}()
			appendN(ctx, t, w, 500)
			require.NoError(t, <-tailed)
			require.NoError(t, w.Close(ctx))
			_, err = r.WaitLAC(ctx, 499)
			require.ErrorIs(t, err, bk.ErrLedgerClosed)
			r, err = c.Open(ctx, w.ID(), ledger.NoRecovery)
			require.NoError(t, err)
			checkEntries(ctx, t, r, 499)
		})
	}
}

// R04 with real bookies: one of three is stopped when the ledger is recovered.
func TestR04RealBookies(t *testing.T) {
	for stalled := range 3 {
		onRealBookies(t, 3, uint64(stalled), func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
			w, err := clientOf(t, b).Create(ctx, threeTwo)
			require.NoError(t, err)
			appendN(ctx, t, w, 10)
			b.Stall(stalled, true)
			start := time.Now()
			r, err := clientOf(t, b).Open(ctx, w.ID(), ledger.Recover)
			require.NoError(t, err)
			require.Less(t, time.Since(start), 10*time.Second, "two read timeouts")
			require.Equal(t, bk.EntryID(9), r.LAC())
			checkEntries(ctx, t, r, 9)
			b.Stall(stalled, false)
		})
	}
}

// R06 with real bookies: a crash under 5,000 pipelined adds.
func TestR06RealBookies(t *testing.T) {
	onRealBookies(t, 4, 6, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
		c := clientOf(t, b)
		w, err := c.Create(ctx, threeTwo)
		require.NoError(t, err)
		next := bk.EntryID(0)
		var wg sync.WaitGroup
		for i := range 5000 {
			if i == 2000 {
				m, err := c.Metadata(ctx, w.ID())
				require.NoError(t, err)
				for j := range b.Len() {
					if b.ID(j) == m.LastSegment().Ensemble[1] {
						b.Crash(j)
						break
					}
				}
			}
			wg.Add(1)
			w.Go(ctx, payload(bk.EntryID(i)), func(e bk.EntryID, err error) {
				defer wg.Done()
				if err != nil || e != next {
					t.Errorf("entry %d completed as %d: %v", next, e, err)
				}
				next++
			})
		}
		wg.Wait()
		require.NoError(t, w.Close(ctx))
		r, err := c.Open(ctx, w.ID(), ledger.NoRecovery)
		require.NoError(t, err)
		checkEntries(ctx, t, r, 4999)
	})
}

// Bookies that crashed and are back take the next ledger at its first add: the
// client does not hold the crash against them.
func TestFirstAddAfterBookiesCameBack(t *testing.T) {
	for seed := range uint64(5) {
		onRealBookies(t, 3, seed, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
			c := clientOf(t, b)
			w, err := c.Create(ctx, threeTwo)
			require.NoError(t, err)
			appendN(ctx, t, w, 3)
			b.Crash(0)
			b.Crash(1)
			_, err = w.Append(ctx, payload(3))
			require.Error(t, err, "one of three is not enough")
			b.Restart(0)
			b.Restart(1)
			w, err = c.Create(ctx, threeTwo)
			require.NoError(t, err)
			appendN(ctx, t, w, 10)
			require.NoError(t, w.Close(ctx))
		})
	}
}

// R08 with real bookies: an idle ledger shows its last entry.
func TestR08RealBookies(t *testing.T) {
	onRealBookies(t, 3, 8, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
		w, err := clientOf(t, b).Create(ctx, threeTwo)
		require.NoError(t, err)
		r, err := clientOf(t, b).Open(ctx, w.ID(), ledger.NoRecovery)
		require.NoError(t, err)
		appendN(ctx, t, w, 5)
		start := time.Now()
		for e := bk.InvalidEntryID; e < 4; {
			ent, err := r.ReadNext(ctx, e)
			require.NoError(t, err)
			e = ent.ID
		}
		require.Less(t, time.Since(start), time.Second)
		<-time.After(5 * time.Minute)
		late, err := clientOf(t, b).Open(ctx, w.ID(), ledger.NoRecovery)
		require.NoError(t, err)
		require.Equal(t, bk.EntryID(4), late.LAC())
		_, err = late.Read(ctx, 4)
		require.NoError(t, err)
	})
}

// R02 with real bookies: the fence outlives a crash of every bookie that gave
// it, and the old writer acknowledges nothing after the takeover.
func TestR02FenceOutlivesCrashes(t *testing.T) {
	for seed := range uint64(8) {
		onRealBookies(t, 3, seed, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
			w, err := clientOf(t, b).Create(ctx, threeTwo)
			require.NoError(t, err)
			appendN(ctx, t, w, 5)
			r, err := clientOf(t, b).Open(ctx, w.ID(), ledger.Recover)
			require.NoError(t, err)
			for i := range b.Len() {
				b.Crash(i)
				b.Restart(i)
			}
			_, err = w.Append(ctx, payload(5))
			require.Error(t, err, "seed %d", seed)
			require.Equal(t, bk.EntryID(4), r.LAC())
			checkEntries(ctx, t, r, 4)
		})
	}
}

// Takeovers at random moments, with a bookie that crashes or hangs meanwhile:
// what was acknowledged is in the closed ledger, in order.
func TestR02RandomTakeovers(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Logf("replay: go test ./ledger -run 'TestR02RandomTakeovers/seed=%d$'", seed)
			onRealBookies(t, 4, seed, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
				rng := rand.New(rand.NewPCG(seed, 2))
				w, err := clientOf(t, b).Create(ctx, threeTwo)
				require.NoError(t, err)
				var mu sync.Mutex
				acked := bk.InvalidEntryID
				writer := make(chan struct{})
				go func() {
					defer close(writer)
					for i := range 400 {
						w.Go(ctx, payload(bk.EntryID(i)), func(e bk.EntryID, err error) {
							mu.Lock()
							defer mu.Unlock()
							if err == nil {
								acked = e
							}
						})
						<-time.After(time.Duration(rng.IntN(300)) * time.Microsecond)
					}
				}()
				<-time.After(time.Duration(rand.New(rand.NewPCG(seed, 3)).IntN(60_000)) * time.Microsecond)
				victim := int(seed % 4)
				switch seed % 3 {
				case 0:
					b.Crash(victim)
				case 1:
					b.Stall(victim, true)
				}
				r, err := clientOf(t, b).Open(ctx, w.ID(), ledger.Recover)
				require.NoError(t, err)
				<-writer
				_, err = w.Append(ctx, nil)
				require.Error(t, err, "the old writer is out")
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				require.LessOrEqual(t, acked, r.LAC(), "everything acknowledged is in the ledger")
				checkEntries(ctx, t, r, r.LAC())
				b.Stall(victim, false)
			})
		})
	}
}
