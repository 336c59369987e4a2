//go:build interop

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/cmd/internal/daemon"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/storetest"
)

var one = bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}

func connect(t *testing.T, uri string) *ledger.Client {
	t.Helper()
	// A busy machine is no fault.
	c, err := ledger.Connect(t.Context(), uri, func(o *ledger.Options) { o.AddTimeout = wait })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Both clients dial what a bookie's service info says, and follow it when it
// changes: here through a link, then past it.
func TestClientsFollowTheServiceInfo(t *testing.T) {
	uri := zk.URI("/moves")
	s, path := open(t, uri)
	_, err := layout.InitKind(t.Context(), s, path, layout.Hierarchical)
	require.NoError(t, err)
	var link *storetest.Link
	var listen string
	startOurs(t, uri, "moves", func(o *daemon.BookieOptions) {
		listen = o.Listen
		link = storetest.NewLink(t, listen)
		o.ID, o.Advertise = "behind", link.Addr()
	})
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	w, err := connect(t, uri).Create(ctx, one)
	require.NoError(t, err)
	_, err = w.Append(ctx, []byte("through"))
	require.NoError(t, err)
	j := startJava(t, uri)
	j.create(2, nil)

	key := path + "/available/behind"
	endpoint, err := layout.BookieEndpoint(listen)
	require.NoError(t, err)
	_, err = metadata.Update(ctx, s, key, func(n metadata.Node) ([]byte, error) {
		info, err := layout.ParseServiceInfo(n.Value)
		if err != nil {
			return nil, err
		}
		info.Endpoints = []layout.Endpoint{endpoint}
		return info.Marshal()
	})
	require.NoError(t, err)
	link.SetCut(true) // nobody gets through there any more
	w, err = connect(t, uri).Create(ctx, one)
	require.NoError(t, err)
	_, err = w.Append(ctx, []byte("past"))
	require.NoError(t, err)
	require.NoError(t, w.Close(ctx))
	j.create(2, nil)
}

// Ledgers of older metadata formats: what we write Java reads, and what it
// rewrites keeps its format.
func TestOlderMetadataFormats(t *testing.T) {
	uri := zk.URI("/formats")
	s, path := open(t, uri)
	_, err := layout.InitKind(t.Context(), s, path, layout.Hierarchical)
	require.NoError(t, err)
	startOurs(t, uri, "formats", func(o *daemon.BookieOptions) { o.ID = "b" })
	c, j := join(t, uri), startJava(t, uri)
	for format := layout.FormatVersion1; format <= layout.FormatVersion3; format++ {
		m := newMetadata()
		m.FormatVersion, m.Segments = format, []layout.Segment{{Ensemble: []bk.BookieID{"b"}}}
		if format == layout.FormatVersion1 {
			m.HasPassword, m.Digest = false, 0
		} else {
			m.Password, m.Custom = []byte("pw"), map[string][]byte{"k": []byte("v")}
		}
		id, err := c.NewLedgerID(t.Context())
		require.NoError(t, err)
		_, err = c.CreateLedger(t.Context(), id, m)
		require.NoError(t, err)
		require.Equal(t, format, j.metadata(id).Format)
		require.Equal(t, "OPEN", j.metadata(id).State)
		// Java recovers it: nothing was written, so it is closed empty.
		require.NoError(t, j.call("open", map[string]any{"ledger": id, "recover": true, "digest": "CRC32C", "password": "pw"}, nil))
		got, _, err := c.Ledger(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, format, got.FormatVersion)
		require.Equal(t, layout.StateClosed, got.State)
		require.Equal(t, bk.InvalidEntryID, got.LastEntry)
		require.Equal(t, m.Custom, got.Custom)
		require.Equal(t, m.HasPassword, got.HasPassword)
		require.Equal(t, m.Password, got.Password)
	}
}

// ZooKeeper goes away: adds on a healthy ensemble go on, a create fails by its
// deadline, and works again when ZooKeeper is back.
func TestClientWithoutZooKeeper(t *testing.T) {
	direct, _, link := newCluster(t, "/without", layout.Hierarchical)
	for i := range 2 {
		startOurs(t, zk.URI("/without"), fmt.Sprintf("without%d", i), nil)
	}
	eventually(t, "two bookies", func() bool { return len(listed(t, direct).Writable) == 2 })
	client := connect(t, "zk://"+link.Addr()+"/without")
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait)
	defer cancel()
	two := bk.Quorum{Ensemble: 2, Write: 2, Ack: 2}
	w, err := client.Create(ctx, two)
	require.NoError(t, err)
	link.SetCut(true)
	for i := range 100 {
		_, err := w.Append(ctx, fmt.Appendf(nil, "entry %d", i))
		require.NoError(t, err)
	}
	short, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	_, err = client.Create(short, two)
	require.Error(t, err)
	_, err = w.Append(ctx, []byte("still"))
	require.NoError(t, err)
	link.SetCut(false)
	require.NoError(t, w.Close(ctx))
	m, _, err := direct.Ledger(ctx, w.ID())
	require.NoError(t, err)
	require.Equal(t, layout.StateClosed, m.State)
	require.Equal(t, bk.EntryID(100), m.LastEntry)
	w, err = client.Create(ctx, two)
	require.NoError(t, err)
	require.NoError(t, w.Close(ctx))
}

// Many clients make and delete neighbours at once: no create fails because a
// delete took its parents away, and nothing is left over.
func TestNeighboursComeAndGo(t *testing.T) {
	direct, _, _ := newCluster(t, "/neighbours", layout.Hierarchical)
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for i := range 4 {
		c := join(t, zk.URI("/neighbours"))
		wg.Go(func() {
			for range 60 {
				id := bk.LedgerID(1000 + i)
				_, err := c.CreateLedger(t.Context(), id, newMetadata())
				if err == nil {
					_, _, err = c.Ledger(t.Context(), id)
				}
				if err = errors.Join(err, c.DeleteLedger(t.Context(), id)); err != nil {
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
	require.Empty(t, ids(t, direct))
	_, err := direct.Store().Get(t.Context(), "/neighbours/00")
	require.ErrorIs(t, err, metadata.ErrNotFound)
}
