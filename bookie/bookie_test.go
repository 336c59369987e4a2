package bookie

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/bookie/bk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testKey = func() []byte { k := bk.MasterKey([]byte("pw")); return k[:] }()

var testDigest = func() *bk.Digester {
	d, err := bk.NewDigester(bk.DigestCRC32C, []byte("pw"))
	if err != nil {
		panic(err)
	}
	return d
}()

// body is an entry whose LAC is the entry before it.
func body(l bk.LedgerID, e bk.EntryID, payload string) []byte {
	return testDigest.AppendEntry(nil, l, e, e-1, int64(len(payload))*int64(e+1), []byte(payload))
}

func smallOptions(fs vfs.FS) Options {
	return Options{FS: fs, JournalDirs: []string{"/j"}, LedgerDirs: []string{"/l"},
		JournalFileBytes: 64 << 10, WriteCacheBytes: 64 << 10, EntryLogBytes: 128 << 10, IndexCacheBytes: 1 << 20}
}

func open(t testing.TB, o Options) *Bookie {
	t.Helper()
	b, err := Open(t.Context(), o)
	require.NoError(t, err)
	return b
}

// chanSink hands results over to a test.
type chanSink struct{ c chan AddResult }

func newSink(n int) *chanSink { return &chanSink{make(chan AddResult, n)} }

func (s *chanSink) AddsDone(rs []AddResult) {
	for _, r := range rs {
		s.c <- r
	}
}

// add stores one entry and waits for its status.
func add(b *Bookie, flags AddFlags, bodies ...[]byte) []bk.Status {
	sink := newSink(len(bodies))
	var adds []Add
	for i, body := range bodies {
		a := Add{MasterKey: testKey, Body: body, Flags: flags, Tag: uint64(i)}
		if len(body) >= bk.MinBodySize {
			a.Ledger, a.Entry = bk.BodyLedger(body), bk.BodyEntry(body)
		}
		adds = append(adds, a)
	}
	b.AddBatch(sink, adds)
	out := make([]bk.Status, len(bodies))
	for range bodies {
		r := <-sink.c
		out[r.Tag] = r.Status
	}
	return out
}

func TestAddReadFlushRestart(t *testing.T) {
	fs := vfs.NewCrashableMem()
	b := open(t, smallOptions(fs))
	var bodies [][]byte
	for e := range bk.EntryID(300) {
		bodies = append(bodies, body(7, e, fmt.Sprintf("payload %d %0500d", e, e)))
	}
	for _, s := range add(b, 0, bodies...) {
		require.Equal(t, bk.StatusOK, s)
	}
	check := func(b *Bookie) {
		t.Helper()
		for e, want := range bodies {
			got, s := b.Read(7, bk.EntryID(e), nil)
			require.Equal(t, bk.StatusOK, s, "entry %d", e)
			require.Equal(t, want, got)
		}
		got, s := b.Read(7, bk.InvalidEntryID, nil)
		require.Equal(t, bk.StatusOK, s)
		require.Equal(t, bodies[299], got)
		_, s = b.Read(7, 300, nil)
		require.Equal(t, bk.StatusNoEntry, s)
		_, s = b.Read(8, 0, nil)
		require.Equal(t, bk.StatusNoLedger, s)
		lac, s := b.LAC(7)
		require.Equal(t, bk.StatusOK, s)
		require.Equal(t, bk.EntryID(298), lac)
	}
	check(b)
	require.NoError(t, b.Flush())
	check(b)
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, b.Close())
	for _, f := range []vfs.FS{fs, crashed} {
		b = open(t, smallOptions(f))
		check(b)
		require.NoError(t, b.Close())
	}
}
