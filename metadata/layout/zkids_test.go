package layout

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/memstore"
	"github.com/loglode/loglode/metadata/storetest"
)

// turning is a store whose counters stand at jump[parent] beside what they
// count: the number in the answer of a sequential create is that much higher,
// and goes past its end as ZooKeeper's does.
type turning struct {
	metadata.Store
	jump map[string]int64
}

func (o *turning) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	if ops[0].Kind == metadata.OpDelete && strings.HasPrefix(metadata.Name(ops[0].Key), numbered) {
		return metadata.Result{}, nil // it has another name below
	}
	res, err := o.Store.Txn(ctx, ops...)
	if err == nil && ops[0].Sequential {
		parent, name := metadata.Split(res.Nodes[0].Key)
		var n int64
		if _, err := fmt.Sscanf(name, numbered+"%d", &n); err != nil {
			return res, err
		}
		res.Nodes[0].Key = fmt.Sprintf("%s/%s%010d", parent, numbered, int32(n+o.jump[parent]))
	}
	return res, err
}

func nextID(t *testing.T, c *Cluster) bk.LedgerID {
	t.Helper()
	id, err := c.NewLedgerID(t.Context())
	require.NoError(t, err)
	return id
}

// Short ids, then long ones in halves, with the numbers that Java gives.
func TestLongLedgerIDs(t *testing.T) {
	for _, kind := range []Kind{Hierarchical, LongHierarchical} {
		_, f := newZKCluster(t, kind)
		o := &turning{Store: f, jump: map[string]int64{}}
		c, err := Open(t.Context(), o, zkRoot)
		require.NoError(t, err)
		require.Equal(t, bk.LedgerID(0), nextID(t, c))
		require.Equal(t, bk.LedgerID(1), nextID(t, c))
		o.jump["/ledgers/idgen"] = 2147483644
		require.Equal(t, bk.LedgerID(2147483646), nextID(t, c))
		require.Equal(t, bk.LedgerID(4294967296), nextID(t, c)) // 2147483647 is none
		require.Equal(t, bk.LedgerID(4294967297), nextID(t, c))
		c, err = Open(t.Context(), o, zkRoot) // a client that comes later goes there at once
		require.NoError(t, err)
		require.Equal(t, bk.LedgerID(4294967298), nextID(t, c))
		// The low half runs out, past the sign too; the next high half begins.
		for half := int64(1); half < 6; half++ {
			key := fmt.Sprintf("/ledgers/idgen-long/HOB-%010d", half)
			o.jump[key] = 2147483646 + half // its last number and past its end
			require.Equal(t, bk.LedgerID((half+1)<<32), nextID(t, c))
			require.Equal(t, bk.LedgerID((half+1)<<32|1), nextID(t, c))
		}
		halves, err := c.form.(*zkForm).ids.highHalves(t.Context(), o)
		require.NoError(t, err)
		require.Subset(t, halves, []int64{4, 5, 6})
		o.jump["/ledgers/idgen-long/HOB-0000000006"] = 2147483647
		_, err = f.Txn(t.Context(), metadata.Create("/ledgers/idgen-long/HOB-2147483647", nil))
		require.NoError(t, err)
		o.jump["/ledgers/idgen-long/HOB-2147483647"] = 2147483647
		_, err = c.NewLedgerID(t.Context())
		require.ErrorIs(t, err, errNumbersUsedUp)
	}
	for _, kind := range []Kind{LegacyHierarchical, Flat} {
		_, f := newZKCluster(t, kind)
		c, err := Open(t.Context(), &turning{Store: f, jump: map[string]int64{"/ledgers/idgen": 2147483647, "/ledgers": 2147483647}}, zkRoot)
		require.NoError(t, err)
		_, err = c.NewLedgerID(t.Context())
		require.ErrorIs(t, err, errNumbersUsedUp)
	}
}

// Old high halves go when a new one is made, all but the last three; one that
// somebody is at stays.
func TestOldHighHalvesAreDeleted(t *testing.T) {
	c, f := newZKCluster(t, Hierarchical)
	ctx := t.Context()
	g := c.form.(*zkForm).ids
	for half := range int64(6) {
		older, err := g.highHalves(ctx, f)
		require.NoError(t, err)
		require.NoError(t, g.makeHighHalf(ctx, f, half+1, older))
		require.NoError(t, g.makeHighHalf(ctx, f, half+1, older)) // another was first
		if half == 1 {
			_, err := f.Txn(ctx, metadata.Create(g.highKey(2)+"/ID-0000000000", nil))
			require.NoError(t, err)
		}
	}
	halves, err := g.highHalves(ctx, f)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 4, 5, 6}, halves)
	_, err = f.Txn(ctx, metadata.Create("/ledgers/idgen-long/HOB-x", nil), metadata.Create("/ledgers/idgen-long/HOB-7", nil))
	require.NoError(t, err)
	require.Equal(t, bk.LedgerID(6<<32), nextID(t, c))
}

// A client that is about to number a node below a high half that is out of use
// meanwhile, and deleted, takes the one in use: the counter of a node made anew
// would give old ids.
func TestHighHalfVanishes(t *testing.T) {
	c, f := newZKCluster(t, Hierarchical)
	ctx := t.Context()
	g := c.form.(*zkForm).ids
	require.NoError(t, g.makeHighHalf(ctx, f, 1, nil))
	f.OnCall(func(ctx context.Context, call storetest.Call) storetest.Fault {
		if call.Method == "Txn" && call.N == 0 {
			require.NoError(t, g.makeHighHalf(ctx, f.Store, 2, nil))
			require.NoError(t, metadata.Remove(ctx, f.Store, g.highKey(1), metadata.AnyVersion))
		}
		return storetest.Pass
	})
	require.Equal(t, bk.LedgerID(2<<32), nextID(t, c))
}

// A session that is lost costs an id at most, and its numbered nodes go with it.
func TestLedgerIDsAfterSessionLoss(t *testing.T) {
	c, f := newZKCluster(t, Hierarchical)
	ctx := t.Context()
	seen := map[bk.LedgerID]bool{}
	for i := range 40 {
		switch i % 4 {
		case 1:
			require.NoError(t, f.ExpireSessions(ctx))
		case 2: // while the create is on its way
			f.OnCall(func(_ context.Context, call storetest.Call) storetest.Fault {
				if call.Method == "Txn" && call.N == 0 {
					require.NoError(t, f.ExpireSessions(ctx))
				}
				return storetest.Pass
			})
		case 3: // the answer is lost, then the session
			f.FailNth("Txn", 0, storetest.LoseAnswer)
		}
		id := nextID(t, c)
		require.False(t, seen[id])
		seen[id] = true
		f.OnCall(nil)
	}
	require.NoError(t, f.ExpireSessions(ctx))
	page, err := f.List(ctx, "/ledgers/idgen", metadata.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, page.Nodes)
	f.FailNth("Session", 0, storetest.Refuse)
	_, err = c.NewLedgerID(ctx)
	require.ErrorIs(t, err, metadata.ErrUnavailable)
	f.FailNth("Get", 0, storetest.Refuse) // whether ids are long is not known
	_, err = c.NewLedgerID(ctx)
	require.ErrorIs(t, err, metadata.ErrUnavailable)
	nextID(t, c) // and the next try has a session again
}

// Many clients at once get no id twice, and leave nothing behind.
func TestLedgerIDsOfManyClients(t *testing.T) {
	for _, kind := range allZKKinds {
		tree := memstore.NewStrictTree()
		root := tree.Open()
		defer root.Close()
		_, err := InitKind(t.Context(), root, zkRoot, kind)
		require.NoError(t, err)
		before := len(dump(t, root, "/"))
		var mu sync.Mutex
		seen := map[bk.LedgerID]bool{}
		var wg sync.WaitGroup
		for range 4 {
			s := tree.Open()
			defer s.Close()
			c, err := Open(t.Context(), s, zkRoot)
			require.NoError(t, err)
			for range 2 {
				wg.Go(func() {
					for range 50 {
						id, err := c.NewLedgerID(t.Context())
						if err != nil {
							t.Errorf("new id: %v", err)
							return
						}
						mu.Lock()
						if seen[id] {
							t.Errorf("id %d given twice", id)
						}
						seen[id] = true
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		require.Len(t, seen, 400)
		after := before + 1 // idgen
		if kind == Flat {
			after = before
		}
		require.Len(t, dump(t, root, "/"), after)
	}
}
