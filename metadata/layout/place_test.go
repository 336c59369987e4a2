package layout

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/storetest"
)

func TestPlaceProperties(t *testing.T) {
	p := Place{
		Region: "eu", Zone: "a", Rack: "r1", Labels: map[string]string{"disk": "ssd"},
		Weight: 2.5, FreeBytes: 1 << 30, TotalBytes: 1 << 32, Draining: true,
	}
	m := p.Properties()
	require.Equal(t, map[string]string{
		"loglode.region": "eu", "loglode.zone": "a", "loglode.rack": "r1", "loglode.label.disk": "ssd",
		"loglode.weight": "2.5", "loglode.free": "1073741824", "loglode.total": "4294967296", "loglode.draining": "true",
	}, m, "stored: do not rename")
	m["other"] = "x"
	got, err := PlaceOf(m)
	require.NoError(t, err)
	require.Equal(t, p, got)
	require.Empty(t, Place{}.Properties())

	for name, value := range map[string]string{
		"loglode.weight": "-1", "loglode.free": "x", "loglode.total": "-5", "loglode.draining": "yes",
	} {
		bad := p.Properties()
		bad[name] = value
		got, err := PlaceOf(bad)
		require.ErrorIs(t, err, bk.ErrCorrupt)
		require.ErrorContains(t, err, name)
		require.Equal(t, "r1", got.Rack, "the rest is used")
	}
}

func TestDocumentedPlace(t *testing.T) {
	text, err := os.ReadFile("../../docs/placement.md")
	require.NoError(t, err)
	_, example, ok := strings.Cut(string(text), "```json\n")
	require.True(t, ok)
	example, _, _ = strings.Cut(example, "\n```")
	p, err := parsePlace(Etcd, []byte(example))
	require.NoError(t, err)
	require.Equal(t, Place{
		Zone: "a", Rack: "r7", Labels: map[string]string{"disk": "ssd"}, FreeBytes: 63808655360, TotalBytes: 105088212992,
	}, p)
}

func TestPlacePropertiesBackAndForth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Place{
			Region: rapid.String().Draw(t, "region"), Zone: rapid.String().Draw(t, "zone"), Rack: rapid.String().Draw(t, "rack"),
			Weight:    rapid.SampledFrom([]float64{0, 0.001, 1, 1e6}).Draw(t, "weight"),
			FreeBytes: rapid.Int64Min(0).Draw(t, "free"), TotalBytes: rapid.Int64Min(0).Draw(t, "total"),
			Draining: rapid.Bool().Draw(t, "draining"),
		}
		if labels := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "labels"); len(labels) > 0 {
			p.Labels = labels
		}
		got, err := PlaceOf(p.Properties())
		require.NoError(t, err)
		require.Equal(t, p, got)
	})
}

func TestPlacesInEachTree(t *testing.T) {
	eachTree(t, func(t *testing.T, c *Cluster, f *storetest.Faulty) {
		ctx := t.Context()
		places, err := c.Places(ctx)
		require.NoError(t, err)
		require.Empty(t, places)
		sess, err := f.Session(ctx, metadata.SessionOptions{})
		require.NoError(t, err)
		here := Place{Zone: "a", Labels: map[string]string{"disk": "ssd"}}
		info := ServiceInfo{Properties: map[string]string{"other": "kept"}}
		for k, v := range here.Properties() {
			info.Properties[k] = v
		}
		require.NoError(t, c.Register(ctx, sess, "b1:3181", info, Writable))
		require.NoError(t, c.Register(ctx, sess, "b2:3181", ServiceInfo{}, ReadOnly))
		for _, id := range []bk.BookieID{"b1:3181", "b2:3181"} {
			require.NoError(t, c.UpdatePlace(ctx, id, func(p *Place) {
				if id == "b1:3181" && c.Kind() != Etcd {
					require.Equal(t, here, *p, "the registration has it")
				}
				*p = here
				p.FreeBytes = 5
			}))
		}
		require.NoError(t, c.UpdatePlace(ctx, "b1:3181", func(p *Place) {
			p.Zone, p.Draining, p.Labels = "b", true, nil
		}))
		places, err = c.Places(ctx)
		require.NoError(t, err)
		require.Equal(t, map[bk.BookieID]Place{
			"b1:3181": {Zone: "b", FreeBytes: 5, Draining: true},
			"b2:3181": {Zone: "a", FreeBytes: 5, Labels: map[string]string{"disk": "ssd"}},
		}, places)

		// Bookies are listed and dialled as before.
		all, err := c.Bookies(ctx)
		require.NoError(t, err)
		require.Equal(t, Bookies{Writable: []bk.BookieID{"b1:3181"}, ReadOnly: []bk.BookieID{"b2:3181"}}, all)
		addr, err := c.Resolve(ctx, "b1:3181")
		require.NoError(t, err)
		require.Equal(t, "b1:3181", addr)
		n, err := f.Get(ctx, metadata.Child(c.keys.writable, "b1:3181"))
		require.NoError(t, err)
		if c.Kind() == Etcd {
			require.Empty(t, n.Value, "as the reference has it")
			n, err = f.Get(ctx, c.scope+"/placement/b1:3181")
			require.NoError(t, err)
			require.JSONEq(t, `{"loglode.zone":"b","loglode.free":"5","loglode.draining":"true"}`, string(n.Value))
		} else {
			got, err := ParseServiceInfo(n.Value)
			require.NoError(t, err)
			require.Equal(t, "kept", got.Properties["other"])
			require.Len(t, got.Endpoints, 1)
		}

		// A bookie that is gone: etcd remembers its place.
		require.NoError(t, sess.Close(ctx))
		places, err = c.Places(ctx)
		require.NoError(t, err)
		err = c.UpdatePlace(ctx, "b2:3181", func(p *Place) { p.Zone = "c" })
		if c.Kind() == Etcd {
			require.Len(t, places, 2)
			require.NoError(t, err)
		} else {
			require.Empty(t, places)
			require.ErrorIs(t, err, metadata.ErrNotFound)
		}
		require.ErrorIs(t, c.UpdatePlace(ctx, "readonly", func(*Place) {}), bk.ErrInvalidBookieID)
	})
}

func TestPlacesPassOverWhatCannotBeRead(t *testing.T) {
	c, f := newCluster(t)
	ctx := t.Context()
	require.NoError(t, c.UpdatePlace(ctx, "b1:1", func(p *Place) { p.Zone = "a" }))
	for id, value := range map[string]string{"b2:1": "no JSON", "b3:1": `{"loglode.free":"x","loglode.zone":"b"}`, "b4:1": ""} {
		_, err := f.Txn(ctx, metadata.Create(c.scope+"/placement/"+id, []byte(value)).WithParents())
		require.NoError(t, err)
	}
	places, err := c.Places(ctx)
	require.ErrorIs(t, err, bk.ErrCorrupt)
	require.ErrorContains(t, err, "b2:1")
	require.ErrorContains(t, err, "b3:1")
	require.Equal(t, map[bk.BookieID]Place{"b1:1": {Zone: "a"}, "b2:1": {}, "b3:1": {Zone: "b"}}, places)
	require.NoError(t, c.UpdatePlace(ctx, "b2:1", func(p *Place) { p.Zone = "c" }), "it is replaced")
	places, _ = c.Places(ctx)
	require.Equal(t, "c", places["b2:1"].Zone)
}
