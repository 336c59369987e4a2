package etcdstore

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

// A cluster of bookies on a real etcd: the keys of the Java driver, ids that
// are given once, and lost answers that are settled.
func TestClusterOnEtcd(t *testing.T) {
	srv := newServer(t)
	st, other := srv.open(t), srv.direct(t)
	defer func() { require.NoError(t, st.Close()) }()
	defer func() { require.NoError(t, other.Close()) }()
	ctx := t.Context()
	srv.link.LoseAnswer(1)
	id, err := layout.Init(ctx, st, "/bk")
	require.NoError(t, err)
	_, err = layout.Init(ctx, other, "/bk")
	require.ErrorIs(t, err, metadata.ErrExists)
	a, err := layout.Open(ctx, st, "/bk")
	require.NoError(t, err)
	b, err := layout.Open(ctx, other, "/bk")
	require.NoError(t, err)
	require.Equal(t, id, b.InstanceID())

	sess, err := st.Session(ctx, metadata.SessionOptions{TTL: time.Second})
	require.NoError(t, err)
	require.NoError(t, a.Register(ctx, sess, "10.0.0.1:3181", layout.ServiceInfo{}, layout.Writable))
	bookies, err := b.Bookies(ctx)
	require.NoError(t, err)
	require.Equal(t, layout.Bookies{Writable: []bk.BookieID{"10.0.0.1:3181"}}, bookies)
	resp, err := srv.raw.Get(ctx, "/bk", clientv3.WithRange("/bk/ledgers"))
	require.NoError(t, err)
	var keys []string
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
		require.Equal(t, string(kv.Key) == "/bk/bookies/writable/10.0.0.1:3181", kv.Lease != 0)
	}
	require.Equal(t, []string{
		"/bk", "/bk/bookies", "/bk/bookies/readonly", "/bk/bookies/writable", "/bk/bookies/writable/10.0.0.1:3181",
		"/bk/buckets", "/bk/cookies", "/bk/instanceid", "/bk/layout",
	}, keys)

	m := &layout.LedgerMetadata{
		Quorum: bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}, State: layout.StateOpen, LastEntry: bk.InvalidEntryID,
		HasPassword: true, Digest: bk.DigestCRC32C, Segments: []layout.Segment{{Ensemble: []bk.BookieID{"10.0.0.1:3181"}}},
	}
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	for _, c := range []*layout.Cluster{a, b} {
		wg.Go(func() {
			for range 150 {
				l, err := c.NewLedgerID(ctx)
				if err == nil {
					_, err = c.CreateLedger(ctx, l, m)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	n := 0
	for l, err := range a.Ledgers(ctx) {
		require.NoError(t, err)
		n++
		got, v, err := b.Ledger(ctx, l)
		require.NoError(t, err)
		if n > 30 {
			continue
		}
		srv.link.LoseAnswer(1)
		got.State, got.LastEntry = layout.StateClosed, 0
		_, err = a.UpdateLedger(ctx, l, got, v)
		require.NoError(t, err)
		_, err = b.UpdateLedger(ctx, l, got, v)
		require.ErrorIs(t, err, bk.ErrMetadataConflict)
		srv.link.LoseAnswer(1)
		require.NoError(t, a.DeleteLedger(ctx, l))
	}
	require.Equal(t, 300, n)
}
