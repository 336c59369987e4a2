package layout

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

func TestGoldenUnderReplicationValues(t *testing.T) {
	var vs []struct {
		Name string
		Hex  hexBytes
	}
	vectors(t, "underreplication.json", &vs)
	at := time.UnixMilli(1700000000000)
	missing := func(m Missing) func([]byte) ([]byte, error) {
		return func(b []byte) ([]byte, error) {
			got, err := ParseMissing(b)
			require.Equal(t, m, got)
			return m.Marshal(), err
		}
	}
	holder := func(want bk.BookieID) func([]byte) ([]byte, error) {
		return func(b []byte) ([]byte, error) {
			got, err := ParseHolder(b)
			require.Equal(t, want, got)
			return MarshalHolder(got), err
		}
	}
	checked := func(b []byte) ([]byte, error) {
		got, err := ParseCheckTime(b)
		require.NoError(t, err)
		require.Equal(t, at, got)
		return MarshalCheckTime(got)
	}
	again := map[string]func([]byte) ([]byte, error){
		"underreplication/LAYOUT":                    func(b []byte) ([]byte, error) { return []byte(RepairLayout), CheckRepairLayout(b) },
		"underreplication/ledgers entry, with ctime": missing(Missing{Bookies: []bk.BookieID{"10.0.0.1:3181", "10.0.0.2:3181"}, Since: at}),
		"underreplication/ledgers entry":             missing(Missing{Bookies: []bk.BookieID{"10.0.0.1:3181"}}),
		"underreplication/locks entry":               holder("host1"),
		"auditorelection vote":                       holder("10.0.0.1:3181"),
		"checkallledgersctime":                       checked,
		"placementpolicycheckctime":                  checked,
		"replicascheckctime":                         checked,
		"lostBookieRecoveryDelay":                    func(b []byte) ([]byte, error) { return b, nil }, // decimal text
	}
	require.Len(t, vs, len(again))
	for _, v := range vs {
		b, err := again[v.Name](v.Hex)
		require.NoError(t, err, v.Name)
		require.Equal(t, string(v.Hex), string(b), v.Name)
	}
	for _, bad := range []string{"", "type: \"BASIC\"\n", "type: \"BASIC\"\nversion: 2\n", "type: \"OTHER\"\nversion: 1\n", "\xff"} {
		require.ErrorIs(t, CheckRepairLayout([]byte(bad)), ErrLayout, bad)
	}
	require.NoError(t, CheckRepairLayout([]byte(RepairLayout+"newer: 7\n")))
	_, err := ParseMissing([]byte("replica: 7"))
	require.ErrorIs(t, err, bk.ErrCorrupt)
	_, err = ParseHolder([]byte("bookieId"))
	require.ErrorIs(t, err, bk.ErrCorrupt)
	_, err = ParseCheckTime([]byte{8})
	require.ErrorIs(t, err, bk.ErrCorrupt)
}

func TestGoldenUnderReplicationKeys(t *testing.T) {
	var vs []struct {
		LedgerID                                   bk.LedgerID
		Root, Underreplicated, UnderreplicatedLock string
	}
	vectors(t, "ledger_paths.json", &vs)
	require.NotEmpty(t, vs)
	for _, v := range vs {
		tree := RepairTree(v.Root + "/underreplication")
		require.Equal(t, v.Underreplicated, tree.Ledger(v.LedgerID))
		require.Equal(t, v.UnderreplicatedLock, tree.Lock(v.LedgerID))
		id, ok := RepairID(v.Underreplicated[strings.LastIndexByte(v.Underreplicated, '/')+1:])
		require.True(t, ok)
		require.Equal(t, v.LedgerID, id)
	}
	for _, bad := range []string{"", "urL", "urL1", "urL00000000001", "urL-000000001", "L0000000001", "urL000000000x"} {
		_, ok := RepairID(bad)
		require.False(t, ok, bad)
	}
	// Every node of Java's tree is one of ours, or a directory above one.
	nodes, _ := zkTree(t, "zk_tree_replication.json")
	c, _ := newZKCluster(t, Hierarchical)
	tree := c.RepairTree()
	known := []string{
		tree.Layout(), tree.Ledger(123456789), tree.Lock(123456789), tree.Disabled(), tree.LostBookieDelay(), tree.Election(),
		tree.Vote() + "0000000000", tree.LedgersChecked(), tree.PlacementChecked(), tree.ReplicasChecked(),
	}
	seen := 0
	for _, n := range nodes {
		if !strings.HasPrefix(n.Path, string(tree)) {
			continue
		}
		found := false
		for _, k := range known {
			found = found || k == n.Path || strings.HasPrefix(k, n.Path+"/")
		}
		require.True(t, found, n.Path)
		seen++
	}
	require.Equal(t, 17, seen)
}
