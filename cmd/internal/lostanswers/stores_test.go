package lostanswers

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/daemon"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/etcdstore"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/memstore"
	"github.com/loglode/loglode/metadata/storetest"
)

// loser is a store that loses one answer, or one request, to a transaction.
type loser struct {
	*storetest.Faulty
	mu   sync.Mutex // guards left
	left int
}

func (l *loser) lose(n int, fault storetest.Fault) (left int) {
	l.mu.Lock()
	left, l.left = l.left, n
	l.mu.Unlock()
	l.OnCall(func(_ context.Context, c storetest.Call) storetest.Fault {
		l.mu.Lock()
		defer l.mu.Unlock()
		if c.Method != "Txn" || l.left == 0 {
			return storetest.Pass
		}
		if l.left--; l.left == 0 {
			return fault
		}
		return storetest.Pass
	})
	return left
}

func TestR21_LostAnswersInMemory(t *testing.T) {
	for _, kind := range []layout.Kind{layout.Etcd, layout.Hierarchical, layout.LongHierarchical, layout.LegacyHierarchical, layout.Flat} {
		for _, fault := range []storetest.Fault{storetest.LoseAnswer, storetest.LoseRequest} {
			t.Run(string(kind)+" "+fault.String(), func(t *testing.T) {
				tree := memstore.NewTree()
				if kind != layout.Etcd {
					tree = memstore.NewStrictTree()
				}
				w := &world{kind: kind, direct: tree.Open()}
				defer func() { require.NoError(t, w.direct.Close()) }()
				w.open = func(*testing.T) metadata.Store { return &loser{Faulty: storetest.NewFaulty(tree.Open())} }
				w.lose = func(s metadata.Store, n int) int { return s.(*loser).lose(n, fault) }
				w.run(t)
			})
		}
	}
}

func TestR21_LostAnswersOnEtcd(t *testing.T) {
	e, err := daemon.StartEtcd(t.Context(), daemon.EtcdOptions{Dir: t.TempDir(), ListenClient: "127.0.0.1:0"})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	link := storetest.NewLink(t, e.Endpoint())
	open := func(t *testing.T, at string) metadata.Store {
		s, err := etcdstore.Open(t.Context(), etcdstore.Options{Endpoints: []string{at}})
		require.NoError(t, err)
		return s
	}
	w := &world{kind: layout.Etcd, direct: open(t, e.Endpoint())}
	defer func() { require.NoError(t, w.direct.Close()) }()
	w.open = func(t *testing.T) metadata.Store { return open(t, link.Addr()) }
	w.lose = func(_ metadata.Store, n int) int { return link.LoseAnswer(n) }
	w.run(t)
}
