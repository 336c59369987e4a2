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
		{"delete", testDelete, nil},
		{"wrong password", testPassword, nil},
		{"fence", testFence, nil},
		{"take over from a writer in flight", testTakeover, nil},
		{"recover after kill -9 of the writer", testWriterKilled, nil},
		{"ensemble change after kill -9 of a bookie", testBookieKilled, nil},
		{"recover with a bookie dead", testRecoverWithBookieDown, nil},
	}
}

// controlEnv makes TestInterop run Apache's client on Apache's own bookies: what
// fails there is wrong in the test.
const controlEnv = "LOGLODE_INTEROP_CONTROL"

func TestInterop(t *testing.T) {
	w := newWorld(t)
	main := &table{
		title: "Operations",
		text:  "One ensemble of three bookies with a spare; both clients read what was written.",
		rows:  operations(),
		columns: []column{
			{javaV3, loglodeCluster}, {javaV2, loglodeCluster}, {ours, apacheCluster},
		},
	}
	if os.Getenv(controlEnv) != "" {
		main.columns = []column{{javaV3, apacheCluster}, {javaV2, apacheCluster}}
	}
	main.run(t, w)
	if os.Getenv(controlEnv) == "" {
		writeDoc(t, main)
	}
}
