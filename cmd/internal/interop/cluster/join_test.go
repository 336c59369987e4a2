//go:build interop

package cluster

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/cmd/internal/daemon"
	"github.com/loglode/loglode/cmd/internal/javapeer"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

var ourKinds = []layout.Kind{layout.Hierarchical, layout.LongHierarchical, layout.LegacyHierarchical, layout.Flat}

func listed(t *testing.T, c *layout.Cluster) layout.Bookies {
	t.Helper()
	b, err := c.Bookies(t.Context())
	require.NoError(t, err)
	return b
}

// ids lists all ledgers.
func ids(t *testing.T, c *layout.Cluster) []bk.LedgerID {
	t.Helper()
	all := []bk.LedgerID{}
	for id, err := range c.Ledgers(t.Context()) {
		require.NoError(t, err)
		all = append(all, id)
	}
	return all
}

// A cluster that Apache's shell made, with a bookie of theirs, is joined by a
// bookie of ours, under an id that is no address; nobody can make it again.
func TestJavaClusterIsJoinedByOurBookie(t *testing.T) {
	uri := zk.URI("/theirs")
	require.NoError(t, java.InitCluster(t.Context(), dir, uri))
	c := join(t, uri)
	require.Equal(t, layout.Hierarchical, c.Kind())
	require.NotEmpty(t, c.InstanceID())
	for _, kind := range ourKinds {
		_, err := layout.InitKind(t.Context(), c.Store(), c.Scope(), kind)
		require.ErrorIs(t, err, metadata.ErrExists)
		_, err = layout.OpenKind(t.Context(), c.Store(), c.Scope(), kind)
		if kind != layout.Hierarchical {
			require.ErrorIs(t, err, layout.ErrLayout)
		} else {
			require.NoError(t, err)
		}
	}
	theirs, err := java.NewBookie(javapeer.BookieOptions{Name: "theirs1", Dir: dir, Metadata: uri})
	require.NoError(t, err)
	require.NoError(t, theirs.Start(t.Context()))
	t.Cleanup(theirs.Kill)
	ours := ourOptions(t, uri, "ours1", func(o *daemon.BookieOptions) { o.ID = "ours-1" })
	b, err := daemon.StartBookie(t.Context(), ours)
	require.NoError(t, err)

	both := []bk.BookieID{bk.BookieID(theirs.ID), "ours-1"}
	slices.Sort(both)
	eventually(t, "both are listed", func() bool { return slices.Equal(both, listed(t, c).Writable) })
	addr, err := c.Resolve(t.Context(), "ours-1")
	require.NoError(t, err)
	require.Equal(t, ours.Listen, addr)
	addr, err = c.Resolve(t.Context(), bk.BookieID(theirs.ID))
	require.NoError(t, err)
	require.Equal(t, theirs.Addr, addr)

	// A ledger on both, of our client, seen by theirs.
	client, err := ledger.Connect(t.Context(), uri)
	require.NoError(t, err)
	w, err := client.Create(t.Context(), bk.Quorum{Ensemble: 2, Write: 2, Ack: 2}, ledger.WithPassword([]byte("pw")))
	require.NoError(t, err)
	_, err = w.Append(t.Context(), []byte("0123456789"))
	require.NoError(t, err)
	require.NoError(t, w.Close(t.Context()))
	j := startJava(t, uri)
	m := j.metadata(w.ID())
	require.Equal(t, "CLOSED", m.State)
	require.Equal(t, int64(10), m.Length)
	require.ElementsMatch(t, both, m.Segments[0].Bookies)
	require.NoError(t, client.Close())

	// Their cookies, as we read them, and ours beside them.
	for _, id := range both {
		text, _, err := c.Cookie(t.Context(), id)
		require.NoError(t, err)
		cookie, err := layout.ParseCookie(text)
		require.NoError(t, err)
		require.Equal(t, string(id), cookie.BookieID)
		require.Equal(t, c.InstanceID(), cookie.InstanceID)
		require.Equal(t, string(text), string(cookie.Marshal()), "byte for byte")
	}
	require.NoError(t, b.Close(t.Context()))
	eventually(t, "ours has left", func() bool { return len(listed(t, c).Writable) == 1 })
	theirs.Kill()
	eventually(t, "theirs has left", func() bool { return len(listed(t, c).Writable) == 0 })
}

// A cluster that we made, of every kind, is joined by Apache's bookie and
// client: ledgers of either are seen by the other, and ids are given once.
func TestOurClusterIsJoinedByJava(t *testing.T) {
	for _, kind := range ourKinds {
		t.Run(string(kind), func(t *testing.T) {
			uri := zk.URI("/ours-" + string(kind))
			s, path := open(t, uri)
			_, err := layout.InitKind(t.Context(), s, path, kind)
			require.NoError(t, err)
			if kind == layout.Hierarchical {
				require.Error(t, java.InitCluster(t.Context(), dir, uri), "it is there")
				b, err := java.NewBookie(javapeer.BookieOptions{Name: "joins1", Dir: dir, Metadata: "zk+hierarchical" + uri[len("zk"):]})
				require.NoError(t, err)
				require.NoError(t, b.Start(t.Context()))
				t.Cleanup(b.Kill)
			} else {
				startOurs(t, uri, "joins-"+string(kind), nil)
			}
			c := join(t, uri)
			require.Equal(t, kind, c.Kind())
			eventually(t, "one bookie", func() bool { return len(listed(t, c).Writable) == 1 })
			exchangeLedgers(t, c, uri)
		})
	}
}

// exchangeLedgers makes ledgers from both sides in turn, and looks at each from
// the other.
func exchangeLedgers(t *testing.T, c *layout.Cluster, uri string) {
	ctx := t.Context()
	j := startJava(t, uri)
	client, err := ledger.Connect(ctx, uri)
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	made := []bk.LedgerID{}
	for range 3 {
		id := j.create(2, map[string]string{"app": "x"})
		m, _, err := c.Ledger(ctx, id)
		require.NoError(t, err)
		require.Equal(t, layout.StateClosed, m.State)
		require.Equal(t, bk.EntryID(1), m.LastEntry)
		require.Equal(t, int64(20), m.Length)
		require.Equal(t, "x", string(m.Custom["app"]))
		require.Equal(t, bk.DigestCRC32C, m.Digest)
		require.Equal(t, "pw", string(m.Password))
		made = append(made, id)

		w, err := client.Create(ctx, bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}, ledger.WithPassword([]byte("pw")),
			ledger.WithCustomMetadata(map[string][]byte{"app": []byte("y")}))
		require.NoError(t, err)
		_, err = w.Append(ctx, []byte("entry"))
		require.NoError(t, err)
		require.Equal(t, "OPEN", j.metadata(w.ID()).State)
		require.NoError(t, w.Close(ctx))
		seen := j.metadata(w.ID())
		require.Equal(t, "CLOSED", seen.State)
		require.Equal(t, int64(5), seen.Length)
		require.Equal(t, 3, seen.Format)
		require.Equal(t, map[string]string{"app": "y"}, seen.Custom)
		require.Equal(t, "pw", seen.Password)
		made = append(made, w.ID())
	}
	require.True(t, slices.IsSorted(made), "ids rise: %v", made)
	require.Len(t, slices.Compact(slices.Clone(made)), len(made))
	require.Equal(t, made, ids(t, c))
	require.ElementsMatch(t, made, j.ledgers())

	// Long ids, where there are any.
	if c.Kind() == layout.Hierarchical || c.Kind() == layout.LongHierarchical {
		_, err = c.Store().Txn(ctx, metadata.Create(c.Scope()+"/idgen-long", nil))
		require.NoError(t, err)
		require.NoError(t, j.call("client", map[string]any{"uri": uri}, &j.client)) // one looks for that node once
		first := j.create(1, nil)
		require.Equal(t, bk.LedgerID(4294967296), first)
		fresh := join(t, uri)
		id, err := fresh.NewLedgerID(ctx)
		require.NoError(t, err)
		require.Equal(t, bk.LedgerID(4294967297), id)
		require.Equal(t, bk.LedgerID(4294967298), j.create(1, nil))
		made = append(made, first, 4294967298)
		require.Equal(t, made, ids(t, c))
		require.ElementsMatch(t, made, j.ledgers())
	}

	// Deletes of either are final for both, and leave no parents.
	for i, id := range made {
		if i%2 == 0 {
			require.NoError(t, c.DeleteLedger(ctx, id))
			require.Error(t, j.call("metadata", map[string]any{"ledger": id}, nil))
		} else {
			require.NoError(t, j.delete(id))
			_, _, err := c.Ledger(ctx, id)
			require.ErrorIs(t, err, bk.ErrNoSuchLedger)
		}
	}
	require.Empty(t, ids(t, c))
	for n, err := range metadata.Children(ctx, c.Store(), c.Scope(), metadata.ListOptions{KeysOnly: true}) {
		require.NoError(t, err)
		if c.Kind() != layout.LegacyHierarchical {
			require.Contains(t, []string{"LAYOUT", "INSTANCEID", "available", "cookies", "idgen", "idgen-long"}, metadata.Name(n.Key))
		}
	}
}
