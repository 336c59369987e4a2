package owner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/memstore"
	"github.com/loglode/loglode/proxy/wire"
	"github.com/loglode/loglode/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = time.Second

type fixture struct {
	tree *memstore.Tree
	dead map[string]bool
}

func (f *fixture) store(t *testing.T) *memstore.Store {
	st := f.tree.Open()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func (f *fixture) open(t *testing.T, st metadata.Store, addr string, shard int) *Lease {
	t.Helper()
	l, err := Open(context.Background(), Options{Store: st, Root: "/ns", Addr: addr, Shard: shard, TTL: ttl,
		Probe: func(_ context.Context, a string) bool { return f.dead[a] }})
	require.NoError(t, err)
	return l
}

func never(string) bool  { return false }
func always(string) bool { return true }

func TestTakeDropAndEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tree: memstore.NewTree()}
		a, b := f.open(t, f.store(t), "a:1", -1), f.open(t, f.store(t), "b:1", -1)
		ctx := context.Background()
		require.Equal(t, "1;0;a:1", a.Location().String())
		require.Equal(t, "1;1;b:1", b.Location().String())
		for e := int64(1); e < 6; e += 2 {
			c, err := a.Take(ctx, "x/y", never)
			require.NoError(t, err)
			require.Equal(t, e, c.Epoch)
			_, err = b.Take(ctx, "x/y", never)
			var taken *TakenError
			require.ErrorAs(t, err, &taken)
			require.ErrorIs(t, err, stream.ErrNotOwner)
			require.Equal(t, wire.Owner{Location: a.Location(), Epoch: e}, taken.Owner)
			require.NoError(t, c.Drop(ctx))
			require.NoError(t, c.Drop(ctx), "again is no error")
			c, err = b.Take(ctx, "x/y", never)
			require.NoError(t, err)
			require.Equal(t, e+1, c.Epoch)
			require.NoError(t, c.Drop(ctx))
		}
		o, err := a.Owner(ctx, "x/y")
		require.NoError(t, err)
		require.Nil(t, o)
		require.NoError(t, a.Close(ctx))
		require.NoError(t, b.Close(ctx))
	})
}

// TestLateDropLeavesTheNextOwner: a drop that comes after the stream went on
// deletes nothing.
func TestLateDropLeavesTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tree: memstore.NewTree(), dead: map[string]bool{"a:1": true}}
		a, b := f.open(t, f.store(t), "a:1", -1), f.open(t, f.store(t), "b:1", -1)
		ctx := context.Background()
		old, err := a.Take(ctx, "s", never)
		require.NoError(t, err)
		c, err := b.Take(ctx, "s", always) // a is thought dead
		require.NoError(t, err)
		require.EqualValues(t, 2, c.Epoch)
		require.NoError(t, old.Drop(ctx))
		o, err := a.Owner(ctx, "s")
		require.NoError(t, err)
		require.Equal(t, wire.Owner{Location: b.Location(), Epoch: 2}, *o)
		require.NoError(t, a.Close(ctx))
		require.NoError(t, b.Close(ctx))
	})
}

// TestTakeWaitsForTheLease: an owner that the client cannot use, but that is
// not certainly dead, is waited for.
func TestTakeWaitsForTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tree: memstore.NewTree()}
		a, b := f.open(t, f.store(t), "a:1", -1), f.open(t, f.store(t), "b:1", -1)
		ctx := context.Background()
		_, err := a.Take(ctx, "s", never)
		require.NoError(t, err)

		short, cancel := context.WithTimeout(ctx, ttl/2)
		_, err = b.Take(short, "s", always)
		cancel()
		require.ErrorIs(t, err, stream.ErrNotOwner, "still alive when the wait ended")

		a.Abandon()
		began := time.Now()
		c, err := b.Take(ctx, "s", always)
		require.NoError(t, err)
		require.EqualValues(t, 2, c.Epoch)
		require.LessOrEqual(t, time.Since(began), ttl)
		require.NoError(t, b.Close(ctx))
	})
}

// silent is a store that can lose answers and not answer at all.
type silent struct {
	metadata.Store
	mu   sync.Mutex
	lose int  // answers of transactions to lose, after they were carried out
	down bool // nothing is answered
}

func (s *silent) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	r, err := s.Store.Txn(ctx, ops...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lose > 0 && err == nil {
		s.lose--
		return metadata.Result{}, fmt.Errorf("answer cut off: %w", metadata.ErrUnknownOutcome)
	}
	return r, err
}

func (s *silent) Get(ctx context.Context, key string) (metadata.Node, error) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		<-ctx.Done()
		return metadata.Node{}, fmt.Errorf("%w: %w", metadata.ErrUnavailable, ctx.Err())
	}
	return s.Store.Get(ctx, key)
}

func (s *silent) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// TestLostAnswersR21: our own success is recognised, by the epoch in the value.
func TestLostAnswersR21(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tree: memstore.NewTree()}
		st := &silent{Store: f.store(t), lose: 1}
		a := f.open(t, st, "a:1", 4) // the shard's
		ctx := context.Background()
		st.set(func() { st.lose = 1 })
		c, err := a.Take(ctx, "s", never)
		require.NoError(t, err)
		require.EqualValues(t, 1, c.Epoch, "taken once")
		st.set(func() { st.lose = 1 })
		err = c.Drop(ctx)
		require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
		require.NoError(t, c.Drop(ctx))
		c, err = a.Take(ctx, "s", never)
		require.NoError(t, err)
		require.EqualValues(t, 2, c.Epoch)
		require.NoError(t, a.Close(ctx))
	})
}

// TestUnconfirmedLeaseIsNotHeld: while the store does not answer the lease stops counting after its
// TTL, and counts again once it is confirmed.
func TestUnconfirmedLeaseIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tree: memstore.NewTree()}
		st := &silent{Store: f.store(t)}
		a := f.open(t, st, "a:1", 0)
		ctx := context.Background()
		<-time.After(10 * ttl)
		require.True(t, a.Held())
		st.set(func() { st.down = true })
		<-time.After(ttl + ttl/2)
		require.False(t, a.Held())
		short, cancel := context.WithTimeout(ctx, ttl)
		require.ErrorIs(t, a.Confirm(short), context.DeadlineExceeded)
		cancel()
		st.set(func() { st.down = false })
		require.NoError(t, a.Confirm(ctx))
		require.True(t, a.Held())
		require.NoError(t, a.Close(ctx))
		require.False(t, a.Held())
		require.ErrorIs(t, a.Confirm(ctx), ErrLost)
	})
}

// TestLostLeaseIsFoundOut: by the session or, when that says nothing, by what
// the store has; both for good.
func TestLostLeaseIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tree: memstore.NewTree()}
		ctx := context.Background()
		for _, how := range []string{"session ends", "node is gone", "node is another's"} {
			st := f.store(t)
			a := f.open(t, st, "a:1", 0)
			_, err := a.Take(ctx, "s", never)
			require.NoError(t, err)
			switch how {
			case "session ends":
				require.NoError(t, a.sess.Close(ctx))
			case "node is gone":
				_, err = st.Txn(ctx, metadata.Delete(wire.ShardKey("/ns", 0), metadata.AnyVersion))
			default:
				_, err = st.Txn(ctx, metadata.Delete(wire.ShardKey("/ns", 0), metadata.AnyVersion),
					metadata.Create(wire.ShardKey("/ns", 0), []byte("b:1")))
			}
			require.NoError(t, err)
			<-a.Lost()
			require.False(t, a.Held())
			told := false
			a.Confirmed(func(held bool) { told = !held })
			require.True(t, told)
			require.NoError(t, a.Close(ctx))
			if how == "node is another's" {
				break
			}
		}
	})
}

func TestShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tree: memstore.NewTree()}
		ctx := context.Background()
		a := f.open(t, f.store(t), "a:1", 1)
		b := f.open(t, f.store(t), "b:1", -1)
		c := f.open(t, f.store(t), "c:1", -1)
		require.Equal(t, []int{1, 0, 2}, []int{a.Shard(), b.Shard(), c.Shard()})
		_, err := Open(ctx, Options{Store: f.store(t), Root: "/ns", Addr: "d:1", Shard: 1, TTL: ttl})
		require.ErrorIs(t, err, ErrShardTaken)
		require.NoError(t, a.Join(ctx))
		st := f.store(t)
		node, err := st.Get(ctx, wire.MemberKey("/ns")+"0000000000")
		require.NoError(t, err)
		m, err := wire.ParseMember(node.Value)
		require.NoError(t, err)
		require.Equal(t, 1, m.Shard)
		require.Equal(t, "a:1", m.Endpoint().Addr())
		require.NoError(t, a.Leave(ctx))
		_, err = st.Get(ctx, wire.MemberKey("/ns")+"0000000000")
		require.ErrorIs(t, err, metadata.ErrNotFound)
		a.Abandon() // a crash; its number and its streams are its own after a restart
		again := f.open(t, f.store(t), "a:1", 1)
		require.Equal(t, 1, again.Shard())
		for _, l := range []*Lease{again, b, c} {
			require.NoError(t, l.Close(ctx))
		}
	})
}

// TestOneOwnerOfManyTakers: however many take at once, one has it, and epochs
// are never shared.
func TestOneOwnerOfManyTakers(t *testing.T) {
	f := &fixture{tree: memstore.NewTree()}
	ctx := context.Background()
	var leases []*Lease
	for i := range 4 {
		leases = append(leases, f.open(t, f.store(t), fmt.Sprintf("p%d:1", i), -1))
	}
	var mu sync.Mutex
	epochs := map[int64]int{}
	var wg sync.WaitGroup
	for _, l := range leases {
		wg.Go(func() {
			for range 50 {
				c, err := l.Take(ctx, "s", never)
				if errors.Is(err, stream.ErrNotOwner) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				epochs[c.Epoch]++
				mu.Unlock()
				if err := c.Drop(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NotEmpty(t, epochs)
	for e, n := range epochs {
		require.Equal(t, 1, n, "epoch %d", e)
	}
	for _, l := range leases {
		require.NoError(t, l.Close(ctx))
	}
}

func TestRefusedConnectionIsProofOfDeath(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.False(t, Refused(context.Background(), ln.Addr().String()), "a stopped process still accepts")
	require.NoError(t, ln.Close())
	require.True(t, Refused(context.Background(), ln.Addr().String()))
	require.False(t, Refused(context.Background(), "no such host.invalid:1"))
}
