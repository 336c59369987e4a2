package layout

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/memstore"
	"github.com/loglode/loglode/metadata/storetest"
)

const zkRoot = "/ledgers"

var allZKKinds = []Kind{Hierarchical, LongHierarchical, LegacyHierarchical, Flat}

// newZKCluster gives a new cluster in a store with ZooKeeper's ways.
func newZKCluster(t *testing.T, kind Kind) (*Cluster, *storetest.Faulty) {
	t.Helper()
	f := storetest.NewFaulty(memstore.NewStrictTree().Open())
	id, err := InitKind(t.Context(), f, zkRoot, kind)
	require.NoError(t, err)
	c, err := OpenKind(t.Context(), f, zkRoot, kind)
	require.NoError(t, err)
	require.Equal(t, id, c.InstanceID())
	require.Equal(t, kind, c.Kind())
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return c, f
}

// eachTree runs a test in etcd's tree and in every tree of ZooKeeper's.
func eachTree(t *testing.T, test func(t *testing.T, c *Cluster, f *storetest.Faulty)) {
	t.Run(string(Etcd), func(t *testing.T) {
		c, f := newCluster(t)
		test(t, c, f)
	})
	for _, kind := range allZKKinds {
		t.Run(string(kind), func(t *testing.T) {
			c, f := newZKCluster(t, kind)
			test(t, c, f)
		})
	}
}

type zkNode struct {
	Path      string
	Ephemeral bool
	Version   int64
	DataHex   hexBytes
}

// zkTree is one golden tree, with its instance id.
func zkTree(t *testing.T, file string) (nodes []zkNode, instanceID string) {
	t.Helper()
	vectors(t, file, &nodes)
	for _, n := range nodes {
		if n.Path == "/ledgers/INSTANCEID" {
			return nodes, string(n.DataHex)
		}
	}
	require.Fail(t, "no INSTANCEID", file)
	return nil, ""
}

// requireTree compares a store with a golden tree, node by node.
func requireTree(t *testing.T, s metadata.Store, want []zkNode, goldenID, id string) {
	t.Helper()
	got := dump(t, s, "/")
	require.Len(t, got, len(want))
	for _, w := range want {
		n, ok := got[w.Path]
		require.True(t, ok, w.Path)
		require.Equal(t, string(bytes.ReplaceAll(w.DataHex, []byte(goldenID), []byte(id))), string(n.Value), w.Path)
		require.Equal(t, w.Version, n.Writes-1, w.Path)
		require.Equal(t, w.Ephemeral, n.Session != 0, w.Path)
	}
}

const goldenBookie = "127.0.0.1:33341"

// freshTree makes a cluster with one bookie, as the golden trees have it.
func freshTree(t *testing.T, c *Cluster, s metadata.Store) metadata.Session {
	t.Helper()
	cookie := Cookie{
		BookieID: goldenBookie, JournalDirs: "/data/bk/j", LedgerDirs: JoinDirs([]string{"/data/bk/l"}), InstanceID: c.InstanceID(),
	}
	require.NoError(t, c.CreateCookie(t.Context(), goldenBookie, cookie.Marshal()))
	sess := session(t, s)
	require.NoError(t, c.Register(t.Context(), sess, goldenBookie, ServiceInfo{}, Writable))
	return sess
}

// The tree after initialisation and a registration is that of Java's shell and
// bookie.
func TestGoldenZooKeeperFreshTree(t *testing.T) {
	want, goldenID := zkTree(t, "zk_tree_fresh.json")
	c, f := newZKCluster(t, Hierarchical)
	freshTree(t, c, f)
	requireTree(t, f, want, goldenID, c.InstanceID())
}

// So is the one after some ledgers, of which four were closed, and after the
// bookie has published another address.
func TestGoldenZooKeeperTreeWithLedgers(t *testing.T) {
	want, goldenID := zkTree(t, "zk_tree_with_ledgers.json")
	c, f := newZKCluster(t, Hierarchical)
	ctx := t.Context()
	sess := freshTree(t, c, f)
	seen := 0
	for _, w := range want {
		switch {
		case w.Path == "/ledgers/available/"+goldenBookie:
			info, err := ParseServiceInfo(w.DataHex)
			require.NoError(t, err)
			require.NoError(t, c.Register(ctx, sess, goldenBookie, info, Writable))
		case strings.Contains(w.Path, "/L") && w.Path != "/ledgers/LAYOUT":
			id, err := c.NewLedgerID(ctx)
			require.NoError(t, err)
			require.Equal(t, w.Path, c.form.ledgers().key(id))
			final, err := ParseLedgerMetadata(w.DataHex)
			require.NoError(t, err)
			m := final.Clone()
			m.State, m.LastEntry, m.Length = StateOpen, bk.InvalidEntryID, 0
			v, err := c.CreateLedger(ctx, id, m)
			require.NoError(t, err)
			for range w.Version {
				v, err = c.UpdateLedger(ctx, id, final, v)
				require.NoError(t, err)
			}
			seen++
		}
	}
	require.Equal(t, 7, seen)
	requireTree(t, f, want, goldenID, c.InstanceID())
}

func TestGoldenZooKeeperLedgerPaths(t *testing.T) {
	var vs []struct {
		LedgerID                                   bk.LedgerID
		Root                                       string
		Hierarchical, LongHierarchical             string
		LegacyHierarchical                         *string
		Flat, Underreplicated, UnderreplicatedLock string
	}
	vectors(t, "ledger_paths.json", &vs)
	require.NotEmpty(t, vs)
	for _, v := range vs {
		want := map[Kind]string{Hierarchical: v.Hierarchical, LongHierarchical: v.LongHierarchical, Flat: v.Flat}
		if v.LegacyHierarchical != nil {
			want[LegacyHierarchical] = *v.LegacyHierarchical
		}
		for kind, path := range want {
			if path == "" {
				continue // Java has none for the largest ids there
			}
			require.Equal(t, path, newZKForm(v.Root, kind).key(v.LedgerID), "%s %d", kind, v.LedgerID)
			below := strings.TrimPrefix(path, v.Root+"/")
			i := strings.LastIndexByte(below, '/') + 1
			id, ok := kind.leafID(strings.ReplaceAll(below[:i], "/", ""), below[i:])
			require.True(t, ok, path)
			require.Equal(t, v.LedgerID, id)
		}
	}
	for _, name := range []string{"", "L", "6789", "L678", "L678x", "l6789", "L+789", "L67890"} {
		_, ok := Hierarchical.leafID("012345", name)
		require.False(t, ok, name)
	}
	_, ok := Hierarchical.leafID("000000000000001", "L0000") // its place is in the short tree
	require.False(t, ok)
	_, ok = LongHierarchical.leafID("999999999999999", "L9999") // more than 63 bits
	require.False(t, ok)
}

func TestGoldenLayoutTexts(t *testing.T) {
	var vs []struct{ Name, Text, ManagerFactoryClass string }
	vectors(t, "layout.json", &vs)
	kinds := map[Kind]bool{}
	for _, v := range vs {
		kind, err := parseLayout([]byte(v.Text))
		if strings.Contains(v.Name, "etcd") {
			require.ErrorIs(t, err, ErrLayout)
			continue
		}
		require.NoError(t, err, v.Name)
		require.Equal(t, v.Text, string(kind.layoutText()))
		require.Equal(t, v.ManagerFactoryClass, kind.factory())
		kinds[kind] = true
	}
	require.Len(t, kinds, len(allZKKinds))
	for text, want := range map[string]Kind{"1\nflat:1": Flat, "1\nhierarchical:1\n": Hierarchical, "2\n" + Flat.factory() + ":1\n": Flat} {
		kind, err := parseLayout([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, kind)
	}
	for _, text := range []string{
		"", "2", "2\n", "x\ny:1", "0\nflat:1", "3\n" + Flat.factory() + ":1", "2\n" + Flat.factory() + ":2", "2\n" + Flat.factory() + ":0",
		"2\n" + Flat.factory(), "2\nflat:1", "1\n" + Flat.factory() + ":1", "2\norg.apache.bookkeeper.meta.MSLedgerManagerFactory:1",
	} {
		_, err := parseLayout([]byte(text))
		require.ErrorIs(t, err, ErrLayout, "%q", text)
	}
}

// An existing cluster is found whatever its kind, checked against the kind that
// was asked for, and never written over.
func TestOpenFindsTheKindThatIsThere(t *testing.T) {
	eachTree(t, func(t *testing.T, c *Cluster, f *storetest.Faulty) {
		ctx := t.Context()
		before := dump(t, f, "/")
		for _, kind := range append([]Kind{AnyKind, Etcd}, allZKKinds...) {
			_, err := InitKind(ctx, f, c.Scope(), kind)
			require.ErrorIs(t, err, metadata.ErrExists, kind)
			again, err := OpenKind(ctx, f, c.Scope(), kind)
			if kind != AnyKind && kind != c.Kind() {
				require.Error(t, err, kind)
				if kind != Etcd {
					require.ErrorIs(t, err, ErrLayout)
				}
				continue
			}
			require.NoError(t, err)
			require.Equal(t, c.Kind(), again.Kind())
			require.Equal(t, c.InstanceID(), again.InstanceID())
		}
		require.Equal(t, before, dump(t, f, "/"))
		_, err := Open(ctx, f, "/nothing")
		require.ErrorIs(t, err, metadata.ErrNotFound)
		_, err = OpenKind(ctx, f, c.Scope(), "ms")
		require.ErrorIs(t, err, ErrLayout)
		_, err = InitKind(ctx, f, "/new", "ms")
		require.ErrorIs(t, err, ErrLayout)
	})
}

// A root without a LAYOUT gets the one that was asked for, else the default; a
// cluster can do without an instance id.
func TestOpenARootWithoutLayout(t *testing.T) {
	for want, got := range map[Kind]Kind{AnyKind: Hierarchical, Flat: Flat} {
		s := memstore.NewStrictTree().Open()
		_, err := s.Txn(t.Context(), metadata.Create("/a/ledgers/available", nil).WithParents())
		require.NoError(t, err)
		for range 2 {
			c, err := OpenKind(t.Context(), s, "/a/ledgers", want)
			require.NoError(t, err)
			require.Equal(t, got, c.Kind())
			require.Empty(t, c.InstanceID())
		}
		n, err := s.Get(t.Context(), "/a/ledgers/LAYOUT")
		require.NoError(t, err)
		require.Equal(t, string(got.layoutText()), string(n.Value))
		require.NoError(t, s.Close())
	}
}

// Case R21 for a new cluster on ZooKeeper, which takes two steps.
func TestR21InitZooKeeperAfterLostAnswers(t *testing.T) {
	for _, fault := range []storetest.Fault{storetest.LoseAnswer, storetest.LoseRequest} {
		for nth := range 2 {
			f := storetest.NewFaulty(memstore.NewStrictTree().Open())
			f.FailNth("Txn", nth, fault)
			id, err := InitKind(t.Context(), f, zkRoot, LongHierarchical)
			require.NoError(t, err)
			f.OnCall(nil)
			c, err := OpenKind(t.Context(), f, zkRoot, LongHierarchical)
			require.NoError(t, err)
			require.Equal(t, id, c.InstanceID())
			require.NoError(t, f.Close())
		}
	}
	// A client that opened the cluster between the two steps made LAYOUT.
	for theirs, want := range map[Kind]error{Hierarchical: nil, Flat: ErrLayout} {
		f := storetest.NewFaulty(memstore.NewStrictTree().Open())
		f.OnCall(func(ctx context.Context, c storetest.Call) storetest.Fault {
			if c.Method == "Txn" && c.N == 1 {
				_, err := OpenKind(ctx, f.Store, zkRoot, theirs)
				require.NoError(t, err)
			}
			return storetest.Pass
		})
		_, err := InitKind(t.Context(), f, zkRoot, Hierarchical)
		require.ErrorIs(t, err, want)
		require.NoError(t, f.Close())
	}
}

// Rule of the tree: a delete takes the emptied parents away, and a create whose
// parents vanish on the way makes them again.
func TestParentsVanish(t *testing.T) {
	for _, kind := range allZKKinds {
		c, f := newZKCluster(t, kind)
		ctx := t.Context()
		other, err := Open(ctx, f.Store, zkRoot)
		require.NoError(t, err)
		before := len(dump(t, f, "/"))
		_, err = other.CreateLedger(ctx, 77, newMetadata())
		require.NoError(t, err)
		f.OnCall(func(ctx context.Context, call storetest.Call) storetest.Fault {
			if call.Method == "Txn" && call.N < 2 && call.Ops[0].Kind == metadata.OpCreate {
				require.NoError(t, other.DeleteLedger(ctx, 77))
			}
			return storetest.Pass
		})
		_, err = c.CreateLedger(ctx, 78, newMetadata())
		require.NoError(t, err)
		require.NoError(t, c.DeleteLedger(ctx, 78))
		require.NoError(t, c.DeleteLedger(ctx, 78), "missing = success")
		left := dump(t, f, "/")
		if kind == LegacyHierarchical {
			require.Len(t, left, before+2, "Java leaves the parents there")
		} else {
			require.Len(t, left, before)
		}
		// What others hold below a parent stays.
		for _, id := range []bk.LedgerID{5, 6} {
			_, err = c.CreateLedger(ctx, id, newMetadata())
			require.NoError(t, err)
		}
		require.NoError(t, c.DeleteLedger(ctx, 5))
		_, _, err = c.Ledger(ctx, 6)
		require.NoError(t, err)
	}
}

// vanishing answers a create below a parent as ZooKeeper does when the parent
// went between its making and the create, so many times.
type vanishing struct {
	metadata.Store
	times int
}

func (v *vanishing) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	if ops[0].Kind == metadata.OpCreate && v.times > 0 {
		v.times--
		return metadata.Result{}, &metadata.TxnError{Key: ops[0].Key, Err: metadata.ErrNotFound}
	}
	return v.Store.Txn(ctx, ops...)
}

func TestCreateWhileParentsVanish(t *testing.T) {
	v := &vanishing{Store: memstore.NewStrictTree().Open()}
	defer v.Close()
	_, err := InitKind(t.Context(), v, zkRoot, Hierarchical)
	require.NoError(t, err)
	c, err := Open(t.Context(), v, zkRoot)
	require.NoError(t, err)
	v.times = createAttempts - 1
	_, err = c.CreateLedger(t.Context(), 1, newMetadata())
	require.NoError(t, err)
	v.times = createAttempts
	_, err = c.CreateLedger(t.Context(), 2, newMetadata())
	require.ErrorIs(t, err, bk.ErrMetadataConflict)
	v.times = idAttempts - 1
	_, err = c.NewLedgerID(t.Context())
	require.NoError(t, err)
}

// Ledgers of the short and the long tree are listed together, in order, and
// nothing else is.
func TestListShortAndLongTrees(t *testing.T) {
	ids := []bk.LedgerID{0, 1, 9999, 10000, 123456789, 2147483646, 2147483647, 4294967296, 8589934593, 1 << 62}
	for _, kind := range allZKKinds {
		want := ids
		if kind == LegacyHierarchical || kind == Flat {
			want = ids[:len(ids)-1]
		}
		c, f := newZKCluster(t, kind)
		ctx := t.Context()
		for _, id := range slices.Backward(want) {
			_, err := c.CreateLedger(ctx, id, newMetadata())
			require.NoError(t, err)
		}
		freshTree(t, c, f)
		_, err := c.NewLedgerID(ctx)
		require.NoError(t, err)
		for _, foreign := range []string{
			"idgen-long/HOB-0000000001", "underreplication/ledgers", "ID-0000000007", "00/0000/x", "00/x", "0x/0000/L0001",
			"000/0000/0000/0000/L000x", "000/0000/0000/0000/L0001", "00/0000/L00001", "DEPTH/00/L0000",
		} {
			if kind == LongHierarchical && strings.HasSuffix(foreign, "L0001") && strings.HasPrefix(foreign, "000") {
				continue // there it is a ledger
			}
			_, err := f.Txn(ctx, metadata.Create(zkRoot+"/"+foreign, nil).WithParents())
			require.NoError(t, err)
		}
		var got []bk.LedgerID
		f.OnCall(func(_ context.Context, call storetest.Call) storetest.Fault {
			if kind != Flat && call.Method == "List" && call.Key != zkRoot {
				require.NotContains(t, call.Key, "x", "a foreign directory is not looked into")
			}
			return storetest.Pass
		})
		for id, err := range c.Ledgers(ctx) {
			require.NoError(t, err)
			got = append(got, id)
		}
		require.Equal(t, want, got, kind)
		got = nil
		for id, err := range c.Ledgers(ctx) { // who stops early gets no more
			require.NoError(t, err)
			if got = append(got, id); len(got) == 3 {
				break
			}
		}
		require.Len(t, got, 3)
		f.FailNth("List", 1, storetest.Refuse)
		failed := 0
		for _, err := range c.Ledgers(ctx) {
			if err != nil {
				require.ErrorIs(t, err, metadata.ErrUnavailable)
				failed++
			}
		}
		require.Equal(t, kind != Flat, failed == 1)
	}
}

// On ZooKeeper a bookie publishes where it serves, and keeps that when it moves
// between the lists: first into the new one, then out of the old one.
func TestRegistrationOnZooKeeper(t *testing.T) {
	c, f := newZKCluster(t, Hierarchical)
	ctx := t.Context()
	sess := session(t, f)
	var order []string
	f.OnCall(func(_ context.Context, call storetest.Call) storetest.Fault {
		for _, op := range call.Ops {
			order = append(order, fmt.Sprintf("%d %s", op.Kind, op.Key))
		}
		return storetest.Pass
	})
	custom := ServiceInfo{Endpoints: []Endpoint{{ID: "bookie", Host: "h", Port: 7, Protocol: ProtocolBookie}}, Properties: map[string]string{"k": "v"}}
	require.ErrorIs(t, c.Register(ctx, sess, "b1", ServiceInfo{}, Writable), bk.ErrInvalidBookieID)
	require.ErrorIs(t, c.Registrable("b1", ServiceInfo{}), bk.ErrInvalidBookieID)
	require.ErrorIs(t, c.Registrable("readonly", custom), bk.ErrInvalidBookieID)
	require.NoError(t, c.Registrable("b1", custom))
	require.NoError(t, c.Register(ctx, sess, "b1", custom, Writable))
	require.NoError(t, c.Register(ctx, sess, "b1", custom, ReadOnly))
	require.NoError(t, c.Register(ctx, sess, "b1", custom, Writable))
	create, del := metadata.OpCreate, metadata.OpDelete
	require.Equal(t, []string{
		fmt.Sprintf("%d /ledgers/available/b1", create),
		fmt.Sprintf("%d /ledgers/available/readonly/b1", create),
		fmt.Sprintf("%d /ledgers/available/b1", del),
		fmt.Sprintf("%d /ledgers/available/b1", create),
		fmt.Sprintf("%d /ledgers/available/readonly/b1", del),
	}, order)
	n, err := f.Get(ctx, "/ledgers/available/b1")
	require.NoError(t, err)
	info, err := ParseServiceInfo(n.Value)
	require.NoError(t, err)
	require.Equal(t, custom, info)
	addr, err := c.Resolve(ctx, "b1")
	require.NoError(t, err)
	require.Equal(t, "h:7", addr)
	// An HTTP endpoint alone: the bookie's own is put in front.
	http := Endpoint{ID: "httpserver", Host: "0.0.0.0", Port: 8080, Protocol: "http"}
	require.NoError(t, c.Register(ctx, sess, "h:1", ServiceInfo{Endpoints: []Endpoint{http}}, Writable))
	n, err = f.Get(ctx, "/ledgers/available/h:1")
	require.NoError(t, err)
	info, err = ParseServiceInfo(n.Value)
	require.NoError(t, err)
	require.Equal(t, []Endpoint{{ID: "bookie", Host: "h", Port: 1, Protocol: ProtocolBookie}, http}, info.Endpoints)
	// A scripted bookie with an empty node is dialled at its id.
	_, err = f.Txn(ctx, metadata.Create("/ledgers/available/s:2", nil).WithSession(sess.ID()))
	require.NoError(t, err)
	addr, err = c.Resolve(ctx, "s:2")
	require.NoError(t, err)
	require.Equal(t, "s:2", addr)
	// The data of the node of the read-only list is no bookie.
	b, err := c.Bookies(ctx)
	require.NoError(t, err)
	require.Equal(t, Bookies{Writable: []bk.BookieID{"b1", "h:1", "s:2"}}, b)
}

// Clients that watch the bookies learn of a new address.
func TestWatchBookiesSeesANewAddress(t *testing.T) {
	eachTree(t, func(t *testing.T, c *Cluster, f *storetest.Faulty) {
		ctx := t.Context()
		sess := session(t, f)
		at := func(port int) ServiceInfo {
			return ServiceInfo{Endpoints: []Endpoint{{ID: "bookie", Host: "p", Port: port, Protocol: ProtocolBookie}}}
		}
		require.NoError(t, c.Register(ctx, sess, "h:1", at(1), Writable))
		w, err := c.WatchBookies(ctx)
		require.NoError(t, err)
		for port := 1; port < 5; port++ {
			require.NoError(t, c.Register(ctx, sess, "h:1", at(port), Writable))
			for addr := ""; addr != fmt.Sprintf("p:%d", port); {
				<-w.C()
				addr, err = c.Resolve(ctx, "h:1")
				require.NoError(t, err)
			}
		}
	})
}

// FuzzParseLayout: whatever is in LAYOUT gives a kind or ErrLayout, and a kind's
// own text gives that kind.
func FuzzParseLayout(f *testing.F) {
	for _, kind := range allZKKinds {
		f.Add(kind.layoutText())
	}
	f.Add([]byte("1\nflat:1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		kind, err := parseLayout(text)
		if err != nil {
			require.ErrorIs(t, err, ErrLayout)
			return
		}
		again, err := parseLayout(kind.layoutText())
		require.NoError(t, err)
		require.Equal(t, kind, again)
	})
}

// FuzzLeafID: a name that is taken for a ledger is the one that the ledger has.
func FuzzLeafID(f *testing.F) {
	f.Add(uint8(0), "012345", "L6789")
	f.Add(uint8(1), "000000000012345", "L6789")
	f.Add(uint8(3), "", "L0123456789")
	f.Fuzz(func(t *testing.T, k uint8, digits, leaf string) {
		kind := allZKKinds[int(k)%len(allZKKinds)]
		id, ok := kind.leafID(digits, leaf)
		if !ok {
			return
		}
		require.GreaterOrEqual(t, id, bk.LedgerID(0))
		require.Equal(t, digits+leaf, strings.ReplaceAll(kind.path(id), "/", ""))
	})
}
