package writecache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
)

func testBody(l bk.LedgerID, e bk.EntryID, payload string) []byte {
	d, err := bk.NewDigester(bk.DigestDummy, nil)
	if err != nil {
		panic(err)
	}
	return d.AppendEntry(nil, l, e, 0, 0, []byte(payload))
}

// TestAgainstAMap compares a cache with a map through puts, flushes and reads.
func TestAgainstAMap(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := New(256 << 10)
	defer c.Close()
	type key struct {
		l bk.LedgerID
		e bk.EntryID
	}
	active, frozen, stored := map[key]string{}, map[key]string{}, map[key]string{}
	for step := range 30_000 {
		k := key{bk.LedgerID(rng.IntN(20)), bk.EntryID(rng.IntN(400) - 3)}
		payload := fmt.Sprintf("%d %0*d", step, rng.IntN(60), step)
		if c.Put([][]byte{testBody(k.l, k.e, payload)}) {
			active[k] = payload
		} else {
			a := c.Freeze()
			frozen, active = active, map[key]string{}
			last, n := key{-1, 0}, 0
			require.NoError(t, a.Sorted(func(l bk.LedgerID, e bk.EntryID, body []byte) error {
				require.True(t, l > last.l || l == last.l && e > last.e)
				last = key{l, e}
				require.Equal(t, testBody(l, e, frozen[last]), body)
				n++
				return nil
			}))
			require.Equal(t, len(frozen), n)
			require.Equal(t, n, a.Len())
			if len(frozen) > 0 {
				_, found := c.Get(last.l, last.e, nil)
				require.True(t, found, "a frozen entry is still found")
			}
			for k, v := range frozen {
				stored[k] = v
			}
			c.Drop()
			frozen = map[key]string{}
		}
		k = key{bk.LedgerID(rng.IntN(20)), bk.EntryID(rng.IntN(400) - 3)}
		got, found := c.Get(k.l, k.e, nil)
		want, has := active[k]
		require.Equal(t, has, found)
		if has {
			require.Equal(t, testBody(k.l, k.e, want), got)
		}
	}
	require.Greater(t, len(stored), 1000)
}

func TestEntryLargerThanTheArena(t *testing.T) {
	c := New(4 << 10)
	defer c.Close()
	big := testBody(1, 1, string(make([]byte, 64<<10)))
	for range 3 {
		require.True(t, c.Put([][]byte{big}))
		require.False(t, c.Put([][]byte{testBody(1, 2, "")}))
		got, ok := c.Get(1, 1, nil)
		require.True(t, ok)
		require.Equal(t, big, got)
		c.Freeze()
		require.True(t, c.Put([][]byte{testBody(1, 2, "")}))
		c.Drop()
		c.Freeze()
		c.Drop()
	}
}
