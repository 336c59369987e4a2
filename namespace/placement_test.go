package namespace

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/placement"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/stream"
)

// A stream's segments are on bookies of its own policy, whatever that of the
// writer's client is, and the next segment follows bookies that moved.
func TestStreamHasItsOwnPlacement(t *testing.T) {
	s := startSystem(t, 4)
	all, err := s.Cluster.Cluster.Bookies(bg(t))
	require.NoError(t, err)
	zone := map[bk.BookieID]string{}
	for i, id := range all.Writable {
		zone[id] = []string{"a", "a", "b", "b"}[i]
		require.NoError(t, s.Cluster.Cluster.UpdatePlace(bg(t), id, func(p *layout.Place) { p.Zone = zone[id] }))
	}
	q := stream.Quorum{Ensemble: 2, Write: 2, Ack: 2}
	cfg := stream.Config{Quorum: q, Placement: "require:zone=b"}
	other, err := placement.ParsePolicy("require:zone=a")
	require.NoError(t, err)
	ns := s.open(WithLedgerOptions(ledger.Options{Placement: ledger.Placement{Policy: other}}))
	zones := func(name stream.Name) string {
		got := ""
		for seg, err := range s.stream(ns, name).Segments(bg(t)) {
			require.NoError(t, err)
			m, err := ns.Ledgers().Metadata(bg(t), seg.Ledger)
			require.NoError(t, err)
			for _, id := range m.LastSegment().Ensemble {
				got += zone[id]
			}
		}
		return got
	}
	for name, c := range map[stream.Name]stream.Config{"own": cfg, "none": {Quorum: q}} {
		require.NoError(t, ns.Create(bg(t), name, c))
		w := s.writer(s.stream(ns, name))
		_, err := w.Append(bg(t), stream.Record{Payload: []byte("x")})
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	require.Equal(t, "bb", zones("own"))
	require.Equal(t, "aa", zones("none"))

	err = ns.Create(bg(t), "bad", stream.Config{Placement: "zone=b"})
	require.ErrorIs(t, err, stream.ErrInvalidConfig)
	require.ErrorContains(t, err, "zones=N")
	err = ns.Create(bg(t), "unmet", stream.Config{Quorum: stream.Quorum{Ensemble: 3, Write: 3, Ack: 2}, Placement: "zones=3,strict"})
	require.ErrorIs(t, err, stream.ErrNotEnoughBookies)
	require.ErrorContains(t, err, "2 can be reached (usable bookies are in 2: /-/a /-/b)")
	_, err = ns.Stream(bg(t), "unmet")
	require.True(t, errors.Is(err, stream.ErrNotFound))
}
