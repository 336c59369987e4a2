package index

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/entrylog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openIndex(t testing.TB, fs vfs.FS) *Index {
	t.Helper()
	require.NoError(t, fs.MkdirAll("/i", 0o755))
	c := NewCache(1 << 20)
	defer c.Release()
	x, err := Open(Options{FS: fs, Dir: "/i", Cache: c, Logger: zap.NewNop()})
	require.NoError(t, err)
	return x
}

type key struct {
	l bk.LedgerID
	e bk.EntryID
}

// TestFindAgainstAMap flushes random sorted sets, some of them overlapping, and
// compares with a map in which the last flush wins.
func TestFindAgainstAMap(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewCrashableMem()
	x := openIndex(t, fs)
	want := map[key]Place{}
	high := map[bk.LedgerID]bk.EntryID{}
	unordered := map[bk.LedgerID]bool{}
	off := int64(32)
	for flush := range 12 {
		b := x.NewBatch()
		for l := range bk.LedgerID(6) {
			if l == 5 {
				l = 1<<63 - 1
			}
			first := high[l] + 1
			if l%2 == 1 && rng.IntN(3) == 0 {
				first = bk.EntryID(rng.IntN(int(high[l])+1)) - 10
			}
			if _, ok := high[l]; ok && first <= high[l] {
				unordered[l] = true
			}
			e := first
			for range rng.IntN(400) {
				p := Place{Log: entrylog.LogID(1 + flush/5), Offset: off, Size: 24 + rng.IntN(2)*rng.IntN(3)}
				require.NoError(t, b.Add(l, e, p))
				want[key{l, e}] = p
				off += int64(p.Size) + entrylog.RecordOverhead
				high[l] = max(high[l], e)
				e += 1 + bk.EntryID(rng.IntN(2)*rng.IntN(2)*rng.IntN(3000))
			}
		}
		require.NoError(t, b.SetMark([]Mark{{uint64(flush), 2}, {3, 4}}))
		require.NoError(t, b.Commit())
	}
	check := func(x *Index) {
		t.Helper()
		ids := map[bk.LedgerID][]bk.EntryID{}
		for k, p := range want {
			got, ok, err := x.Find(k.l, k.e, unordered[k.l])
			require.NoError(t, err)
			require.True(t, ok, "%v", k)
			require.Equal(t, p, got, "%v", k)
			ids[k.l] = append(ids[k.l], k.e)
			if _, in := want[key{k.l, k.e + 1}]; !in {
				_, ok, err := x.Find(k.l, k.e+1, unordered[k.l])
				require.NoError(t, err)
				require.False(t, ok, "%v", k)
			}
		}
		for l, list := range ids {
			slices.Sort(list)
			got, err := x.Entries(l, nil)
			require.NoError(t, err)
			slices.Sort(got)
			require.Equal(t, list, slices.Compact(got))
		}
		marks, err := x.Marks()
		require.NoError(t, err)
		require.Equal(t, []Mark{{11, 2}, {3, 4}}, marks)
	}
	check(x)
	y := openIndex(t, fs.CrashClone(vfs.CrashCloneCfg{}))
	check(y)
	require.NoError(t, y.Close())
	require.NoError(t, x.Close())
}

func docHex(t testing.TB, page, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "format", page))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "```hex "+name+"\n")
	require.True(t, ok, "no example %q in %s", name, page)
	block, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	block = regexp.MustCompile(`(?m)#.*$`).ReplaceAllString(block, "")
	b, err := hex.DecodeString(strings.Join(strings.Fields(block), ""))
	require.NoError(t, err)
	return b
}

func TestDocumentedExtents(t *testing.T) {
	for name, x := range map[string]extent{
		"extent":  {ledger: 7, log: 1, off: 32, ids: []bk.EntryID{0, 1, 2}, sizes: []uint32{38, 38, 38}},
		"striped": {ledger: 7, log: 1, off: 170, ids: []bk.EntryID{3, 5, 6}, sizes: []uint32{38, 38, 1060}},
	} {
		k, v := docHex(t, "index.md", name+"-key"), docHex(t, "index.md", name+"-value")
		require.Equal(t, hex.EncodeToString(k), hex.EncodeToString(x.appendKey(nil)))
		require.Equal(t, hex.EncodeToString(v), hex.EncodeToString(x.appendValue(nil)))
		var got extent
		require.NoError(t, got.parse(k, v))
		require.Equal(t, x, got)
	}
}

// FuzzExtent takes any bytes as an extent: an answer, never a panic, and what
// is taken is written back as an extent that says the same.
func FuzzExtent(f *testing.F) {
	x := extent{ledger: 7, log: 1, off: 170, ids: []bk.EntryID{3, 5, 6}, sizes: []uint32{38, 38, 1060}}
	f.Add(x.appendKey(nil), x.appendValue(nil))
	x = extent{ledger: 7, log: 1, off: 32, ids: []bk.EntryID{0, 1, 2}, sizes: []uint32{38, 38, 38}}
	f.Add(x.appendKey(nil), x.appendValue(nil))
	f.Fuzz(func(t *testing.T, k, v []byte) {
		var x, again extent
		if err := x.parse(k, v); err != nil {
			_ = fmt.Sprint(err) // it must be printable
			return
		}
		require.NoError(t, again.parse(x.appendKey(nil), x.appendValue(nil)))
		require.Equal(t, x, again)
	})
}
