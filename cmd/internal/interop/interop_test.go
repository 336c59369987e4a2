//go:build interop

package interop

import (
	"os"
	"testing"
)

const (
	onlyV3 = "only version 3 of the protocol has it"
	onlyV2 = "only version 2 of the protocol has it"
)

var notV2 = map[clientKind]string{javaV2: onlyV3}

// operations are the rows of the main table. Those that end bookies come last.
func operations() []row {
	return []row{
		{"create, custom metadata, close, list", testCreate, nil},
		{"create under a chosen id", testChosenID, nil},
		{"pipelined add", testAppend, nil},
		{"read", testRead, nil},
		{"read unconfirmed", testUnconfirmed, nil},
		{"batch read", testBatchRead, map[clientKind]string{javaV3: onlyV2}},
		{"tail", testTail, nil},
		{"long poll", testLongPoll, notV2},
		{"explicit LAC", testExplicitLAC, notV2},
		{"deferred sync and force", testDeferredSync, notV2},
		{"force", testForce, notV2},
		{"entry ids of the caller's choice", testAdvanced, nil},
		{"digests CRC32, CRC32C, MAC, DUMMY", testDigests, nil},
		{"list of entries", testEntries, notV2},
		{"bookie info", testBookieInfo, notV2},
		{"Java's ledger checker", testChecker, nil},
		{"Java's shell: ledgermetadata", testShell, nil},
		{"delete", testDelete, nil},
		{"wrong password", testPassword, nil},
		{"wrong key at the bookies", testKey, nil},
		{"largest entries (R28)", testLimit, nil},
		{"fence", testFence, nil},
		{"take over from a writer in flight", testTakeover, nil},
		{"both clients recover at once", testTwoRecoverers, nil},
		{"recover after kill -9 of the writer", testWriterKilled, nil},
		{"ensemble change after kill -9 of a bookie", testBookieKilled, nil},
		{"recover with a bookie dead", testRecoverWithBookieDown, nil},
	}
}

// controlEnv makes TestInterop run Apache's client alone: what fails with it on
// Apache's own bookies is wrong in the test.
const controlEnv = "LOGLODE_INTEROP_CONTROL"

var controls = map[string]clusterKind{"apache": apacheCluster, "loglode": loglodeCluster}

func TestInterop(t *testing.T) {
	w := newWorld(t)
	tables := []*table{
		{
			title: "Operations",
			text:  "Ensembles of three bookies, with a spare in the cluster.",
			rows:  operations(),
			columns: []column{
				{client: javaV3, on: loglodeCluster}, {client: javaV2, on: loglodeCluster}, {client: ours, on: apacheCluster},
			},
		}, {
			title: "Mixed ensembles",
			text:  "Three bookies of which two are Apache's and one Loglode's (2+1), or the reverse (1+2), chosen from three of each.",
			rows:  mixtures(),
			columns: []column{
				{client: javaV3, on: mixedCluster}, {client: javaV2, on: mixedCluster}, {client: ours, on: mixedCluster},
			},
		}, {
			title: "One writes, the other reads and recovers",
			text: "On mixed ensembles, striped (E=3, Qw=2, Qa=2). Killed: the writer's process got SIGKILL with 50 adds in flight;\n" +
				"all that it was told is confirmed is there, byte for byte.",
			rows: crossings(),
			columns: []column{
				{javaV3, mixedCluster, ours}, {javaV2, mixedCluster, ours}, {ours, mixedCluster, javaV3}, {ours, mixedCluster, javaV2},
			},
		},
	}
	if on, ok := controls[os.Getenv(controlEnv)]; ok {
		tables = tables[:1]
		tables[0].columns = []column{{client: javaV3, on: on}, {client: javaV2, on: on}}
	}
	for _, tb := range tables {
		tb.run(t, w)
	}
	if os.Getenv(controlEnv) == "" {
		writeDoc(t, tables...)
	}
}
