package ledger_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
)

func TestWriteCloseRead(t *testing.T) {
	for _, digest := range []bk.DigestType{bk.DigestCRC32C, bk.DigestCRC32, bk.DigestHMAC, bk.DigestDummy} {
		for _, q := range []bk.Quorum{
			{Ensemble: 1, Write: 1, Ack: 1}, {Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 5, Write: 3, Ack: 2},
		} {
			t.Run(digest.String(), func(t *testing.T) {
				inWorld(t, 5, ledger.Options{}, func(w *world) {
					wr := w.create(q.Ensemble, q.Write, q.Ack, ledger.WithDigest(digest), ledger.WithPassword([]byte("secret")),
						ledger.WithCustomMetadata(map[string][]byte{"k": []byte("v")}))
					w.append(wr, 300)
					require.Equal(t, bk.EntryID(299), wr.LAC())
					length := wr.Length()
					require.NoError(t, wr.Close(w.ctx))

					r := w.open(w.c, wr.ID(), ledger.NoRecovery)
					require.True(t, r.Closed())
					require.Equal(t, bk.EntryID(299), r.LAC())
					require.Equal(t, length, r.Length())
					w.readAll(r, 299)
					ent, err := r.Read(w.ctx, 17)
					require.NoError(t, err)
					require.Equal(t, payload(17), ent.Payload)
					require.NoError(t, r.Close())

					m, err := w.c.Metadata(w.ctx, wr.ID())
					require.NoError(t, err)
					require.Equal(t, layout.StateClosed, m.State)
					require.Equal(t, []byte("v"), m.Custom["k"])
				})
			})
		}
	}
}

// Two clients of one process share a registry; the counters count.
func TestMetrics(t *testing.T) {
	inWorld(t, 3, ledger.Options{}, func(w *world) {
		reg := prometheus.NewRegistry()
		a, b := w.client(ledger.Options{Registerer: reg}), w.client(ledger.Options{Registerer: reg})
		for _, c := range []*ledger.Client{a, b} {
			wr, err := c.Create(w.ctx, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2})
			require.NoError(t, err)
			w.append(wr, 5)
			require.NoError(t, wr.Close(w.ctx))
			w.readAll(w.open(c, wr.ID(), ledger.NoRecovery), 4)
		}
		families, err := reg.Gather()
		require.NoError(t, err)
		got := map[string]float64{}
		for _, f := range families {
			require.NotEmpty(t, f.GetHelp())
			got[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
		}
		require.Equal(t, 10.0, got["loglode_ledger_entries_added_total"])
		require.Equal(t, float64(10*len(payload(0))), got["loglode_ledger_bytes_added_total"])
		require.Equal(t, 10.0, got["loglode_ledger_entries_read_total"])
	})
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := ledger.New(nil, ledger.Options{LACDelay: 2e9, BytesInFlight: -1, AddTimeout: -1})
	require.ErrorContains(t, err, "LACDelay 2s")
	require.ErrorContains(t, err, "BytesInFlight -1")
	require.ErrorContains(t, err, "AddTimeout -1ns")
}

func TestConnectByURI(t *testing.T) {
	inWorld(t, 1, ledger.Options{}, func(w *world) {
		_, err := ledger.Connect(w.ctx, "nosuch://x/y")
		require.ErrorIs(t, err, dial.ErrUnknownScheme)
		_, err = ledger.Connect(w.ctx, "mem://empty-cluster/bk")
		require.ErrorIs(t, err, metadata.ErrNotFound)
	})
}
