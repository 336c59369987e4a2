//go:build interop

package lostanswers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/cmd/internal/javapeer"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/metadata/storetest"
	"github.com/loglode/loglode/metadata/zkstore"
)

func TestR21_LostAnswersOnZooKeeper(t *testing.T) {
	java, err := javapeer.Setup(context.Background())
	require.NoError(t, err)
	zk, err := java.StartZooKeeper(context.Background(), t.TempDir())
	require.NoError(t, err)
	defer zk.Kill()
	link := storetest.NewLink(t, zk.Addr)
	open := func(t *testing.T, at string) metadata.Store {
		s, err := zkstore.Open(t.Context(), zkstore.Options{Servers: []string{at}})
		require.NoError(t, err)
		return s
	}
	w := &world{kind: layout.Hierarchical, direct: open(t, zk.Addr)}
	defer func() { require.NoError(t, w.direct.Close()) }()
	w.open = func(t *testing.T) metadata.Store { return open(t, link.Addr()) }
	w.lose = func(_ metadata.Store, n int) int { return link.LoseAnswer(n) }
	w.run(t)
}
