//go:build interop

package interop

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// column is one client on one kind of cluster.
type column struct {
	client clientKind
	on     clusterKind
	reader clientKind // who reads what client wrote; "": both libraries
}

func (c column) String() string {
	if c.reader != "" {
		return fmt.Sprintf("%s → %s", c.client, c.reader)
	}
	return fmt.Sprintf("%s on %s", c.client, clusterTitles[c.on])
}

var clusterTitles = map[clusterKind]string{
	apacheCluster: "Apache bookies", loglodeCluster: "Loglode bookies", mixedCluster: "mixed ensembles",
}

// row is one operation; not names the clients that do not have it, and why.
type row struct {
	name string
	run  func(t *testing.T, x *cell)
	not  map[clientKind]string
}

// table is rows by columns, one test a cell.
type table struct {
	title   string
	text    string
	columns []column
	rows    []row
	results map[string]bool
}

// cell is what a test of the table works with.
type cell struct {
	w *world
	column
	cluster *cluster
	c       *client // of the column
	other   *client // of the other library, Apache's where the column's is ours; or the column's reader
}

const (
	passed   = "pass"
	failed   = "**fail**"
	notThere = "–"
)

func (tb *table) run(t *testing.T, w *world) {
	tb.results = map[string]bool{}
	for _, col := range tb.columns {
		t.Run(strings.ReplaceAll(col.String(), " ", "_"), func(t *testing.T) {
			for _, r := range tb.rows {
				if r.not[col.client] != "" {
					continue
				}
				t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
					defer func() { tb.results[key(r, col)] = !t.Failed() }()
					other := ours
					switch {
					case col.reader != "":
						other = col.reader
					case col.client == ours || os.Getenv(controlEnv) != "":
						other = javaV3
					}
					r.run(t, &cell{w: w, column: col, cluster: w.cluster(t, col.on), c: w.client(t, col.client, col.on), other: w.client(t, other, col.on)})
				})
			}
		})
	}
}

func key(r row, c column) string { return r.name + " / " + c.String() }

// complete reports whether each cell was run.
func (tb *table) complete() bool {
	for _, r := range tb.rows {
		for _, c := range tb.columns {
			if _, ran := tb.results[key(r, c)]; !ran && r.not[c.client] == "" {
				return false
			}
		}
	}
	return true
}

// markdown gives the table with its results.
func (tb *table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n| operation |", tb.title, tb.text)
	for _, c := range tb.columns {
		fmt.Fprintf(&b, " %s |", c)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(tb.columns)) + "\n")
	for _, r := range tb.rows {
		fmt.Fprintf(&b, "| %s |", r.name)
		for _, c := range tb.columns {
			text := failed
			switch {
			case r.not[c.client] != "":
				text = notThere
			case tb.results[key(r, c)]:
				text = passed
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	return b.String() + tb.notes()
}

// notes says what the cells without a result mean.
func (tb *table) notes() string {
	why := map[string]bool{}
	for _, r := range tb.rows {
		for c, reason := range r.not {
			if slices.ContainsFunc(tb.columns, func(x column) bool { return x.client == c }) {
				why[fmt.Sprintf("%s (%s)", reason, c)] = true
			}
		}
	}
	if len(why) == 0 {
		return ""
	}
	return fmt.Sprintf("\n%s %s.\n", notThere, strings.Join(slices.Sorted(maps.Keys(why)), "; "))
}

const docFile = "../../../docs/interop.md"

const docHead = `# Interoperation with Apache BookKeeper

What the tests in ` + "`cmd/internal/interop`" + ` found the last time all of them ran: Apache BookKeeper 4.17.2 and ZooKeeper
3.9.3, as real processes. ` + "`make interop`" + ` runs them and writes this page anew.

"Java v3" and "Java v2" are Apache's Java client with either version of the wire protocol. Loglode's client uses version
2 for adds, reads and batch reads, and version 3 for the rest. What one client wrote is read back by the other too, and
compared byte for byte; so are the ledgers' metadata. Metadata are in ZooKeeper: of Apache's etcd driver there is no jar,
and that layout is tested against golden vectors (` + "`metadata/layout/testdata/etcd_keys.json`" + `).
`

// writeDoc brings docs/interop.md up to date if all was run.
func writeDoc(t *testing.T, tables ...*table) {
	text := docHead
	for _, tb := range tables {
		if !tb.complete() {
			t.Logf("%q was not run in full: %s stays as it is", tb.title, docFile)
			return
		}
		text += "\n" + tb.markdown()
	}
	old, err := os.ReadFile(docFile)
	if err == nil && bytes.Equal(old, []byte(text)) {
		return
	}
	require.NoError(t, os.WriteFile(docFile, []byte(text), 0o644))
	t.Logf("%s has changed", docFile)
}
