package ledger_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
	"github.com/loglode/loglode/ledger/placement"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

// placed is a world whose bookies are in zones.
type placed struct {
	*world
	zone map[bk.BookieID]string
}

// inZones runs a test with a bookie for each letter of zones, in the zone of
// that name.
func inZones(t *testing.T, zones string, opts ledger.Options, test func(w *placed)) {
	inWorld(t, len(zones), opts, func(w *world) {
		p := &placed{world: w, zone: map[bk.BookieID]string{}}
		all, err := w.Layout.Bookies(w.ctx)
		require.NoError(t, err)
		for i, id := range all.Writable {
			p.zone[id] = zones[i : i+1]
			p.update(id, func(at *layout.Place) { at.Zone = zones[i : i+1] })
		}
		test(p)
	})
}

func (w *placed) update(id bk.BookieID, change func(*layout.Place)) {
	require.NoError(w, w.Layout.UpdatePlace(w.ctx, id, change))
}

// zones gives the zones of the ledger's last ensemble, in order.
func (w *placed) zones(id bk.LedgerID) string {
	s := ""
	for _, b := range w.ids(id) {
		s += w.zone[b]
	}
	return s
}

// ids gives the ledger's last ensemble.
func (w *placed) ids(id bk.LedgerID) []bk.BookieID {
	m, err := w.c.Metadata(w.ctx, id)
	require.NoError(w, err)
	return m.LastSegment().Ensemble
}

func sorted(s string) string {
	b := strings.Split(s, "")
	slices.Sort(b)
	return strings.Join(b, "")
}

func policyText(t *testing.T, text string) placement.Policy {
	p, err := placement.ParsePolicy(text)
	require.NoError(t, err)
	return p
}

func strictZones(t *testing.T) ledger.Options {
	return ledger.Options{Placement: ledger.Placement{Policy: policyText(t, "zones=3,strict")}}
}

func TestRule1EnsembleKeepsThePolicy(t *testing.T) {
	inZones(t, "aaaabc", strictZones(t), func(w *placed) {
		for range 10 {
			require.Equal(t, "abc", sorted(w.zones(w.create(3, 3, 2).ID())))
		}
		// By default write sets are spread as well as they can be.
		c := w.client(ledger.Options{})
		for range 10 {
			wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
			require.NoError(t, err)
			require.Equal(t, "abc", sorted(w.zones(wr.ID())))
		}
		// Locate overrules what bookies say.
		c = w.client(ledger.Options{Placement: ledger.Placement{
			Policy: policyText(t, "zones=2,strict"),
			Locate: func(bk.BookieID) (placement.Site, bool) {
				return placement.Site{Location: placement.Location{Zone: "one"}}, true
			},
		}})
		_, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
		var unmet *placement.UnmetError
		require.ErrorAs(t, err, &unmet)
		require.ErrorIs(t, err, bk.ErrNotEnoughBookies)
	})
}

func TestPlacesAreFollowedWithoutRestart(t *testing.T) {
	inZones(t, "abcd", strictZones(t), func(w *placed) {
		require.Len(t, w.zones(w.create(3, 3, 2).ID()), 3)
		for id, z := range w.zone {
			if z == "c" || z == "d" {
				w.update(id, func(p *layout.Place) { p.Zone = "a" })
			}
		}
		<-time.After(10 * time.Second)
		_, err := w.c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
		require.ErrorContains(t, err, "2 can be reached (usable bookies are in 2: /-/a /-/b)")
		for id, z := range w.zone {
			w.update(id, func(p *layout.Place) { p.Zone, p.Draining = z, z == "a" })
		}
		<-time.After(10 * time.Second)
		for range 10 {
			require.Equal(t, "bcd", sorted(w.zones(w.create(3, 3, 2).ID())), "one that is drained is not used")
		}
	})
}

func TestRule15SubstituteKeepsThePolicy(t *testing.T) {
	inZones(t, "aaaabc", strictZones(t), func(w *placed) {
		require.NoError(t, w.Add(w.ctx))
		require.NoError(t, w.Add(w.ctx))
		all, err := w.Layout.Bookies(w.ctx)
		require.NoError(t, err)
		for _, id := range all.Writable {
			if w.zone[id] == "" {
				w.zone[id] = "c"
				w.update(id, func(p *layout.Place) { p.Zone = "c" })
			}
		}
		wr := w.create(3, 3, 2)
		fail := func() { // the bookie of zone c
			w.ensemble(wr.ID())[strings.Index(w.zones(wr.ID()), "c")].SetHook(func(fakebookie.Request) fakebookie.Verdict {
				return fakebookie.Refuse(bk.StatusIO)
			})
		}
		for range 2 {
			w.append(wr, 1)
			require.Equal(t, "abc", sorted(w.zones(wr.ID())))
			fail()
		}
		w.append(wr, 1)
		// None is left in zone c: the writer goes on with two bookies rather than
		// with two in one zone.
		last := w.ids(wr.ID())
		for id, z := range w.zone {
			if z == "c" && !slices.Contains(last, id) {
				w.update(id, func(p *layout.Place) { p.Zone = "a" })
			}
		}
		<-time.After(10 * time.Second)
		fail()
		w.append(wr, 2)
		synctest.Wait()
		require.Equal(t, last, w.ids(wr.ID()))
		require.NoError(t, wr.Close(w.ctx))
	})
}

func TestLedgerHasItsOwnPolicy(t *testing.T) {
	inZones(t, "aaabbbc", ledger.Options{LACDelay: -1}, func(w *placed) {
		own := policyText(t, "require:zone=a")
		wr := w.create(2, 2, 2, ledger.WithPlacement(own), ledger.WithCustomMetadata(map[string][]byte{"k": []byte("v")}))
		require.Equal(t, "aa", w.zones(wr.ID()))
		m, err := w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Equal(t, map[string][]byte{"k": []byte("v"), "loglode.placement": []byte("require:zone=a")}, m.Custom, "stored: do not rename")
		got, isOwn, err := ledger.PolicyOf(m)
		require.NoError(t, err)
		require.True(t, isOwn)
		require.True(t, own.Equal(got))

		// Another client that recovers it takes the third bookie of zone a.
		w.append(wr, 2)
		w.ensemble(wr.ID())[1].SetHook(func(r fakebookie.Request) fakebookie.Verdict {
			if r.Recovery {
				return fakebookie.Refuse(bk.StatusIO)
			}
			return fakebookie.Pass()
		})
		c := w.client(ledger.Options{Placement: ledger.Placement{Policy: policyText(t, "require:zone=b")}})
		w.open(c, wr.ID(), ledger.Recover)
		require.Equal(t, "aa", w.zones(wr.ID()))
		m, err = w.c.Metadata(w.ctx, wr.ID())
		require.NoError(t, err)
		require.Equal(t, layout.StateClosed, m.State)
		require.NotEqual(t, m.Segments[0].Ensemble, m.LastSegment().Ensemble)

		plain := w.create(2, 2, 1)
		m, err = w.c.Metadata(w.ctx, plain.ID())
		require.NoError(t, err)
		require.Empty(t, m.Custom, "no policy of its own, no trace of one")
		_, err = w.c.Create(w.ctx, bk.Quorum{Ensemble: 1, Write: 1, Ack: 1}, ledger.WithPlacement(placement.Policy{Write: placement.Minimums{Zones: -1}}))
		require.ErrorIs(t, err, placement.ErrInvalidPolicy)
	})
}

// placelessStore fails reads of the bookies' places.
type placelessStore struct {
	metadata.Store
	down atomic.Bool
}

func (s *placelessStore) List(ctx context.Context, key string, o metadata.ListOptions) (metadata.Page, error) {
	if s.down.Load() && strings.HasSuffix(key, "/placement") {
		return metadata.Page{}, metadata.ErrUnavailable
	}
	return s.Store.List(ctx, key, o)
}

func TestUnreadablePlacesAreTheLastKnownOnes(t *testing.T) {
	inZones(t, "aaaabc", ledger.Options{}, func(w *placed) {
		s := &placelessStore{Store: w.Store}
		cluster, err := layout.Open(w.ctx, s, "/bk")
		require.NoError(t, err)
		opts := strictZones(t)
		opts.Dial = w.Dial
		c, err := ledger.New(cluster, opts)
		require.NoError(t, err)
		w.clients = append(w.clients, c)
		s.down.Store(true)
		_, err = c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
		require.ErrorIs(t, err, metadata.ErrUnavailable, "none known yet: it does not choose blindly")
		s.down.Store(false)
		for range 3 {
			wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
			require.NoError(t, err)
			require.Equal(t, "abc", sorted(w.zones(wr.ID())))
			s.down.Store(true)
			<-time.After(11 * time.Second)
		}
	})
}

// The first ledgers of a client, made at once, all wait for the places.
func TestFirstLedgersAtOnceKeepThePolicy(t *testing.T) {
	inZones(t, "aaabbbccc", strictZones(t), func(w *placed) {
		errs := make(chan error, 20)
		for range cap(errs) {
			go func() {
				_, err := w.c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
				errs <- err
			}()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
	})
}

func TestExplainThroughTheClient(t *testing.T) {
	inZones(t, "aabc", ledger.Options{}, func(w *placed) {
		q := bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}
		strict := policyText(t, "zones=3,strict")
		e, err := w.c.Explain(w.ctx, q, &strict)
		require.NoError(t, err)
		require.NoError(t, e.Err)
		require.Len(t, e.Bookies, 4)
		require.True(t, e.Findings[0].Holds())
		strict.Write.Zones = 4
		e, err = w.c.Explain(w.ctx, q, &strict)
		require.NoError(t, err)
		require.ErrorIs(t, e.Err, bk.ErrNotEnoughBookies)
		_, err = w.c.Explain(w.ctx, bk.Quorum{Ensemble: 1, Write: 2, Ack: 1}, nil)
		require.ErrorIs(t, err, bk.ErrInvalidQuorum)

		wr := w.create(3, 3, 2)
		es, err := w.c.ExplainLedger(w.ctx, wr.ID(), nil)
		require.NoError(t, err)
		require.Len(t, es, 1)
		require.Empty(t, es[0].Findings, "the default policy has no rules")
		want := policyText(t, "zones=3,ack-zones=2")
		es, err = w.c.ExplainLedger(w.ctx, wr.ID(), &want)
		require.NoError(t, err)
		require.Len(t, es[0].Findings, 2)
		require.True(t, es[0].Findings[0].Holds() && es[0].Findings[1].Holds())
		_, err = w.c.ExplainLedger(w.ctx, 12345, nil)
		require.ErrorIs(t, err, bk.ErrNoSuchLedger)
	})
}

func TestPlacementOptionsAreChecked(t *testing.T) {
	o := ledger.Options{Placement: ledger.Placement{Policy: placement.Policy{Ack: placement.Minimums{Racks: -2}}}}
	require.ErrorContains(t, o.Validate(), "Placement: invalid placement policy: ack-racks=-2")
}
