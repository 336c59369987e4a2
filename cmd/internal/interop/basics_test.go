//go:build interop

package interop

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// both runs f with the column's client and with the one of the other library.
func (x *cell) both(t *testing.T, f func(t *testing.T, c *client)) {
	t.Helper()
	for _, c := range []*client{x.c, x.other} {
		t.Run("by "+string(c.kind), func(t *testing.T) { f(t, c) })
	}
}

// mixedSizes is n payload sizes, empty ones and large ones among them.
func mixedSizes(n int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = i * 37 % 1500
	}
	sizes[n/2] = 300_000
	return sizes
}

func testCreate(t *testing.T, x *cell) {
	s := usual
	s.custom = map[string]string{"application": "interop", "empty": ""}
	h := x.c.create(t, s)
	want := metadataView{
		Format: 3, Ensemble: 3, Write: 3, Ack: 2, State: "OPEN", Last: -1, Digest: "CRC32C", Password: "secret",
		Custom: s.custom,
	}
	x.both(t, func(t *testing.T, c *client) {
		m := c.metadata(t, h.ledger)
		require.Len(t, m.Segments, 1)
		require.Len(t, m.Segments[0].Bookies, 3)
		want.Segments = m.Segments
		require.Equal(t, want, m)
	})
	h.append(t, h.ledger, 0, 10, 0, 5)
	h.close(t)
	want.State, want.Last, want.Length = "CLOSED", 2, 15
	x.both(t, func(t *testing.T, c *client) {
		require.Equal(t, want, c.metadata(t, h.ledger))
		var ids []int64
		c.call(t, "ledgers", nil, &ids)
		require.Contains(t, ids, h.ledger)
	})
}

func testChosenID(t *testing.T, x *cell) {
	s := usual
	s.ledger, s.advanced = x.w.chosenID(), true
	h := x.c.create(t, s)
	require.Equal(t, s.ledger, h.ledger)
	for _, c := range []*client{x.c, x.other} {
		_, err := c.tryCreate(t, s)
		require.Equal(t, codeLedgerExists, code(err), "%v", err)
	}
	h.close(t)
	x.both(t, func(t *testing.T, c *client) {
		var ids []int64
		c.call(t, "ledgers", nil, &ids)
		require.Contains(t, ids, s.ledger)
		require.True(t, c.open(t, s.ledger, s, false).opened.Closed)
	})
}

func testAppend(t *testing.T, x *cell) {
	h := x.c.create(t, usual)
	sizes := mixedSizes(3000)
	h.append(t, h.ledger, 0, sizes...)
	h.close(t)
	x.both(t, func(t *testing.T, c *client) {
		r := c.open(t, h.ledger, usual, false)
		require.True(t, r.opened.Closed)
		require.EqualValues(t, 2999, r.opened.LAC)
		r.expect(t, h.ledger, sizes...)
	})
}

func testRead(t *testing.T, x *cell) {
	h := x.c.create(t, usual)
	sizes := mixedSizes(100)
	h.append(t, h.ledger, 0, sizes[:99]...)
	h.append(t, h.ledger, 99, sizes[99])
	x.both(t, func(t *testing.T, c *client) {
		r := c.open(t, h.ledger, usual, false)
		require.False(t, r.opened.Closed)
		require.GreaterOrEqual(t, r.readLAC(t), int64(98), "entry 99 tells of entry 98")
		for _, first := range []int64{0, 17, 50, 98} {
			require.Equal(t, []entry{wantEntry(h.ledger, first, sizes[first])}, r.read(t, first, first))
		}
		require.Equal(t, []entry{wantEntry(h.ledger, 50, sizes[50]), wantEntry(h.ledger, 51, sizes[51])}, r.read(t, 50, 51))
		_, err := r.tryRead(t, 0, 100)
		require.Equal(t, codeReadPastLAC, code(err), "%v", err)
	})
	h.close(t)
}

func testUnconfirmed(t *testing.T, x *cell) {
	h := x.c.create(t, usual)
	h.append(t, h.ledger, 0, 100, 200, 300)
	x.both(t, func(t *testing.T, c *client) {
		r := c.open(t, h.ledger, usual, false)
		want := []entry{wantEntry(h.ledger, 0, 100), wantEntry(h.ledger, 1, 200), wantEntry(h.ledger, 2, 300)}
		require.Equal(t, want, r.read(t, 0, 2, "unconfirmed"))
		_, err := r.tryRead(t, 3, 3, "unconfirmed")
		require.Equal(t, codeNoSuchEntry, code(err), "%v", err)
	})
	h.close(t)
}

func testBatchRead(t *testing.T, x *cell) {
	h := x.c.create(t, usual)
	sizes := mixedSizes(2000)
	h.append(t, h.ledger, 0, sizes...)
	h.close(t)
	r := x.c.open(t, h.ledger, usual, false)
	got := r.read(t, 0, 1999, "batch")
	require.Len(t, got, 2000)
	for i, e := range got {
		require.Equal(t, wantEntry(h.ledger, int64(i), sizes[i]), e)
	}
}

// testTail reads a ledger while another client writes it.
func testTail(t *testing.T, x *cell) {
	const count, size = 400, 700
	h := x.c.create(t, usual)
	h.stream(t, h.ledger, size, 20)
	h.awaitAcked(t, 1)
	x.both(t, func(t *testing.T, c *client) {
		r := c.open(t, h.ledger, usual, false)
		for next := int64(0); next < count; {
			lac := r.readLAC(t)
			for ; next <= lac && next < count; next++ {
				require.Equal(t, []entry{wantEntry(h.ledger, next, size)}, r.read(t, next, next))
			}
		}
	})
	p := h.finish(t)
	require.Empty(t, p.Error)
	h.close(t)
	r := x.other.open(t, h.ledger, usual, false)
	require.Equal(t, p.Acked-1, r.opened.LAC)
	require.Equal(t, p.Acked*size, r.opened.Length)
}

// testLongPoll: a poll that waits is answered by the entry after the one it
// waits for, with the entry in it.
func testLongPoll(t *testing.T, x *cell) {
	h := x.c.create(t, usual)
	h.append(t, h.ledger, 0, 100)
	for _, c := range []*client{x.c, x.other} {
		if c.kind == javaV2 {
			continue
		}
		r := c.open(t, h.ledger, usual, false)
		next := h.state(t).LAC + 1
		answers := make(chan polled, 1)
		go func() {
			var p polled
			if err := r.try(t, "poll", map[string]any{"entry": next, "timeoutMillis": 50_000}, &p); err != nil {
				t.Errorf("poll: %v", err)
			}
			answers <- p
		}()
		began := time.Now()
		h.append(t, h.ledger, next, 111)
		h.append(t, h.ledger, next+1, 222)
		got := <-answers
		require.NotNil(t, got.Entry, "%v", c.kind)
		require.Equal(t, wantEntry(h.ledger, next, 111), *got.Entry)
		require.GreaterOrEqual(t, got.LAC, next)
		require.Less(t, time.Since(began), 40*time.Second, "a poll answered by its timeout")

		quiet := r.poll(t, next+2, 300*time.Millisecond)
		require.Nil(t, quiet.Entry, "nothing was written")
	}
	h.close(t)
}

// testExplicitLAC: the last entry becomes readable though nothing follows it.
func testExplicitLAC(t *testing.T, x *cell) {
	c := newClient(t, t, x.c.d, x.c.kind, x.c.uri, map[string]any{"explicitLAC": 50})
	h := c.create(t, usual)
	h.append(t, h.ledger, 0, 10, 20, 30)
	x.both(t, func(t *testing.T, c *client) {
		if c.kind == javaV2 {
			return
		}
		r := c.open(t, h.ledger, usual, false)
		require.Eventually(t, func() bool { return r.readLAC(t) == 2 }, 20*time.Second, 10*time.Millisecond)
		require.Equal(t, []entry{wantEntry(h.ledger, 2, 30)}, r.read(t, 2, 2))
	})
	h.close(t)
}

func testDeferredSync(t *testing.T, x *cell) {
	s := usual
	s.deferred = true
	h := x.c.create(t, s)
	h.append(t, h.ledger, 0, sizesOf(50, 300)...)
	require.EqualValues(t, -1, h.state(t).LAC, "adds alone do not move the LAC")
	h.call(t, "force", nil, nil)
	require.EqualValues(t, 49, h.state(t).LAC)
	h.append(t, h.ledger, 50, 7)
	h.call(t, "force", nil, nil)
	h.close(t)
	x.both(t, func(t *testing.T, c *client) {
		c.open(t, h.ledger, s, false).expect(t, h.ledger, append(sizesOf(50, 300), 7)...)
	})
}

// testForce: force of an ordinary ledger has nothing left to do.
func testForce(t *testing.T, x *cell) {
	h := x.c.create(t, usual)
	h.append(t, h.ledger, 0, 1, 2, 3)
	h.call(t, "force", nil, nil)
	require.EqualValues(t, 2, h.state(t).LAC)
	h.close(t)
}

func testDelete(t *testing.T, x *cell) {
	h := x.c.create(t, usual)
	h.append(t, h.ledger, 0, 1, 2, 3)
	h.close(t)
	x.c.call(t, "delete", map[string]any{"ledger": h.ledger}, nil)
	x.both(t, func(t *testing.T, c *client) {
		_, err := c.tryOpen(t, h.ledger, usual, false)
		require.Equal(t, codeNoSuchLedger, code(err), "%v", err)
		var ids []int64
		c.call(t, "ledgers", nil, &ids)
		require.NotContains(t, ids, h.ledger)
	})
}

// testAdvanced: entries under ids that the caller chooses, in any order.
func testAdvanced(t *testing.T, x *cell) {
	s := usual
	s.advanced = true
	h := x.c.create(t, s)
	ids := []int64{3, 0, 2, 1, 7, 6, 5, 4}
	var got []int64
	h.call(t, "write", map[string]any{"seed": h.ledger, "size": 123, "ids": ids}, &got)
	require.Equal(t, ids, got)
	h.close(t)
	x.both(t, func(t *testing.T, c *client) {
		c.open(t, h.ledger, s, false).expect(t, h.ledger, sizesOf(8, 123)...)
	})
}

// testEntries: each bookie tells which entries of a striped ledger it has.
func testEntries(t *testing.T, x *cell) {
	s := spec{e: 3, w: 2, a: 2, digest: "CRC32", password: "p"}
	h := x.c.create(t, s)
	const count = 20
	h.append(t, h.ledger, 0, sizesOf(count, 50)...)
	h.close(t)
	segment := x.c.metadata(t, h.ledger).Segments[0]
	for _, c := range []*client{x.c, x.other} {
		if c.kind == javaV2 {
			continue
		}
		for i, b := range segment.Bookies {
			var want []int64
			for e := range int64(count) {
				if k := (int64(i) - e%3 + 3) % 3; k < 2 {
					want = append(want, e)
				}
			}
			var got []int64
			require.Eventually(t, func() bool { // a bookie may count late copies too
				c.call(t, "entries", map[string]any{"bookie": b, "ledger": h.ledger, "count": count}, &got)
				return slices.Equal(want, got)
			}, 20*time.Second, 50*time.Millisecond, "%s has %v, want %v", b, got, want)
		}
	}
}

func testBookieInfo(t *testing.T, x *cell) {
	for _, c := range []*client{x.c, x.other} {
		if c.kind == javaV2 {
			continue
		}
		var info map[string][2]int64
		c.call(t, "bookieInfo", nil, &info)
		require.Len(t, info, len(x.cluster.bookies))
		for _, b := range x.cluster.bookies {
			total, free := info[b.id][0], info[b.id][1]
			require.Positive(t, free, "%s", b.id)
			require.GreaterOrEqual(t, total, free)
		}
	}
}
