package lostanswers

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
)

// world is a cluster with bookies that nobody can reach, which nothing here
// needs: ledgers are made, closed and deleted in the metadata alone.
type world struct {
	kind   layout.Kind
	direct metadata.Store                           // loses nothing
	open   func(t *testing.T) metadata.Store        // loses what lose says
	lose   func(s metadata.Store, n int) (left int) // lose the n-th next answer; left: of an earlier call
}

var quorum = bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}

func (w *world) init(t *testing.T) {
	_, err := layout.InitKind(t.Context(), w.direct, "/ledgers", w.kind)
	require.NoError(t, err)
	c, err := layout.Open(t.Context(), w.direct, "/ledgers")
	require.NoError(t, err)
	sess, err := w.direct.Session(t.Context(), metadata.SessionOptions{TTL: 30 * time.Second})
	require.NoError(t, err)
	for _, b := range []bk.BookieID{"b0:1", "b1:1", "b2:1"} {
		require.NoError(t, c.Register(t.Context(), sess, b, layout.ServiceInfo{}, layout.Writable))
	}
}

func client(t *testing.T, s metadata.Store) *ledger.Client {
	cluster, err := layout.Open(t.Context(), s, "/ledgers")
	require.NoError(t, err)
	c, err := ledger.New(cluster, ledger.Options{
		Dial: func(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody there") },
	})
	require.NoError(t, err)
	return c
}

// run loses the answers in a ledger's life one by one. Every call succeeds all
// the same, and no ledger is left. Then another client really comes first, and
// that is told from one's own lost success.
func (w *world) run(t *testing.T) {
	w.init(t)
	other := client(t, w.direct)
	defer func() { require.NoError(t, other.Close()) }()
	none := func() {
		for id, err := range other.List(t.Context()) {
			require.NoError(t, err)
			t.Fatalf("ledger %d is left", id)
		}
	}
	lost := 0
	for n := 1; ; n++ {
		s := w.open(t)
		c := client(t, s)
		w.lose(s, n)
		for _, opts := range [][]ledger.CreateOption{nil, {ledger.WithLedgerID(bk.LedgerID(1000 + n))}} {
			wr, err := c.Create(t.Context(), quorum, opts...)
			require.NoError(t, err, "create, n=%d", n)
			require.NoError(t, wr.Close(t.Context()), "close, n=%d", n)
			m, err := other.Metadata(t.Context(), wr.ID())
			require.NoError(t, err)
			require.Equal(t, layout.StateClosed, m.State)
			require.NoError(t, c.Delete(t.Context(), wr.ID()), "delete, n=%d", n)
			require.NoError(t, c.Delete(t.Context(), wr.ID()), "again")
			_, err = other.Metadata(t.Context(), wr.ID())
			require.ErrorIs(t, err, bk.ErrNoSuchLedger)
		}
		left := w.lose(s, 0)
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
		none()
		if left > 0 || n == 50 {
			break
		}
		lost++
	}
	require.Greater(t, lost, 5)
	t.Logf("%d answers lost in turn", lost)
	w.taken(t, other)
	none()
}

// taken: the id is another client's, whichever answer of one's own create is
// lost.
func (w *world) taken(t *testing.T, other *ledger.Client) {
	theirs, err := other.Create(t.Context(), quorum, ledger.WithLedgerID(77))
	require.NoError(t, err)
	for n := 1; n <= 6; n++ {
		s := w.open(t)
		c := client(t, s)
		w.lose(s, n)
		_, err := c.Create(t.Context(), quorum, ledger.WithLedgerID(77))
		require.ErrorIs(t, err, bk.ErrLedgerExists, "n=%d", n)
		w.lose(s, 0)
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
	}
	require.NoError(t, theirs.Close(t.Context()), "nobody touched it")
	require.NoError(t, other.Delete(t.Context(), 77))
}
