package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/ledger/internal/fakebookie"
)

// world is a cluster of fake bookies and a client, in virtual time.
type world struct {
	*testing.T
	ctx context.Context
	*fakebookie.Cluster
	c       *ledger.Client
	clients []*ledger.Client
}

// inWorld runs test with n fake bookies in virtual time.
func inWorld(t *testing.T, n int, opts ledger.Options, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		cluster, err := fakebookie.NewCluster(ctx, n)
		require.NoError(t, err)
		w := &world{T: t, ctx: ctx, Cluster: cluster}
		w.c = w.client(opts)
		defer func() {
			for _, c := range w.clients {
				assert.NoError(t, c.Close())
			}
			assert.NoError(t, cluster.Close())
		}()
		test(w)
	})
}

// client makes one more client of the cluster.
func (w *world) client(opts ledger.Options) *ledger.Client {
	opts.Dial = w.Dial
	if opts.Seed == 0 {
		opts.Seed = 1
	}
	c, err := ledger.New(w.Layout, opts)
	require.NoError(w, err)
	w.clients = append(w.clients, c)
	return c
}

func (w *world) create(e, qw, qa int, opts ...ledger.CreateOption) *ledger.Writer {
	wr, err := w.c.Create(w.ctx, bk.Quorum{Ensemble: e, Write: qw, Ack: qa}, opts...)
	require.NoError(w, err)
	return wr
}

// payload is what entry e holds in these tests.
func payload(e bk.EntryID) []byte { return fmt.Appendf(nil, "entry %d", e) }

// append adds n entries, one after another.
func (w *world) append(wr *ledger.Writer, n int) {
	for range n {
		want := wr.LastPushed() + 1
		e, err := wr.Append(w.ctx, payload(want))
		require.NoError(w, err)
		require.Equal(w, want, e)
	}
}

func (w *world) open(c *ledger.Client, id bk.LedgerID, mode ledger.OpenMode) *ledger.Reader {
	r, err := c.Open(w.ctx, id, mode)
	require.NoError(w, err)
	return r
}

// readAll reads entries 0 to last and checks their payloads.
func (w *world) readAll(r *ledger.Reader, last bk.EntryID) {
	next := bk.EntryID(0)
	for ent, err := range r.Entries(w.ctx, 0, last) {
		require.NoError(w, err)
		require.Equal(w, next, ent.ID)
		require.Equal(w, string(payload(next)), string(ent.Payload))
		next++
	}
	require.Equal(w, last+1, next)
}

// ensemble gives the bookies of the ledger's last segment, in order.
func (w *world) ensemble(id bk.LedgerID) []*fakebookie.Bookie {
	m, err := w.c.Metadata(w.ctx, id)
	require.NoError(w, err)
	var out []*fakebookie.Bookie
	for _, b := range m.LastSegment().Ensemble {
		out = append(out, w.Bookie(b))
	}
	return out
}
