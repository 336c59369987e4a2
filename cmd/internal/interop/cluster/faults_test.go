//go:build interop

package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/cmd/internal/daemon"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/storetest"
)

// newCluster makes a cluster of ours at a path, and gives it as seen directly
// and through a link.
func newCluster(t *testing.T, path string, kind layout.Kind) (direct, linked *layout.Cluster, link *storetest.Link) {
	t.Helper()
	s, _ := open(t, zk.URI(path))
	_, err := layout.InitKind(t.Context(), s, path, kind)
	require.NoError(t, err)
	link = storetest.NewLink(t, zk.Addr)
	return join(t, zk.URI(path)), join(t, "zk://"+link.Addr()+path), link
}

func newMetadata() *layout.LedgerMetadata {
	return &layout.LedgerMetadata{
		Quorum: bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}, State: layout.StateOpen, LastEntry: bk.InvalidEntryID,
		HasPassword: true, Digest: bk.DigestCRC32C, Segments: []layout.Segment{{Ensemble: []bk.BookieID{"h:1"}}},
	}
}

// Case R21: the n-th answer of ZooKeeper is lost, for each n; what was done all
// the same is known as one's own, what another did is not.
func TestR21LostAnswersOnZooKeeper(t *testing.T) {
	direct, linked, link := newCluster(t, "/r21", layout.Hierarchical)
	ctx := t.Context()
	for n := 1; n <= 25; n++ {
		link.LoseAnswer(n)
		var id bk.LedgerID
		for round := 0; round < 8; round++ { // some answers later it is lost
			var err error
			id, err = linked.NewLedgerID(ctx)
			require.NoError(t, err)
			v, err := linked.CreateLedger(ctx, id, newMetadata())
			require.NoError(t, err, "answer %d", n)
			_, err = direct.CreateLedger(ctx, id, newMetadata())
			require.ErrorIs(t, err, bk.ErrLedgerExists)
			m, got, err := linked.Ledger(ctx, id)
			require.NoError(t, err)
			require.Equal(t, v, got)
			m.State = layout.StateInRecovery
			v, err = linked.UpdateLedger(ctx, id, m, v)
			require.NoError(t, err)
			m.State, m.LastEntry, m.Length = layout.StateClosed, 0, 1
			_, err = direct.UpdateLedger(ctx, id, m, v)
			require.NoError(t, err)
			m.Length = 2 // the same content would be nobody's loss
			_, err = linked.UpdateLedger(ctx, id, m, v)
			require.ErrorIs(t, err, bk.ErrMetadataConflict)
			require.NoError(t, linked.DeleteLedger(ctx, id))
			_, _, err = direct.Ledger(ctx, id)
			require.ErrorIs(t, err, bk.ErrNoSuchLedger)
			if link.LoseAnswer(0) == 0 {
				break
			}
		}
	}
	require.Empty(t, ids(t, direct))
}

// A new cluster whose answers are lost is one's own; a second init is refused.
func TestR21InitOnZooKeeper(t *testing.T) {
	link := storetest.NewLink(t, zk.Addr)
	for n := 1; n <= 12; n++ {
		path := fmt.Sprintf("/r21-init/%d", n)
		s, _ := open(t, "zk://"+link.Addr()+path)
		link.LoseAnswer(n)
		id, err := layout.InitKind(t.Context(), s, path, layout.Flat)
		require.NoError(t, err, "answer %d", n)
		link.LoseAnswer(0)
		c := join(t, zk.URI(path))
		require.Equal(t, id, c.InstanceID())
		require.Equal(t, layout.Flat, c.Kind())
		_, err = layout.InitKind(t.Context(), c.Store(), path, layout.Flat)
		require.ErrorIs(t, err, metadata.ErrExists)
	}
}

// Case R18 on ZooKeeper: a stranger with a running bookie's id is refused, the
// bookie's own restart after a kill waits its old session out.
func TestR18TwoBookiesWithOneIDOnZooKeeper(t *testing.T) {
	direct, _, link := newCluster(t, "/r18", layout.Hierarchical)
	id := func(o *daemon.BookieOptions) { o.ID = "b-1" }
	first := ourOptions(t, "zk://"+link.Addr()+"/r18", "r18", id)
	b, err := daemon.StartBookie(t.Context(), first)
	require.NoError(t, err)

	_, err = daemon.StartBookie(t.Context(), ourOptions(t, zk.URI("/r18"), "r18-stranger", id))
	require.Error(t, err, "its directories are not those of b-1")
	sess, err := direct.Store().Session(t.Context(), metadata.SessionOptions{TTL: 10 * time.Second})
	require.NoError(t, err)
	info := layout.ServiceInfo{Endpoints: []layout.Endpoint{{ID: "bookie", Host: "stranger", Port: 1, Protocol: layout.ProtocolBookie}}}
	short, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	require.ErrorIs(t, direct.Register(short, sess, "b-1", info, layout.Writable), metadata.ErrExists)
	addr, err := direct.Resolve(t.Context(), "b-1")
	require.NoError(t, err)
	require.Equal(t, first.Listen, addr, "clients never reach the stranger")

	// As after kill -9: nobody ends the session, its node stays for a TTL.
	link.SetCut(true)
	require.Equal(t, []bk.BookieID{"b-1"}, listed(t, direct).Writable)
	later, cancelLater := context.WithTimeout(t.Context(), wait)
	defer cancelLater()
	require.NoError(t, direct.Register(later, sess, "b-1", info, layout.Writable))
	require.NoError(t, sess.Close(t.Context()))

	// The bookie comes back from the network's other side by itself.
	link.SetCut(false)
	eventually(t, "registered again", func() bool {
		addr, err := direct.Resolve(t.Context(), "b-1")
		return err == nil && addr == first.Listen && len(listed(t, direct).Writable) == 1
	})
	require.NoError(t, b.Close(t.Context()))
	require.Empty(t, listed(t, direct).Writable)
	b, err = daemon.StartBookie(t.Context(), first)
	require.NoError(t, err, "again on its data")
	require.NoError(t, b.Close(t.Context()))
}

// A bookie that changes its mode or its address is seen so by who watches.
func TestWatchersFollowOnZooKeeper(t *testing.T) {
	direct, linked, link := newCluster(t, "/follow", layout.Hierarchical)
	ctx := t.Context()
	w, err := linked.WatchBookies(ctx)
	require.NoError(t, err)
	sess, err := direct.Store().Session(ctx, metadata.SessionOptions{})
	require.NoError(t, err)
	at := func(port int) layout.ServiceInfo {
		return layout.ServiceInfo{Endpoints: []layout.Endpoint{{ID: "bookie", Host: "h", Port: port, Protocol: layout.ProtocolBookie}}}
	}
	for i := 1; i <= 8; i++ {
		mode := layout.Mode(i % 2)
		if i == 5 { // what happens while the watcher is cut off is not missed
			link.SetCut(true)
		}
		require.NoError(t, direct.Register(ctx, sess, "b-1", at(i), mode))
		if i == 5 {
			link.SetCut(false)
		}
		for deadline := time.After(wait); ; {
			select {
			case <-w.C():
			case <-deadline:
				require.Fail(t, "no signal")
			}
			addr, err := linked.Resolve(ctx, "b-1")
			require.NoError(t, err)
			b := listed(t, linked)
			if addr == fmt.Sprintf("h:%d", i) && len(b.Writable) == 1-i%2 && len(b.ReadOnly) == i%2 {
				break
			}
		}
	}
	require.NoError(t, sess.Close(ctx))
	eventually(t, "gone with its session", func() bool { b := listed(t, linked); return len(b.Writable)+len(b.ReadOnly) == 0 })
}
