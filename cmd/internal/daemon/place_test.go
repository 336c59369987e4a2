package daemon

import (
	"fmt"
	"math"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
)

// A bookie tells its place before it is listed, and its free space whenever
// that has changed by enough; what an operator changed meanwhile stays.
func TestBookieTellsItsRoom(t *testing.T) {
	ctx := t.Context()
	uri := "mem://" + t.Name() + "/bk"
	store, scope, err := dial.Open(ctx, uri, dial.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	_, err = layout.Init(ctx, store, scope)
	require.NoError(t, err)
	cluster, err := layout.Open(ctx, store, scope)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	dir := t.TempDir()
	b, err := StartBookie(ctx, BookieOptions{
		MetadataURI: uri, Listen: addr, Place: layout.Place{Zone: "a", Labels: map[string]string{"k": "v"}},
		JournalDirs: []string{filepath.Join(dir, "j")}, LedgerDirs: []string{filepath.Join(dir, "l")},
	})
	require.NoError(t, err)
	id := bk.BookieID(addr)
	place := func() layout.Place {
		places, err := cluster.Places(ctx)
		require.NoError(t, err)
		return places[id]
	}
	require.Equal(t, "a", place().Zone)
	require.Equal(t, map[string]string{"k": "v"}, place().Labels)
	require.Positive(t, place().FreeBytes)
	require.Greater(t, place().TotalBytes, place().FreeBytes)

	require.NoError(t, cluster.UpdatePlace(ctx, id, func(p *layout.Place) { p.Zone, p.Draining, p.FreeBytes = "b", true, 1 }))
	require.NoError(t, b.tellRoomOnce(ctx, cluster, id))
	require.EqualValues(t, 1, place().FreeBytes, "it has not changed")
	b.stopTell()
	b.telling.Wait()
	b.told = math.MaxInt64
	require.NoError(t, b.tellRoomOnce(ctx, cluster, id))
	require.Greater(t, place().FreeBytes, int64(1))
	require.Equal(t, "b", place().Zone)
	require.True(t, place().Draining)
	require.NoError(t, b.Close(ctx))
	require.Equal(t, "b", place().Zone, "it is remembered")
	all, err := cluster.Bookies(ctx)
	require.NoError(t, err)
	require.Empty(t, all.Writable)
}

func TestPlaceIsChecked(t *testing.T) {
	for says, p := range map[string]layout.Place{
		"region":   {Region: "a/b"},
		"zone":     {Zone: "a b"},
		"rack":     {Rack: "a,b"},
		"label":    {Labels: map[string]string{"k": ""}},
		"negative": {Weight: -1},
	} {
		_, err := StartBookie(t.Context(), BookieOptions{MetadataURI: "mem://none/bk", Listen: "127.0.0.1:1", Place: p})
		require.ErrorIs(t, err, ErrOptions)
		require.ErrorContains(t, err, says)
	}
	_, err := StartDev(t.Context(), DevOptions{Dir: t.TempDir(), Bookies: 1, PortBase: 4300, Zones: -1})
	require.ErrorIs(t, err, ErrOptions)
	require.ErrorContains(t, err, fmt.Sprint(-1))
	require.NotErrorIs(t, err, metadata.ErrNotFound)
}
