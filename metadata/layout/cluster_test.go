package layout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/memstore"
	"github.com/loglode/loglode/metadata/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const scope = "/bk"

func newCluster(t *testing.T) (*Cluster, *storetest.Faulty) {
	t.Helper()
	f := storetest.NewFaulty(memstore.New())
	id, err := Init(t.Context(), f, scope)
	require.NoError(t, err)
	c, err := Open(t.Context(), f, scope)
	require.NoError(t, err)
	require.Equal(t, id, c.InstanceID())
	require.Equal(t, scope, c.Scope())
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return c, f
}

// dump lists all keys of a store.
func dump(t *testing.T, s metadata.Store, key string) map[string]metadata.Node {
	t.Helper()
	all := map[string]metadata.Node{}
	for n, err := range metadata.Children(t.Context(), s, key, metadata.ListOptions{}) {
		require.NoError(t, err)
		if n.Version != 0 {
			all[n.Key] = n
		}
		for k, v := range dump(t, s, n.Key) {
			all[k] = v
		}
	}
	return all
}

type etcdKey struct {
	Key      string
	ValueHex hexBytes
	Version  int64
	HasLease bool
}

// The tree after initialisation, a registration and three ledgers is that of
// the Java driver, key by key.
func TestGoldenEtcdTree(t *testing.T) {
	var v struct{ AfterInit, WithOneBookieAndThreeLedgers []etcdKey }
	vectors(t, "etcd_keys.json", &v)
	ctx := t.Context()
	s := memstore.New()
	defer s.Close()
	id, err := Init(ctx, s, scope)
	require.NoError(t, err)
	compare := func(want []etcdKey) {
		t.Helper()
		got := dump(t, s, "/")
		require.Len(t, got, len(want))
		for _, w := range want {
			n, ok := got[w.Key]
			require.True(t, ok, w.Key)
			value := bytes.ReplaceAll(w.ValueHex, []byte("59f9ab7b-5153-4a69-8c8d-db17ee9fb3b8"), []byte(id))
			require.Equal(t, string(value), string(n.Value), w.Key)
			require.Equal(t, w.Version, n.Writes, w.Key)
			require.Equal(t, w.HasLease, n.Session != 0, w.Key)
		}
	}
	compare(v.AfterInit)

	c, err := Open(ctx, s, scope)
	require.NoError(t, err)
	c.form.(*etcdForm).bucket.Store(100) // the vectors begin with bucket 101
	const bookie = "127.0.0.1:42555"
	cookie := Cookie{BookieID: bookie, JournalDirs: "/data/bk/j", LedgerDirs: JoinDirs([]string{"/data/bk/l"}), InstanceID: id}
	require.NoError(t, c.CreateCookie(ctx, bookie, cookie.Marshal()))
	sess, err := s.Session(ctx, metadata.SessionOptions{})
	require.NoError(t, err)
	require.NoError(t, c.Register(ctx, sess, bookie, ServiceInfo{}, Writable))
	for i, want := range []bk.LedgerID{0x6500000000000001, 0x6600000000000001, 0x6700000000000001} {
		l, err := c.NewLedgerID(ctx)
		require.NoError(t, err)
		require.Equal(t, want, l)
		m := &LedgerMetadata{
			Quorum: bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}, State: StateOpen, LastEntry: bk.InvalidEntryID,
			HasPassword: true, Password: []byte("pw"), Digest: bk.DigestCRC32C,
			Segments: []Segment{{First: 0, Ensemble: []bk.BookieID{bookie}}},
		}
		if i == 1 { // the vectors' open ledger: Java's etcd driver writes no token
			value, err := m.Marshal()
			require.NoError(t, err)
			_, err = s.Txn(ctx, metadata.Create(c.form.ledgers().key(l), value))
			require.NoError(t, err)
			continue
		}
		v, err := c.CreateLedger(ctx, l, m)
		require.NoError(t, err)
		m, got, err := c.Ledger(ctx, l)
		require.NoError(t, err)
		require.Equal(t, v, got)
		require.NotZero(t, m.CToken)
		m.State, m.LastEntry, m.Length = StateClosed, 0, 1
		_, err = c.UpdateLedger(ctx, l, m, v)
		require.NoError(t, err)
	}
	compare(v.WithOneBookieAndThreeLedgers)
}

func TestInitRefusesAnExistingCluster(t *testing.T) {
	c, f := newCluster(t)
	_, err := Init(t.Context(), f, scope)
	require.ErrorIs(t, err, metadata.ErrExists)
	again, err := Open(t.Context(), f, scope)
	require.NoError(t, err)
	require.Equal(t, c.InstanceID(), again.InstanceID())
	_, err = Open(t.Context(), f, "/other")
	require.ErrorIs(t, err, metadata.ErrNotFound)
	for _, bad := range []string{"", "/", "bk", "/bk/", "/../bk"} {
		_, err = Init(t.Context(), f, bad)
		require.ErrorIs(t, err, metadata.ErrInvalidKey, bad)
		_, err = Open(t.Context(), f, bad)
		require.ErrorIs(t, err, metadata.ErrInvalidKey, bad)
	}
}

// Case R21 for the cluster itself: one's own Init is recognised, another's not.
func TestR21InitAfterALostAnswer(t *testing.T) {
	f := storetest.NewFaulty(memstore.New())
	defer f.Close()
	for i, fault := range []storetest.Fault{storetest.LoseAnswer, storetest.LoseRequest} {
		f.FailNth("Txn", 0, fault)
		at := fmt.Sprintf("/bk%d", i)
		id, err := Init(t.Context(), f, at)
		require.NoError(t, err)
		c, err := Open(t.Context(), f, at)
		require.NoError(t, err)
		require.Equal(t, id, c.InstanceID())
	}
	f.OnCall(func(ctx context.Context, c storetest.Call) storetest.Fault {
		if c.Method == "Txn" && c.N == 0 {
			_, err := Init(ctx, f.Store, "/theirs")
			require.NoError(t, err)
			return storetest.LoseRequest
		}
		return storetest.Pass
	})
	_, err := Init(t.Context(), f, "/theirs")
	require.ErrorIs(t, err, metadata.ErrExists)
}

func newMetadata() *LedgerMetadata {
	return &LedgerMetadata{
		Quorum: bk.Quorum{Ensemble: 2, Write: 2, Ack: 1}, State: StateOpen, LastEntry: bk.InvalidEntryID,
		HasPassword: true, Digest: bk.DigestCRC32C,
		Segments: []Segment{{First: 0, Ensemble: []bk.BookieID{"a:1", "b:1"}}},
	}
}

func TestLedgerLife(t *testing.T) {
	eachTree(t, func(t *testing.T, c *Cluster, _ *storetest.Faulty) {
		ctx := t.Context()
		id, err := c.NewLedgerID(ctx)
		require.NoError(t, err)
		_, _, err = c.Ledger(ctx, id)
		require.ErrorIs(t, err, bk.ErrNoSuchLedger)
		_, err = c.UpdateLedger(ctx, id, newMetadata(), 1)
		require.ErrorIs(t, err, bk.ErrNoSuchLedger)
		w, err := c.WatchLedger(ctx, id)
		require.NoError(t, err)
		<-w.C()
		v, err := c.CreateLedger(ctx, id, newMetadata())
		require.NoError(t, err)
		<-w.C()
		_, err = c.CreateLedger(ctx, id, newMetadata())
		require.ErrorIs(t, err, bk.ErrLedgerExists)
		m, got, err := c.Ledger(ctx, id)
		require.NoError(t, err)
		require.Equal(t, v, got)
		m.State = StateInRecovery
		v2, err := c.UpdateLedger(ctx, id, m, v)
		require.NoError(t, err)
		<-w.C()
		_, err = c.UpdateLedger(ctx, id, m, v)
		require.ErrorIs(t, err, bk.ErrMetadataConflict)
		m, got, err = c.Ledger(ctx, id)
		require.NoError(t, err)
		require.Equal(t, v2, got)
		require.Equal(t, StateInRecovery, m.State)
		require.Zero(t, m.CToken)
		require.NoError(t, c.DeleteLedger(ctx, id))
		if err = c.DeleteLedger(ctx, id); c.Kind() == Etcd {
			require.ErrorIs(t, err, bk.ErrNoSuchLedger)
		} else {
			require.NoError(t, err)
		}
		_, err = c.CreateLedger(ctx, -1, newMetadata())
		require.Error(t, err)
		bad := newMetadata()
		bad.Segments = nil
		_, err = c.CreateLedger(ctx, id, bad)
		require.ErrorIs(t, err, bk.ErrCorrupt)
	})
}

// Rule 2: one's own create whose answer was lost is told by its token from
// another's; rule 48 for updates; case R21.
func TestRule02R21CreateAfterALostAnswer(t *testing.T) {
	eachTree(t, func(t *testing.T, c *Cluster, f *storetest.Faulty) {
		ctx := t.Context()
		other, err := Open(ctx, f.Store, c.Scope())
		require.NoError(t, err)
		for format := FormatVersion1; format <= FormatVersion3; format++ {
			m := newMetadata()
			m.FormatVersion = format
			if format == FormatVersion1 {
				m.HasPassword, m.Digest, m.Quorum.Ack = false, 0, 2
			}
			for _, fault := range []storetest.Fault{storetest.LoseAnswer, storetest.LoseRequest} {
				id, err := c.NewLedgerID(ctx)
				require.NoError(t, err)
				f.FailNth("Txn", 0, fault)
				v, err := c.CreateLedger(ctx, id, m)
				require.NoError(t, err)
				f.FailNth("Txn", 0, fault)
				m.State = StateInRecovery
				_, err = c.UpdateLedger(ctx, id, m, v)
				require.NoError(t, err)
				f.FailNth("Txn", 0, fault)
				require.NoError(t, c.DeleteLedger(ctx, id))
				_, _, err = other.Ledger(ctx, id)
				require.ErrorIs(t, err, bk.ErrNoSuchLedger)
				m.State = StateOpen
			}
		}
		// Another makes a ledger of the same id with the same content.
		f.OnCall(func(ctx context.Context, call storetest.Call) storetest.Fault {
			if call.Method == "Txn" && call.N == 0 {
				_, err := other.CreateLedger(ctx, 7, newMetadata())
				require.NoError(t, err)
				return storetest.LoseRequest
			}
			return storetest.Pass
		})
		_, err = c.CreateLedger(ctx, 7, newMetadata())
		require.ErrorIs(t, err, bk.ErrLedgerExists)
		// The answer is lost and the store is gone: it stays unknown.
		_, v, err := other.Ledger(ctx, 7)
		require.NoError(t, err)
		f.OnCall(func(_ context.Context, call storetest.Call) storetest.Fault {
			return map[string]storetest.Fault{"Txn": storetest.LoseAnswer, "Get": storetest.Refuse}[call.Method]
		})
		_, err = c.UpdateLedger(ctx, 7, newMetadata(), v)
		require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
	})
}

func TestLedgerIDsAreUniqueAndListed(t *testing.T) {
	eachTree(t, func(t *testing.T, c *Cluster, f *storetest.Faulty) {
		ctx := t.Context()
		other, err := Open(ctx, f.Store, c.Scope())
		require.NoError(t, err)
		want := map[bk.LedgerID]bool{}
		for i := range 300 {
			f.FailNth("Txn", i%7, storetest.LoseAnswer)
			id, err := []*Cluster{c, other}[i%2].NewLedgerID(ctx)
			require.NoError(t, err)
			require.GreaterOrEqual(t, id, bk.LedgerID(0))
			require.False(t, want[id])
			want[id] = true
			_, err = other.CreateLedger(ctx, id, newMetadata())
			require.NoError(t, err)
		}
		f.OnCall(nil)
		_, err = f.Txn(ctx, metadata.Create(scope+"/ledgers/not-a-ledger", nil).WithParents())
		require.NoError(t, err)
		last := bk.InvalidLedgerID
		for id, err := range c.Ledgers(ctx) {
			require.NoError(t, err)
			require.Greater(t, id, last)
			require.True(t, want[id])
			delete(want, id)
			last = id
		}
		require.Empty(t, want)
		// A listing that fails says so; it does not end early in silence.
		f.FailNth("List", 0, storetest.Refuse)
		var failed error
		for _, err := range c.Ledgers(ctx) {
			failed = errors.Join(failed, err)
		}
		require.ErrorIs(t, failed, metadata.ErrUnavailable)
	})
}

func session(t *testing.T, s metadata.Store) metadata.Session {
	t.Helper()
	sess, err := s.Session(t.Context(), metadata.SessionOptions{TTL: 10 * time.Second})
	require.NoError(t, err)
	return sess
}

func TestRegistration(t *testing.T) {
	c, f := newCluster(t)
	ctx := t.Context()
	watching, cancel := context.WithCancel(ctx)
	w, err := c.WatchBookies(watching)
	require.NoError(t, err)
	expect := func(writable, readOnly []bk.BookieID) {
		t.Helper()
		require.Eventually(t, func() bool { // the watch merges two, in a goroutine
			select {
			case <-w.C():
			default:
				return false
			}
			b, err := c.Bookies(ctx)
			require.NoError(t, err)
			return fmt.Sprint(b) == fmt.Sprint(Bookies{writable, readOnly})
		}, 10*time.Second, time.Millisecond)
	}
	expect(nil, nil)
	sess := session(t, f)
	const b1, b2 = bk.BookieID("10.0.0.1:3181"), bk.BookieID("10.0.0.2:3181")
	info := ServiceInfo{Endpoints: []Endpoint{{ID: "bookie", Host: "10.0.0.1", Port: 3181, Protocol: ProtocolBookie}}}
	require.NoError(t, c.Register(ctx, sess, b1, info, Writable))
	n, err := f.Get(ctx, scope+"/bookies/writable/10.0.0.1:3181")
	require.NoError(t, err)
	require.Empty(t, n.Value) // as Java's etcd driver
	expect([]bk.BookieID{b1}, nil)
	require.NoError(t, c.Register(ctx, sess, b1, info, Writable)) // again: nothing to do
	require.NoError(t, c.Register(ctx, sess, b2, ServiceInfo{}, ReadOnly))
	expect([]bk.BookieID{b1}, []bk.BookieID{b2})
	require.NoError(t, c.Register(ctx, sess, b1, info, ReadOnly))
	expect(nil, []bk.BookieID{b1, b2})
	require.NoError(t, c.Register(ctx, sess, b2, ServiceInfo{}, Writable))
	expect([]bk.BookieID{b2}, []bk.BookieID{b1})
	require.NoError(t, c.Unregister(ctx, sess, b2))
	require.NoError(t, c.Unregister(ctx, sess, b2))
	expect(nil, []bk.BookieID{b1})
	require.NoError(t, f.ExpireSessions(ctx))
	expect(nil, nil)
	require.ErrorIs(t, c.Register(ctx, sess, b1, info, Writable), metadata.ErrSessionLost)
	require.NoError(t, w.Err())
	cancel()
	for range w.C() {
	}
	require.ErrorIs(t, w.Err(), context.Canceled)
	for _, bad := range []bk.BookieID{"", "readonly", "custom-id", "h:0", "h:99999", "../x", "a/b:1"} {
		require.ErrorIs(t, c.Register(ctx, sess, bad, info, Writable), bk.ErrInvalidBookieID, bad)
	}
}

// A registration whose answers get lost still ends in the wanted state.
func TestR21RegisterAfterLostAnswers(t *testing.T) {
	eachTree(t, func(t *testing.T, c *Cluster, f *storetest.Faulty) {
		sess := session(t, f)
		for _, fault := range []storetest.Fault{storetest.LoseAnswer, storetest.LoseRequest} {
			for i := range 6 {
				f.FailNth("Txn", 0, fault)
				require.NoError(t, c.Register(t.Context(), sess, "h:1", ServiceInfo{}, Mode(i%2)))
				b, err := c.Bookies(t.Context())
				require.NoError(t, err)
				require.Len(t, [][]bk.BookieID{b.Writable, b.ReadOnly}[i%2], 1)
				require.Empty(t, [][]bk.BookieID{b.ReadOnly, b.Writable}[i%2])
			}
		}
	})
}

// A bookie that was killed and starts again waits its own old session out; one
// that meets a living stranger gives up when its context ends.
func TestRegisterOverAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := memstore.NewTree()
		first, next := tree.Open(), tree.Open()
		defer next.Close()
		_, err := Init(t.Context(), first, scope)
		require.NoError(t, err)
		c1, err := Open(t.Context(), first, scope)
		require.NoError(t, err)
		c2, err := Open(t.Context(), next, scope)
		require.NoError(t, err)
		require.NoError(t, c1.Register(t.Context(), session(t, first), "h:1", ServiceInfo{}, Writable))
		sess := session(t, next)
		for _, mode := range []Mode{Writable, ReadOnly} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			begin := time.Now()
			require.ErrorIs(t, c2.Register(ctx, sess, "h:1", ServiceInfo{}, mode), metadata.ErrExists)
			require.Equal(t, 20*time.Second, time.Since(begin))
			cancel()
		}
		first.Crash()
		begin := time.Now()
		require.NoError(t, c2.Register(t.Context(), sess, "h:1", ServiceInfo{}, Writable))
		require.Equal(t, 10*time.Second, time.Since(begin))
		b, err := c2.Bookies(t.Context())
		require.NoError(t, err)
		require.Equal(t, Bookies{Writable: []bk.BookieID{"h:1"}}, b)
		synctest.Wait()
	})
}

func TestResolve(t *testing.T) {
	c, f := newCluster(t)
	ctx := t.Context()
	sess := session(t, f)
	addr, err := c.Resolve(ctx, "10.0.0.1:3181") // not registered: the id
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1:3181", addr)
	_, err = c.Resolve(ctx, "custom-id")
	require.ErrorIs(t, err, bk.ErrBookieUnavailable)
	moved := ServiceInfo{Endpoints: []Endpoint{
		{ID: "httpserver", Host: "0.0.0.0", Port: 8080, Protocol: "http"},
		{ID: "bookie", Host: "proxy.example", Port: 4, Protocol: ProtocolBookie},
	}}
	for _, mode := range []Mode{Writable, ReadOnly} {
		require.NoError(t, c.Register(ctx, sess, "10.0.0.1:3181", moved, mode))
		addr, err = c.Resolve(ctx, "10.0.0.1:3181")
		require.NoError(t, err)
		require.Equal(t, "proxy.example:4", addr)
	}
	for i, value := range [][]byte{{0xff}, mustMarshal(t, ServiceInfo{Endpoints: moved.Endpoints[:1]})} {
		key := fmt.Sprintf("h:%d", i+1)
		_, err = f.Txn(ctx, metadata.Create(scope+"/bookies/writable/"+key, value))
		require.NoError(t, err)
		_, err = c.Resolve(ctx, bk.BookieID(key))
		require.ErrorIs(t, err, bk.ErrBookieUnavailable)
	}
	f.FailNth("Get", 0, storetest.Refuse)
	_, err = c.Resolve(ctx, "10.0.0.1:3181")
	require.ErrorIs(t, err, metadata.ErrUnavailable)
}

func mustMarshal(t *testing.T, s ServiceInfo) []byte {
	t.Helper()
	b, err := s.Marshal()
	require.NoError(t, err)
	return b
}

func TestCookies(t *testing.T) {
	eachTree(t, func(t *testing.T, c *Cluster, f *storetest.Faulty) {
		ctx := t.Context()
		_, _, err := c.Cookie(ctx, "h:1")
		require.ErrorIs(t, err, metadata.ErrNotFound)
		for _, fault := range []storetest.Fault{storetest.Pass, storetest.LoseAnswer, storetest.LoseRequest} {
			f.FailNth("Txn", 0, fault)
			require.NoError(t, c.CreateCookie(ctx, "h:1", []byte("1")))
			require.ErrorIs(t, c.CreateCookie(ctx, "h:1", []byte("2")), metadata.ErrExists)
			got, v, err := c.Cookie(ctx, "h:1")
			require.NoError(t, err)
			require.Equal(t, "1", string(got))
			require.NoError(t, c.UpdateCookie(ctx, "h:1", []byte("2"), v))
			require.ErrorIs(t, c.UpdateCookie(ctx, "h:1", []byte("3"), v), metadata.ErrConflict)
			require.ErrorIs(t, c.DeleteCookie(ctx, "h:1", v), metadata.ErrConflict)
			_, v, err = c.Cookie(ctx, "h:1")
			require.NoError(t, err)
			require.NoError(t, c.DeleteCookie(ctx, "h:1", v))
			require.NoError(t, c.DeleteCookie(ctx, "h:1", v))
		}
		require.ErrorIs(t, c.CreateCookie(ctx, "../x", nil), bk.ErrInvalidBookieID)
	})
}

// Bookies does not miss one that moves between the lists while it reads them.
func TestBookiesDuringAChangeOver(t *testing.T) {
	eachTree(t, func(t *testing.T, c *Cluster, f *storetest.Faulty) {
		ctx := t.Context()
		sess := session(t, f)
		direct, err := Open(ctx, f.Store, c.Scope())
		require.NoError(t, err)
		require.NoError(t, direct.Register(ctx, sess, "h:1", ServiceInfo{}, ReadOnly))
		f.OnCall(func(ctx context.Context, call storetest.Call) storetest.Fault {
			if call.Method == "List" && call.N == 1 {
				require.NoError(t, direct.Register(ctx, sess, "h:1", ServiceInfo{}, Writable))
			}
			return storetest.Pass
		})
		b, err := c.Bookies(ctx)
		require.NoError(t, err)
		require.Equal(t, Bookies{Writable: []bk.BookieID{"h:1"}}, b)
	})
}
