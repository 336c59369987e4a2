//go:build interop

package interop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// mix is how many bookies of each kind an ensemble has.
type mix struct{ apache, loglode int }

func (m mix) String() string { return fmt.Sprintf("%d+%d", m.apache, m.loglode) }

// mixtures are the rows of the table of mixed ensembles: kills of one kind and
// the other alternate, so that one starts again while the other is tested.
func mixtures() []row {
	var rows []row
	for _, m := range []mix{{2, 1}, {1, 2}} {
		add := func(name string, run func(t *testing.T, x *cell, m mix)) {
			rows = append(rows, row{name: fmt.Sprintf("%s: %s", m, name), run: func(t *testing.T, x *cell) { run(t, x, m) }})
		}
		add("add, read, list of copies", testMixedAppend)
		add("kill -9 of an Apache bookie while writing", func(t *testing.T, x *cell, m mix) { testMixedKill(t, x, m, apacheBookie) })
		add("take over from a writer in flight", testMixedTakeover)
		add("kill -9 of a Loglode bookie while writing", func(t *testing.T, x *cell, m mix) { testMixedKill(t, x, m, loglodeBookie) })
	}
	return rows
}

// createMixed makes a ledger on an ensemble of the kinds asked for: clients
// choose bookies by chance, so it makes and deletes ledgers until one fits.
func (x *cell) createMixed(t *testing.T, s spec, m mix) *handle {
	t.Helper()
	for range 100 {
		h := x.c.create(t, s)
		got := mix{}
		for _, id := range x.c.metadata(t, h.ledger).Segments[0].Bookies {
			if x.cluster.find(t, id).kind == apacheBookie {
				got.apache++
			} else {
				got.loglode++
			}
		}
		if got == m {
			return h
		}
		h.close(t)
		x.c.call(t, "delete", map[string]any{"ledger": h.ledger}, nil)
	}
	require.FailNow(t, "no ensemble of "+m.String())
	return nil
}

func testMixedAppend(t *testing.T, x *cell, m mix) {
	x.cluster.settle(t, "")
	s := usual
	s.a = 3 // so that all copies are there when an entry is confirmed
	h := x.createMixed(t, s, m)
	sizes := mixedSizes(1000)
	h.append(t, h.ledger, 0, sizes...)
	h.close(t)
	x.both(t, func(t *testing.T, c *client) {
		c.open(t, h.ledger, s, false).expect(t, h.ledger, sizes...)
	})
	var missing []string
	x.w.client(t, javaV3, x.on).call(t, "check", map[string]any{"ledger": h.ledger}, &missing)
	require.Empty(t, missing, "copies that Java's ledger checker does not find")
}

func testMixedKill(t *testing.T, x *cell, m mix, kind bookieKind) {
	x.cluster.settle(t, kind)
	x.changeEnsemble(t, x.createMixed(t, usual, m), kind)
}

func testMixedTakeover(t *testing.T, x *cell, m mix) {
	x.cluster.settle(t, "")
	x.both(t, func(t *testing.T, c *client) {
		const size = 900
		h := x.createMixed(t, usual, m)
		h.stream(t, h.ledger, size, 50)
		h.awaitAcked(t, 200)
		r := c.open(t, h.ledger, usual, true)
		p := h.finish(t)
		require.Contains(t, []int{codeFenced, codeLedgerClosed}, p.Code, "%s", p.Error)
		x.expectRecovered(t, r, usual, p.Acked, size)
	})
}
