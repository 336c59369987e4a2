package memstore

import (
	"testing"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/storetest"
)

func TestStore(t *testing.T) { run(t, NewTree) }

func TestStrictStore(t *testing.T) { run(t, NewStrictTree) }

func run(t *testing.T, newTree func() *Tree) {
	storetest.Run(t, func(*testing.T) *storetest.Env {
		tree := newTree()
		return &storetest.Env{
			VersionsRepeat: tree.strict,

			Open:   func(*testing.T) metadata.Store { return tree.Open() },
			Crash:  func(_ *testing.T, s metadata.Store) { s.(*Store).Crash() },
			Expire: func(_ *testing.T, id metadata.SessionID) { tree.Expire(id) },
		}
	})
}
