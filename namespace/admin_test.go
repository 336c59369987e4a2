package namespace

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/readers"
	"github.com/loglode/loglode/stream"
)

func TestNamespacesThemselves(t *testing.T) {
	s := startSystem(t, 1)
	with := WithStore(s.Store)
	require.ErrorIs(t, CreateNamespace(bg(t), nsURI, clusterURI, with), ErrNamespaceExists)
	require.ErrorIs(t, CreateNamespace(bg(t), "mem://test/x", "mem://test/nothing", with), ErrNoCluster)
	require.ErrorIs(t, CreateNamespace(bg(t), "mem://test/x", "etcd://test/bk", with), ErrInvalidURI)
	require.NoError(t, CreateNamespace(bg(t), "mem://test/deep/er/two", clusterURI, with))
	b, err := Show(bg(t), nsURI, with)
	require.NoError(t, err)
	require.Equal(t, "/bk", b.ClusterScope)
	require.Equal(t, "test", b.ClusterServers)
	require.Equal(t, b, s.ns.Binding())
	node, err := s.Store.Get(bg(t), "/ns")
	require.NoError(t, err)
	require.Equal(t, "1\nBKDL\n"+`{"1":{"str":"test"},"2":{"str":"/bk"},"3":{"tf":1},"4":{"tf":0},"5":{"str":"test"},"6":{"str":"test"},"7":{"str":"test"}}`, string(node.Value))
	var uris []string
	for u, err := range ListNamespaces(bg(t), "mem://test/deep", with) {
		require.NoError(t, err)
		uris = append(uris, u)
	}
	require.Equal(t, []string{"mem://test/deep/er/two"}, uris)
	require.NoError(t, s.ns.Create(bg(t), "a/b", stream.Config{Quorum: stream.Quorum{Ensemble: 1}}))
	require.ErrorIs(t, RemoveNamespace(bg(t), nsURI, with), ErrNotEmpty)
	require.NoError(t, s.ns.Delete(bg(t), "a/b"))
	require.NoError(t, RemoveNamespace(bg(t), "mem://test/deep/er/two", with))
	require.ErrorIs(t, RemoveNamespace(bg(t), "mem://test/deep/er/two", with), ErrNotNamespace)
	_, err = Open(bg(t), "mem://test/deep/er/two", with)
	require.ErrorIs(t, err, ErrNotNamespace)
	_, err = Show(bg(t), "mem://test/deep", with)
	require.ErrorIs(t, err, ErrNotNamespace)
}

func TestBadURIs(t *testing.T) {
	for _, uri := range []string{"", "x", "/ns", "mem://", "mem://a", "mem://a/", "mem:///ns", "mem://a/x/../y", "mem://a/x//y", "mem://a/\x00", "://a/b"} {
		_, err := Open(bg(t), uri)
		require.ErrorIs(t, err, ErrInvalidURI, "%q", uri)
		require.ErrorIs(t, RemoveNamespace(bg(t), uri), ErrInvalidURI, "%q", uri)
	}
	_, err := Open(bg(t), "ftp://host/ns")
	require.Error(t, err)
	_, err = Open(bg(t), nsURI, WithTimeout(-1))
	require.ErrorContains(t, err, "timeout")
}

// What a user can get wrong about a stream is a typed error that names it, and
// leaves nothing behind.
func TestBadInput(t *testing.T) {
	s := startSystem(t, 2)
	one := stream.Config{Quorum: stream.Quorum{Ensemble: 1}}
	require.NoError(t, s.ns.Create(bg(t), "there", one))
	require.ErrorIs(t, s.ns.Create(bg(t), "there", one), stream.ErrExists)
	for _, name := range []stream.Name{"", ".", "..", "a/../b", "a//b", "a/", ".hidden", "<x>", "a b", "a\x00b", stream.Name(strings.Repeat("x", 4096)), "a/./b"} {
		require.ErrorIs(t, s.ns.Create(bg(t), name, one), stream.ErrInvalidName, "%q", name)
		_, err := s.ns.Stream(bg(t), name)
		require.ErrorIs(t, err, stream.ErrInvalidName, "%q", name)
		require.ErrorIs(t, s.ns.Delete(bg(t), name), stream.ErrInvalidName, "%q", name)
		require.ErrorIs(t, s.ns.Rename(bg(t), "there", name), stream.ErrInvalidName, "%q", name)
	}
	_, err := s.ns.Stream(bg(t), "missing")
	require.ErrorIs(t, err, stream.ErrNotFound)
	require.ErrorContains(t, err, "missing")
	require.ErrorIs(t, s.ns.Delete(bg(t), "missing"), stream.ErrNotFound)
	require.ErrorIs(t, s.ns.Rename(bg(t), "missing", "x"), stream.ErrNotFound)
	require.ErrorIs(t, s.ns.Rename(bg(t), "there", "there"), stream.ErrExists)
	err = s.ns.Create(bg(t), "big", stream.Config{})
	require.ErrorIs(t, err, stream.ErrNotEnoughBookies)
	require.ErrorContains(t, err, "ensemble of 3")
	require.ErrorContains(t, err, "2 are writable")
	for _, c := range []stream.Config{
		{Quorum: stream.Quorum{Ensemble: 1, Write: 2}}, {Quorum: stream.Quorum{Ensemble: 2, Write: 1, Ack: 2}},
		{Roll: stream.Roll{SizeBytes: -1}}, {Compression: 9}, {Labels: map[string]string{"": "x"}},
	} {
		require.ErrorIs(t, s.ns.Create(bg(t), "bad", c), stream.ErrInvalidConfig, "%+v", c)
	}
	var names []stream.Name
	for i, err := range s.ns.List(bg(t), "") {
		require.NoError(t, err)
		names = append(names, i.Name)
	}
	require.Equal(t, []stream.Name{"there"}, names)
}

// A cluster of as many bookies as the ensemble, one of them gone for good: a
// stream can still be taken over, on those that are left, as long as they make
// an ack quorum.
func TestTakeoverWithOneBookieOfThreeGone(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	old := s.writer(st)
	_, err := old.Append(bg(t), rec(1, "old"))
	require.NoError(t, err)
	s.Stop(2)
	for _, text := range []string{"new", "newer"} {
		w := s.writer(st)
		_, err := w.Append(bg(t), rec(2, text))
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	var got []string
	for r, err := range st.Replay(bg(t), stream.First(), stream.Now()) {
		require.NoError(t, err)
		got = append(got, string(r.Payload))
	}
	require.Equal(t, []string{"old", "new", "newer"}, got)
	require.Equal(t, bk.Quorum{Ensemble: 2, Write: 2, Ack: 2}, quorumOf(t, s, st, 3))
}

func TestTooFewBookiesWhenTheFirstRecordComes(t *testing.T) {
	s := startSystem(t, 3)
	st := s.create("a", stream.Config{})
	s.Stop(1)
	s.Stop(2)
	w := s.writer(st)
	_, err := w.Append(bg(t), rec(1, "x"))
	require.ErrorIs(t, err, stream.ErrNotEnoughBookies)
	require.ErrorIs(t, w.Close(), stream.ErrNotEnoughBookies)
}

// Metadata servers that accept and never answer: each call ends by its deadline.
func TestUnreachableMetadataEndsByTheDeadline(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = Open(ctx, "etcd://"+l.Addr().String()+"/ns")
	require.ErrorIs(t, err, stream.ErrUnavailable)
	require.Less(t, time.Since(began), 3*time.Second)
}

func TestConfigurationIsKept(t *testing.T) {
	s := startSystem(t, 3)
	cfg := stream.Config{
		Quorum: stream.Quorum{Ensemble: 3, Write: 2, Ack: 1}, Roll: stream.Roll{SizeBytes: 4096, Every: -1},
		Retention: stream.Retention{Age: time.Hour}, Compression: stream.CompressionLZ4, Labels: map[string]string{"team": "x"},
	}
	st := s.create("a/b/c", cfg)
	require.Equal(t, cfg, st.Config())
	node, err := s.Store.Get(bg(t), "/ns/a/b/c/<config>")
	require.NoError(t, err)
	require.Contains(t, string(node.Value), `"version":1`)
	_, err = s.Store.Txn(bg(t), metadata.Set(node.Key, []byte("{"), node.Version))
	require.NoError(t, err)
	_, err = s.ns.Stream(bg(t), "a/b/c")
	require.ErrorIs(t, err, stream.ErrCorrupt)
	_, err = s.Store.Txn(bg(t), metadata.Set(node.Key, []byte(`{"version":9}`), metadata.AnyVersion))
	require.NoError(t, err)
	_, err = s.ns.Stream(bg(t), "a/b/c")
	require.ErrorIs(t, err, stream.ErrUnsupported)
	_, err = s.Store.Txn(bg(t), metadata.Delete(node.Key, metadata.AnyVersion))
	require.NoError(t, err)
	require.Equal(t, stream.Config{}.WithDefaults(), s.stream(s.ns, "a/b/c").Config(), "a stream that another library made")
}

func TestListWatchRenameDelete(t *testing.T) {
	s := startSystem(t, 1)
	one := stream.Config{Quorum: stream.Quorum{Ensemble: 1}}
	ctx, cancel := context.WithCancel(bg(t))
	defer cancel()
	events := make(chan Event, 100)
	ended := make(chan error, 1)
	go func() {
		for e, err := range s.open().Watch(ctx, "") {
			if err != nil {
				ended <- err
				return
			}
			events <- e
		}
	}()
	for _, name := range []stream.Name{"b", "a", "a/x", "c"} {
		require.NoError(t, s.ns.Create(bg(t), name, one))
		require.Equal(t, Event{Name: name}, <-events)
	}
	list := func(prefix string) (names []stream.Name) {
		for i, err := range s.ns.List(bg(t), prefix) {
			require.NoError(t, err)
			names = append(names, i.Name)
		}
		return names
	}
	require.Equal(t, []stream.Name{"a", "a/x", "b", "c"}, list(""))
	require.Equal(t, []stream.Name{"a", "a/x"}, list("a"))
	require.Equal(t, []stream.Name{"a/x"}, list("a/"))
	require.Empty(t, list("zz"))
	st := s.stream(s.ns, "a")
	w := s.writer(st)
	ds := appendN(t, w, 1, 3)
	require.NoError(t, w.Close())
	cp, err := st.Checkpoint(bg(t), "me")
	require.NoError(t, err)
	require.NoError(t, cp.Save(bg(t), ds[1], []byte("state")))
	require.NoError(t, s.ns.Rename(bg(t), "a", "z/new"))
	require.ElementsMatch(t, []Event{{Name: "z/new"}, {Name: "a", Deleted: true}}, []Event{<-events, <-events})
	require.Equal(t, []stream.Name{"a/x", "b", "c", "z/new"}, list(""))
	st = s.stream(s.ns, "z/new")
	require.Equal(t, 1, st.Config().Quorum.Ensemble)
	require.Equal(t, numbers(1, 3), payloads(t, st, stream.First(), stream.Last()))
	cp, err = st.Checkpoint(bg(t), "me")
	require.NoError(t, err)
	pos, state := cp.Load()
	require.Equal(t, stream.After(ds[1]), pos)
	require.Equal(t, "state", string(state))
	require.NoError(t, s.ns.Delete(bg(t), "z/new"))
	require.Equal(t, Event{Name: "z/new", Deleted: true}, <-events)
	_, err = s.Store.Get(bg(t), "/ns/z/new/<checkpoints>")
	require.ErrorIs(t, err, metadata.ErrNotFound)
	_, err = s.Store.Get(bg(t), "/ns/z/new/<config>")
	require.ErrorIs(t, err, metadata.ErrNotFound)
	for range s.ns.Ledgers().List(bg(t)) {
		t.Fatal("a ledger that no stream has")
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestCheckpoints(t *testing.T) {
	s := startSystem(t, 1)
	st := s.create("a", stream.Config{Quorum: stream.Quorum{Ensemble: 1}})
	for _, id := range []string{"", strings.Repeat("x", 300)} {
		_, err := st.Checkpoint(bg(t), id)
		require.ErrorIs(t, err, stream.ErrInvalidName)
	}
	for _, id := range []string{"me", "..", "a/b", "<x>", "\x00"} {
		first, err := st.Checkpoint(bg(t), id)
		require.NoError(t, err, "%q", id)
		pos, state := first.Load()
		require.Equal(t, stream.First(), pos)
		require.Nil(t, state)
		other, err := s.stream(s.open(), "a").Checkpoint(bg(t), id)
		require.NoError(t, err)
		d := stream.DLSN{Segment: 3, Entry: 2, Slot: 1}
		require.NoError(t, first.Save(bg(t), d, []byte("one")))
		require.NoError(t, first.Save(bg(t), d.Next(), []byte("two")))
		require.ErrorIs(t, other.Save(bg(t), d, nil), stream.ErrConflict)
		require.ErrorIs(t, other.Save(bg(t), d, nil), stream.ErrConflict)
		again, err := st.Checkpoint(bg(t), id)
		require.NoError(t, err)
		pos, state = again.Load()
		require.Equal(t, stream.After(d.Next()), pos)
		require.Equal(t, "two", string(state))
		require.NoError(t, again.Save(bg(t), d, nil))
		require.ErrorIs(t, first.Save(bg(t), d, nil), stream.ErrConflict, "taken over")
		require.ErrorIs(t, again.Save(bg(t), d, make([]byte, readers.StateBytesMax+1)), stream.ErrRecordTooLong)
	}
}

// Retention by truncation: the ledgers of truncated segments go when the writer
// starts a segment.
func TestTruncatedSegmentsAreDeletedWhenASegmentStarts(t *testing.T) {
	s := startSystem(t, 1)
	st := s.create("a", stream.Config{Quorum: stream.Quorum{Ensemble: 1}})
	for i := range 3 {
		w := s.writer(st)
		appendN(t, w, i+1, 1)
		require.NoError(t, w.Close())
	}
	require.NoError(t, st.Truncate(bg(t), stream.FromTxID(3)))
	w := s.writer(st)
	appendN(t, w, 4, 1)
	require.Eventually(t, func() bool {
		n := 0
		for range st.Segments(bg(t)) {
			n++
		}
		return n == 2
	}, 5*time.Second, 5*time.Millisecond)
	require.NoError(t, w.Close())
}
