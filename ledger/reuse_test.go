package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/bookietest"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata/layout"
)

// replaceDisk makes a bookie come back empty at its address, with the consent
// of an operator who deletes its cookie.
func replaceDisk(b *bookietest.Cluster, i int) {
	b.Crash(i)
	b.Wipe(i)
	b.DeleteCookie(i)
	b.Restart(i)
}

// A bookie that lost its disk does not come back under its id by itself.
func TestAddressReuse_EmptyBookieIsRefused(t *testing.T) {
	onRealBookies(t, 3, 1, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
		w, err := clientOf(t, b).Create(ctx, threeTwo)
		require.NoError(t, err)
		appendN(ctx, t, w, 5)
		b.Crash(1)
		b.Wipe(1)
		require.ErrorIs(t, b.TryRestart(1), bookie.ErrIdentity)
	})
}

// A ledger is recovered and closed, then two or three of its bookies come back
// empty: their fences are gone. The writer that knows nothing of all this must
// not have an add acknowledged by them, whatever it was doing meanwhile, and
// what was in the ledger is read from where it is left.
func TestAddressReuse_ZombieOfAClosedLedger(t *testing.T) {
	// What the old writer does between the close and its next add.
	meanwhile := map[string]func(ctx context.Context, w *ledger.Writer){
		"idle":     func(context.Context, *ledger.Writer) {},
		"an hour":  func(context.Context, *ledger.Writer) { <-time.After(50 * time.Minute) },
		"one gone": nil, // see below
	}
	for name, wait := range meanwhile {
		for _, before := range []int{0, 5} {
			for _, opts := range []ledger.Options{{}, {DelayEnsembleChange: true}, {FailWhenShort: true}} {
				t.Run(fmt.Sprintf("%s/%d/%v%v", name, before, opts.DelayEnsembleChange, opts.FailWhenShort), func(t *testing.T) {
					onRealBookies(t, 3, 1, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
						opts.Dial, opts.Seed = b.Dial, 1
						c, err := ledger.New(b.Cluster, opts)
						require.NoError(t, err)
						t.Cleanup(func() { require.NoError(t, c.Close()) })
						w, err := c.Create(ctx, threeTwo)
						require.NoError(t, err)
						appendN(ctx, t, w, before)
						synctest.Wait() // all three copies
						r, err := clientOf(t, b).Open(ctx, w.ID(), ledger.Recover)
						require.NoError(t, err)
						last := bk.EntryID(before) - 1
						require.Equal(t, last, r.LAC())
						if wait == nil {
							replaceDisk(b, 0)
							replaceDisk(b, 1)
							b.Crash(2) // the only one that remembers the fence
						} else {
							replaceDisk(b, 0)
							replaceDisk(b, 1)
							wait(ctx, w)
						}
						actx, cancel := context.WithTimeout(ctx, time.Minute)
						defer cancel()
						e, err := w.Append(actx, []byte("late"))
						require.Error(t, err, "entry %d of a closed ledger is acknowledged", e)
						_, err = w.Append(actx, []byte("later"))
						require.Error(t, err)
						if wait == nil {
							b.Restart(2)
						}
						m, _, err := b.Cluster.Ledger(ctx, w.ID())
						require.NoError(t, err)
						require.Equal(t, layout.StateClosed, m.State)
						require.Equal(t, last, m.LastEntry)
						r, err = clientOf(t, b).Open(ctx, w.ID(), ledger.NoRecovery)
						require.NoError(t, err)
						checkEntries(ctx, t, r, last)
					})
				})
			}
		}
	}
}

// Adds are in flight while the bookies lose their disks under the writer.
func TestAddressReuse_AddsInFlight(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			onRealBookies(t, 3, seed, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
				c := clientOf(t, b)
				w, err := c.Create(ctx, threeTwo)
				require.NoError(t, err)
				appendN(ctx, t, w, 5)
				closed := make(chan struct{})
				confirmed := make(chan bk.EntryID, 1)
				go func() { // the old writer goes on all the time
					last := bk.EntryID(4)
					for {
						e, err := w.Append(ctx, payload(last+1))
						if err != nil {
							confirmed <- last
							return
						}
						last = e
						<-time.After(time.Duration(seed) * time.Millisecond)
					}
				}()
				go func() {
					defer close(closed)
					if seed%2 == 0 {
						b.Stall(0, true) // its acknowledgements of the old time come late, or never
					}
					r, err := clientOf(t, b).Open(ctx, w.ID(), ledger.Recover)
					if err != nil {
						t.Error(err)
						return
					}
					b.Stall(0, false)
					replaceDisk(b, 1)
					replaceDisk(b, 0)
					if err := r.Close(); err != nil {
						t.Error(err)
					}
				}()
				<-closed
				last := <-confirmed
				m, _, err := b.Cluster.Ledger(ctx, w.ID())
				require.NoError(t, err)
				require.Equal(t, layout.StateClosed, m.State)
				require.LessOrEqual(t, last, m.LastEntry, "acknowledged, and not in the ledger")
			})
		})
	}
}

// An open ledger whose bookie's connection was cut goes on after one write of
// its metadata; it does not change its ensemble.
func TestAddressReuse_CutConnectionCostsOneMetadataWrite(t *testing.T) {
	onRealBookies(t, 4, 1, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
		w, err := clientOf(t, b).Create(ctx, threeTwo)
		require.NoError(t, err)
		appendN(ctx, t, w, 5)
		synctest.Wait()
		_, v, err := b.Cluster.Ledger(ctx, w.ID())
		require.NoError(t, err)
		for range 3 {
			synctest.Wait()
			for i := range 4 {
				b.Cut(i)
			}
			synctest.Wait()
			appendN(ctx, t, w, 5)
			synctest.Wait()
			appendN(ctx, t, w, 20)
			m, now, err := b.Cluster.Ledger(ctx, w.ID())
			require.NoError(t, err)
			require.Len(t, m.Segments, 1)
			require.Greater(t, now, v)
			v = now
			appendN(ctx, t, w, 20)
			_, now, err = b.Cluster.Ledger(ctx, w.ID())
			require.NoError(t, err)
			require.Equal(t, v, now, "proved once")
		}
		require.NoError(t, w.Close(ctx))
	})
}

// With deferred sync a bookie that came back, even with its disk, may have lost
// what it acknowledged: no force may vouch for it.
func TestAddressReuse_DeferredEntriesAreNotForcedOverAReconnect(t *testing.T) {
	onRealBookies(t, 3, 1, func(ctx context.Context, t *testing.T, b *bookietest.Cluster) {
		w, err := clientOf(t, b).Create(ctx, threeTwo, ledger.WithDeferredSync())
		require.NoError(t, err)
		appendN(ctx, t, w, 5)
		require.NoError(t, w.Force(ctx))
		synctest.Wait()
		b.Cut(1)
		synctest.Wait()
		appendN(ctx, t, w, 1) // all before it is durable: nothing can be lost
		appendN(ctx, t, w, 4)
		synctest.Wait()
		b.Crash(1)
		b.Restart(1)
		require.ErrorIs(t, w.Force(ctx), bk.ErrBookieUnavailable)
		require.Equal(t, bk.EntryID(4), w.LAC())
		_, err = w.Append(ctx, nil)
		require.Error(t, err)
	})
}
