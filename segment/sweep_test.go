package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

var errDead = errors.New("the process is gone")

// mortal is a process that ends at one step, a metadata transaction or the
// deletion of a ledger: before it or, its effect done, after it.
type mortal struct {
	metadata.Store
	*fakeLedgers
	steps, diesAt int
	after, dead   bool
}

// step counts one step; do is its effect.
func (m *mortal) step(do func() error) error {
	if m.dead {
		return errDead
	}
	n := m.steps
	m.steps++
	m.dead = n == m.diesAt
	if m.dead && !m.after {
		return errDead
	}
	err := do()
	if m.dead {
		return errDead
	}
	return err
}

func (m *mortal) Txn(ctx context.Context, ops ...metadata.Op) (res metadata.Result, err error) {
	err = m.step(func() error {
		res, err = m.Store.Txn(ctx, ops...)
		return err
	})
	return res, err
}

func (m *mortal) Get(ctx context.Context, key string) (metadata.Node, error) {
	if m.dead {
		return metadata.Node{}, errDead
	}
	return m.Store.Get(ctx, key)
}

func (m *mortal) List(ctx context.Context, key string, opts metadata.ListOptions) (metadata.Page, error) {
	if m.dead {
		return metadata.Page{}, errDead
	}
	return m.Store.List(ctx, key, opts)
}

func (m *mortal) remove(ctx context.Context, id bk.LedgerID) error {
	return m.step(func() error { return m.fakeLedgers.remove(ctx, id) })
}

// process is a new process on w that dies at a step; -1 = never.
func (w *world) process(diesAt int, after bool) (*mortal, *Stream) {
	m := &mortal{Store: w.store, fakeLedgers: w.ledgers, diesAt: diesAt, after: after}
	tree := &Tree{opts: Options{Store: m, Path: namespacePath, FirstSegment: 1, ClockSkewMax: 3600e9}, ledgers: m, log: zap.NewNop()}
	s, err := tree.Stream("s")
	require.NoError(w.t, err)
	return m, s
}

// longStream has n completed segments with one record each, and one in progress.
func longStream(t *testing.T, w *world, n int) {
	c := claim(t, w.create("s"))
	for k := range n {
		sw := start(t, c, stream.TxID(k+1))
		mustPut(t, sw, rec{txid: stream.TxID(k + 1), payload: fmt.Sprint("r", k+1)})
		_, err := c.Complete(t.Context(), sw)
		require.NoError(t, err)
	}
	mustPut(t, start(t, c, stream.TxID(n+1)), rec{txid: stream.TxID(n + 1), payload: "open"})
}

// requireListedKept checks that no ledger is gone that a segment still needs.
func (w *world) requireListedKept(t *testing.T) {
	nodes, err := w.stream("s").listNodes(t.Context())
	require.NoError(t, err)
	for _, n := range nodes {
		if n.info.Status != Truncated {
			require.NotNil(t, w.ledgers.get(n.info.Ledger), "segment %d is listed, its ledger is gone", n.info.Segment)
		}
	}
}

// TestR42_TruncationCutAtEveryStep: twenty segments are truncated away and
// purged; the process dies before or after each of its steps. The next purge
// deletes what is left of the twenty ledgers, and no other.
func TestR42_TruncationCutAtEveryStep(t *testing.T) {
	const n = 20
	ctx := t.Context()
	purge := func(s *Stream) error {
		if err := s.Truncate(ctx, stream.DLSN{Segment: n + 1}); err != nil {
			return err
		}
		_, err := s.Purge(ctx, 0)
		return err
	}
	steps := 0
	for _, after := range []bool{false, true} {
		for k := 0; ; k++ {
			w := newWorld(t)
			longStream(t, w, n+1)
			m, s := w.process(k, after)
			err := purge(s)
			if !m.dead {
				require.NoError(t, err)
				break
			}
			steps++
			require.ErrorIs(t, err, errDead)
			w.requireListedKept(t)
			got := records(t, w.stream("s"))
			require.Equal(t, []string{"21:0:0 21 r21", "22:0:0 22 open"}, got[len(got)-2:], "died at step %d, after it %v", k, after)
			require.NoError(t, purge(w.stream("s")))
			require.Len(t, w.ledgers.ids(), 2, "died at step %d, after it %v", k, after)
			w.requireListedKept(t)
			require.Equal(t, []string{"21:0:0 21 r21", "22:0:0 22 open"}, records(t, w.stream("s")))
		}
	}
	require.Greater(t, steps, 2*2*n, "a ledger and a node for each segment")
	t.Logf("%d crash points", steps)
}

// TestR42_DeletionCutAtEveryStep: a whole stream is deleted while a reader has a
// segment open; the process dies at each step. Deleting it again finishes, and
// no ledger is left.
func TestR42_DeletionCutAtEveryStep(t *testing.T) {
	ctx := t.Context()
	steps := 0
	for _, after := range []bool{false, true} {
		for k := 0; ; k++ {
			w := newWorld(t)
			longStream(t, w, 4)
			infos, err := w.stream("s").List(ctx)
			require.NoError(t, err)
			r, err := w.stream("s").OpenReader(ctx, infos[1])
			require.NoError(t, err)
			m, s := w.process(k, after)
			err = s.Delete(ctx)
			if !m.dead {
				require.NoError(t, err)
				require.NoError(t, r.Close())
				break
			}
			steps++
			require.ErrorIs(t, err, errDead)
			// What the reader has open it reads, or is told that it is gone.
			if _, err := r.Next(ctx); err != nil && !errors.Is(err, io.EOF) {
				require.ErrorIs(t, err, stream.ErrNotFound)
			}
			require.NoError(t, r.Close())
			if err := w.stream("s").Delete(ctx); err != nil {
				require.ErrorIs(t, err, stream.ErrNotFound, "the last step was done: died at step %d, after it %v", k, after)
			}
			require.Empty(t, w.ledgers.ids(), "died at step %d, after it %v", k, after)
			require.Empty(t, w.dump(namespacePath))
		}
	}
	require.Greater(t, steps, 2*2*4)
	t.Logf("%d crash points", steps)
}
