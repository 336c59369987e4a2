package storetest

import (
	"strconv"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

var txnRules = []rule{
	{"a refused txn does nothing, whichever operation fails", func(s suite) {
		st := s.open()
		v := s.do(st, metadata.Create("/set", []byte("old")), metadata.Create("/del", nil), metadata.Create("/taken", nil))[0].Version
		good := []metadata.Op{
			metadata.Create("/new", nil), metadata.Set("/set", []byte("new"), v), metadata.Delete("/del", metadata.AnyVersion),
		}
		for i := range len(good) + 1 {
			ops := append([]metadata.Op{}, good[:i]...)
			ops = append(ops, metadata.Create("/taken", nil))
			ops = append(ops, good[i:]...)
			s.refused(st, i, metadata.ErrExists, ops...)
			s.absent(st, "/new")
			s.get(st, "/del")
			require.Equal(s.T, v, s.get(st, "/set").Version)
		}
		s.do(st, good...)
	}},
	{"operations of a txn see those before them", func(s suite) {
		st := s.open()
		v := s.do(st, metadata.Create("/p", nil), metadata.Create("/p/c", nil), metadata.Create("/x", []byte("1")))[2].Version
		s.refused(st, 1, metadata.ErrExists, metadata.Create("/n", nil), metadata.Create("/n", nil))
		s.refused(st, 1, metadata.ErrNotFound, metadata.Delete("/x", v), metadata.Set("/x", nil, metadata.AnyVersion))
		s.refused(st, 1, metadata.ErrConflict, metadata.Set("/x", nil, v), metadata.Set("/x", nil, v))
		s.refused(st, 1, metadata.ErrNotEmpty, metadata.Create("/p/d", nil), metadata.Delete("/p", metadata.AnyVersion))
		s.refused(st, 1, metadata.ErrNotEmpty, metadata.Set("/p/c", nil, metadata.AnyVersion), metadata.Delete("/p", metadata.AnyVersion))

		// Replace a node: delete and create under one name.
		n := s.do(st, metadata.Delete("/x", v), metadata.Create("/x", []byte("2")))[1]
		got := s.get(st, "/x")
		require.Equal(s.T, "2", string(got.Value))
		require.Equal(s.T, n.Version, got.Version)
		require.Equal(s.T, n.Writes, got.Writes)
		if !s.VersionsRepeat {
			s.refused(st, 0, metadata.ErrConflict, metadata.Delete("/x", v), metadata.Create("/x", []byte("3")))
		}
		// Children first, then the parent.
		s.do(st, metadata.Create("/p/c-d", nil))
		s.do(st, metadata.Delete("/p/c-d", metadata.AnyVersion), metadata.Delete("/p/c", metadata.AnyVersion), metadata.Delete("/p", metadata.AnyVersion))
		s.absent(st, "/p")
		// Made and gone at once; check, then set.
		s.do(st, metadata.Create("/m", nil), metadata.Delete("/m", metadata.AnyVersion))
		s.absent(st, "/m")
		s.do(st, metadata.Check("/x", n.Version), metadata.Set("/x", []byte("4"), n.Version), metadata.Set("/x", []byte("5"), metadata.AnyVersion))
		require.Equal(s.T, "5", string(s.get(st, "/x").Value))
	}},
	{"an empty txn does nothing", func(s suite) {
		st := s.open()
		res, err := st.Txn(s.ctx)
		require.NoError(s.T, err)
		require.Empty(s.T, res.Nodes)
	}},
	{"parents are made where asked for and needed", func(s suite) {
		st := s.open()
		s.do(st, metadata.Create("/a/b/c/d", nil).WithParents(), metadata.Create("/a/b/c/e", nil).WithParents())
		require.Equal(s.T, []string{"d", "e"}, s.names(st, "/a/b/c", 0))
		require.Equal(s.T, []string{"b"}, s.names(st, "/a", 0))
	}},
	{"concurrent updates are all counted", func(s suite) {
		st := s.open()
		s.do(st, metadata.Create("/n", []byte("0")))
		const clients, each = 4, 25
		var wg sync.WaitGroup
		errs := make(chan error, clients*each)
		for range clients {
			wg.Go(func() {
				for range each {
					_, err := metadata.Update(s.ctx, st, "/n", func(n metadata.Node) ([]byte, error) {
						i, err := strconv.Atoi(string(n.Value))
						return strconv.AppendInt(nil, int64(i)+1, 10), err
					})
					errs <- err
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(s.T, err)
		}
		n := s.get(st, "/n")
		require.Equal(s.T, strconv.Itoa(clients*each), string(n.Value))
		require.EqualValues(s.T, clients*each+1, n.Writes)
	}},
}
