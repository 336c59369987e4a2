//go:build interop

package interop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

var digestNames = []string{"CRC32", "CRC32C", "MAC", "DUMMY"}

const (
	legacySize  = 700
	legacyCount = 300
)

// legacy is what a writer that was killed left for one reader: of each digest
// type, a closed ledger and one in full flight.
type legacy struct {
	closed, open map[string]int64 // ledger by digest
	acked        map[string]int64 // entries of the open one that were confirmed
}

func striped(digest string) spec {
	return spec{e: 3, w: 2, a: 2, digest: digest, password: "pass of " + digest}
}

// crossings are the rows of the table of writers and readers.
func crossings() []row {
	var rows []row
	for _, d := range digestNames {
		rows = append(rows, row{name: d + ", closed", run: func(t *testing.T, x *cell) {
			l := x.legacy(t)
			r := x.other.open(t, l.closed[d], striped(d), false)
			require.Equal(t, ledgerState{r.id, r.ledger, legacyCount - 1, true, legacyCount * legacySize}, r.opened)
			x.expectRecovered(t, r, striped(d), legacyCount, legacySize)
		}}, row{name: d + ", writer killed", run: func(t *testing.T, x *cell) {
			l := x.legacy(t)
			r := x.other.open(t, l.open[d], striped(d), true)
			x.expectRecovered(t, r, striped(d), l.acked[d], legacySize)
		}})
	}
	return rows
}

// legacy gives what the column's writer left for its reader.
func (x *cell) legacy(t *testing.T) *legacy {
	t.Helper()
	x.cluster.settle(t, "")
	if l := x.w.legacies[x.column]; l != nil {
		return l
	}
	d := x.w.newDriver(t, t, x.client)
	c := newClient(t, t, d, x.client, x.cluster.uri, nil)
	l := &legacy{closed: map[string]int64{}, open: map[string]int64{}, acked: map[string]int64{}}
	open := map[string]*handle{}
	for _, digest := range digestNames {
		h := c.create(t, striped(digest))
		h.append(t, h.ledger, 0, sizesOf(legacyCount, legacySize)...)
		h.close(t)
		l.closed[digest] = h.ledger
		open[digest] = c.create(t, striped(digest))
		l.open[digest] = open[digest].ledger
	}
	for _, h := range open {
		h.stream(t, h.ledger, legacySize, 50)
	}
	for digest, h := range open {
		l.acked[digest] = h.awaitAcked(t, 200).Acked
	}
	d.kill()
	x.w.legacies[x.column] = l
	t.Log(fmt.Sprintf("%s left %v, confirmed %v", x.client, l.open, l.acked))
	return l
}
