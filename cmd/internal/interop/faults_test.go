//go:build interop

package interop

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testPassword: a client with the wrong password gets nothing.
func testPassword(t *testing.T, x *cell) {
	h := x.c.create(t, usual)
	h.append(t, h.ledger, 0, 10, 20)
	wrong := usual
	wrong.password = "other"
	x.both(t, func(t *testing.T, c *client) {
		for _, recoverIt := range []bool{false, true} {
			_, err := c.tryOpen(t, h.ledger, wrong, recoverIt)
			require.Equal(t, codeUnauthorized, code(err), "%v", err)
		}
	})
	h.append(t, h.ledger, 2, 30)
	h.close(t)
}

// testKey: a client that comes to the bookies with the wrong key cannot fence a
// ledger, let alone recover it.
func testKey(t *testing.T, x *cell) {
	wrong := usual
	wrong.password = "other"
	x.both(t, func(t *testing.T, c *client) {
		h := x.c.create(t, usual)
		h.append(t, h.ledger, 0, 10, 20)
		x.w.client(t, ours, x.on).call(t, "setPassword", map[string]any{"ledger": h.ledger, "password": wrong.password}, nil)
		_, err := c.tryOpen(t, h.ledger, wrong, true)
		require.Equal(t, codeUnauthorized, code(err), "%v", err)
		h.append(t, h.ledger, 2, 30) // its writer is not fenced
		c.open(t, h.ledger, wrong, false).expect(t, h.ledger, 10, 20)
	})
}

// testFence: who recovers a ledger ends its writer, and the ledger has all that
// was confirmed to it.
func testFence(t *testing.T, x *cell) {
	x.both(t, func(t *testing.T, c *client) {
		h := x.c.create(t, usual)
		h.append(t, h.ledger, 0, sizesOf(50, 400)...)
		r := c.open(t, h.ledger, usual, true)
		require.True(t, r.opened.Closed)
		require.EqualValues(t, 49, r.opened.LAC)
		err := h.try(t, "append", map[string]any{"seed": h.ledger, "index": 50, "sizes": []int{10}}, nil)
		require.Contains(t, []int{codeFenced, codeLedgerClosed}, code(err), "%v", err)
		r.expect(t, h.ledger, sizesOf(50, 400)...)
		require.EqualValues(t, 50*400, r.opened.Length)
	})
}

// testTakeover: a client recovers the ledger of a writer in full flight.
func testTakeover(t *testing.T, x *cell) {
	x.both(t, func(t *testing.T, c *client) {
		const size = 900
		h := x.c.create(t, usual)
		h.stream(t, h.ledger, size, 50)
		h.awaitAcked(t, 200)
		r := c.open(t, h.ledger, usual, true)
		p := h.finish(t)
		require.NotEmpty(t, p.Error, "the writer goes on after a recovery")
		require.Contains(t, []int{codeFenced, codeLedgerClosed}, p.Code, "%s", p.Error)
		x.expectRecovered(t, r, usual, p.Acked, size)
	})
}

// testTwoRecoverers: both clients recover the ledger of a writer in full flight
// at the same time, and find the same.
func testTwoRecoverers(t *testing.T, x *cell) {
	const size = 900
	h := x.c.create(t, usual)
	h.stream(t, h.ledger, size, 50)
	h.awaitAcked(t, 200)
	clients := []*client{x.c, x.other}
	rs, errs := make([]*handle, 2), make([]error, 2)
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { rs[i], errs[i] = c.tryOpen(t, h.ledger, usual, true) })
	}
	wg.Wait()
	p := h.finish(t)
	require.Contains(t, []int{codeFenced, codeLedgerClosed}, p.Code, "%s", p.Error)
	for i, r := range rs {
		require.NoError(t, errs[i])
		require.Equal(t, rs[0].opened.LAC, r.opened.LAC)
		x.expectRecovered(t, r, usual, p.Acked, size)
	}
}

// expectRecovered checks a ledger after recovery: closed, with all that was
// confirmed, and the same to both clients.
func (x *cell) expectRecovered(t *testing.T, r *handle, s spec, acked int64, size int) {
	t.Helper()
	require.True(t, r.opened.Closed)
	require.GreaterOrEqual(t, r.opened.LAC+1, acked, "confirmed entries are lost")
	require.Equal(t, (r.opened.LAC+1)*int64(size), r.opened.Length)
	sizes := sizesOf(r.opened.LAC+1, size)
	m := x.c.metadata(t, r.ledger)
	require.Equal(t, "CLOSED", m.State)
	require.Equal(t, m, x.other.metadata(t, r.ledger), "metadata as both clients show them")
	for _, c := range []*client{x.c, x.other} {
		c.open(t, r.ledger, s, false).expect(t, r.ledger, sizes...)
	}
}

// testWriterKilled: the writer's process gets SIGKILL; either client recovers.
func testWriterKilled(t *testing.T, x *cell) {
	const size = 900
	d := x.w.newDriver(t, t, x.c.kind)
	victim := newClient(t, t, d, x.c.kind, x.c.uri, nil)
	clients := []*client{x.c, x.other}
	hs := []*handle{victim.create(t, usual), victim.create(t, usual)}
	acked := make([]int64, len(hs))
	for _, h := range hs {
		h.stream(t, h.ledger, size, 50)
	}
	for i, h := range hs {
		acked[i] = h.awaitAcked(t, 300).Acked
	}
	d.kill()
	for i, h := range hs {
		r := clients[i].open(t, h.ledger, usual, true)
		x.expectRecovered(t, r, usual, acked[i], size)
	}
}

// testBookieKilled: a bookie gets SIGKILL under a writer, which goes on with
// another one.
func testBookieKilled(t *testing.T, x *cell) {
	x.cluster.settle(t, "")
	x.changeEnsemble(t, x.c.create(t, usual), "")
}

// changeEnsemble streams to a ledger and kills a bookie of its ensemble, one of
// a kind if that is not "".
func (x *cell) changeEnsemble(t *testing.T, h *handle, kind bookieKind) {
	t.Helper()
	const size = 900
	before := x.c.metadata(t, h.ledger).Segments[0].Bookies
	i := slices.IndexFunc(before, func(id string) bool { return kind == "" || x.cluster.find(t, id).kind == kind })
	require.GreaterOrEqual(t, i, 0)
	h.stream(t, h.ledger, size, 50)
	at := h.awaitAcked(t, 200).Acked
	followers := []*handle{x.c.open(t, h.ledger, usual, false), x.other.open(t, h.ledger, usual, false)}
	x.cluster.kill(t, x.cluster.find(t, before[i]))
	h.awaitAcked(t, at+500)
	p := h.finish(t)
	require.Empty(t, p.Error)
	h.close(t)

	m := x.c.metadata(t, h.ledger)
	require.Equal(t, m, x.other.metadata(t, h.ledger), "metadata as both clients show them")
	require.Equal(t, p.Acked-1, m.Last)
	last := m.Segments[len(m.Segments)-1]
	require.NotContains(t, last.Bookies, before[i])
	for k := range before {
		if k != i {
			require.Equal(t, before[k], last.Bookies[k], "who did not fail stays where it is")
		}
	}
	x.both(t, func(t *testing.T, c *client) { // with the bookie down
		c.open(t, h.ledger, usual, false).expect(t, h.ledger, sizesOf(p.Acked, size)...)
	})
	for _, r := range followers { // opened before the change
		require.Eventually(t, func() bool { return r.readLAC(t) == m.Last }, callLimit, 20*time.Millisecond, "%s", r.c.kind)
		r.expect(t, h.ledger, sizesOf(p.Acked, size)...)
	}
}

// testRecoverWithBookieDown: a bookie of the ensemble is dead when the ledger is
// recovered.
func testRecoverWithBookieDown(t *testing.T, x *cell) {
	const size = 400
	x.cluster.settle(t, "")
	clients := []*client{x.c, x.other}
	hs := []*handle{x.c.create(t, usual), x.c.create(t, usual)}
	for _, h := range hs {
		h.append(t, h.ledger, 0, sizesOf(100, size)...)
	}
	x.cluster.kill(t, x.cluster.find(t, x.c.metadata(t, hs[0].ledger).Segments[0].Bookies[1]))
	for i, h := range hs {
		r := clients[i].open(t, h.ledger, usual, true)
		require.EqualValues(t, 99, r.opened.LAC)
		x.expectRecovered(t, r, usual, 100, size)
	}
}

// testDigests: each digest type, striped, closed and recovered.
func testDigests(t *testing.T, x *cell) {
	for _, digest := range []string{"CRC32", "CRC32C", "MAC", "DUMMY"} {
		t.Run(digest, func(t *testing.T) {
			s := spec{e: 3, w: 2, a: 2, digest: digest, password: fmt.Sprintf("pass of %s", digest)}
			closed, open := x.c.create(t, s), x.c.create(t, s)
			sizes := mixedSizes(300)
			for _, h := range []*handle{closed, open} {
				h.append(t, h.ledger, 0, sizes...)
			}
			closed.close(t)
			r := x.other.open(t, open.ledger, s, true)
			require.EqualValues(t, 299, r.opened.LAC)
			x.both(t, func(t *testing.T, c *client) {
				for _, l := range []int64{closed.ledger, open.ledger} {
					c.open(t, l, s, false).expect(t, l, sizes...)
				}
			})
		})
	}
}

// testChecker: Java's ledger checker finds every copy where the metadata say it
// is, also after an ensemble change.
func testChecker(t *testing.T, x *cell) {
	checker := x.w.client(t, javaV3, x.on)
	s := spec{e: 3, w: 2, a: 2, digest: "CRC32C", password: ""}
	for _, n := range []int{0, 1, 500} {
		h := x.c.create(t, s)
		h.append(t, h.ledger, 0, sizesOf(int64(n), 100)...)
		h.close(t)
		var missing []string
		checker.call(t, "check", map[string]any{"ledger": h.ledger}, &missing)
		require.Empty(t, missing)
	}
}

// testShell: BookieShell tells of a ledger what both clients do.
func testShell(t *testing.T, x *cell) {
	s := spec{e: 3, w: 2, a: 2, digest: "MAC", password: "", custom: map[string]string{"k": "v"}}
	h := x.c.create(t, s)
	h.append(t, h.ledger, 0, 100, 200)
	h.close(t)
	out, err := x.w.j.Shell(t.Context(), x.w.dir, x.cluster.uri, "ledgermetadata", "-ledgerid", fmt.Sprint(h.ledger))
	require.NoError(t, err)
	lines := strings.Split(out, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "LedgerMetadata{") })
	require.GreaterOrEqual(t, i, 0, "%s", out)
	m := x.c.metadata(t, h.ledger)
	for _, part := range []string{
		"formatVersion=3", "ensembleSize=3", "writeQuorumSize=2", "ackQuorumSize=2", "state=CLOSED", "length=300", "lastEntryId=1",
		"digestType=MAC", "ensembles={0=[" + strings.Join(m.Segments[0].Bookies, ", ") + "]}", "customMetadata={k=base64:dg==}",
	} {
		require.Contains(t, lines[i], part)
	}
}
