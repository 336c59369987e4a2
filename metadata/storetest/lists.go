package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

var listRules = []rule{
	{"a listing gives direct children only, sorted, in pages of any size", func(s suite) {
		st := s.open()
		require.Empty(s.T, s.names(st, "/none", 0))
		var want []string
		var ops []metadata.Op
		for i := range 20 {
			name := fmt.Sprintf("c%02d", i)
			want = append(want, name)
			ops = append(ops, metadata.Create("/p/"+name, []byte(name)).WithParents())
			if i%3 == 0 {
				ops = append(ops, metadata.Create("/p/"+name+"/deep", nil), metadata.Create("/p/"+name+"/deep/er", nil))
			}
		}
		ops = append(ops, metadata.Create("/p-q", nil), metadata.Create("/p0", nil), metadata.Create("/o", nil))
		s.do(st, ops...)
		for limit := range len(want) + 2 {
			require.Equal(s.T, want, s.names(st, "/p", limit), "pages of %d", limit)
		}
		page, err := st.List(s.ctx, "/p", metadata.ListOptions{Limit: 3, After: "c04"})
		require.NoError(s.T, err)
		require.True(s.T, page.More)
		require.Equal(s.T, []string{"/p/c05", "/p/c06", "/p/c07"}, []string{page.Nodes[0].Key, page.Nodes[1].Key, page.Nodes[2].Key})
		require.Equal(s.T, "c05", string(page.Nodes[0].Value))
		require.Equal(s.T, s.get(st, "/p/c05"), page.Nodes[0])
		page, err = st.List(s.ctx, "/p", metadata.ListOptions{KeysOnly: true})
		require.NoError(s.T, err)
		require.False(s.T, page.More)
		require.Nil(s.T, page.Nodes[0].Value)
		require.NotZero(s.T, page.Nodes[0].Version)
	}},
	{"a child that is only a parent is listed once, without a version", func(s suite) {
		// '-', '.' and '!' sort before '/', '0' and 'a' after it: siblings come
		// between a node and its descendants.
		st := s.open()
		var ops []metadata.Op
		for _, key := range []string{"a/x", "a-b", "a.b/y", "a!", "b", "b/x", "b-c", "b.d", "a0", "c/1/2/3", "c-", "b/y"} {
			ops = append(ops, metadata.Create("/p/"+key, []byte("v")).WithParents())
		}
		s.do(st, ops...)
		want := []string{"a", "a!", "a-b", "a.b", "a0", "b", "b-c", "b.d", "c", "c-"}
		for limit := range len(want) + 2 {
			got := s.names(st, "/p", limit)
			slices.Sort(got)
			require.Equal(s.T, want, got, "pages of %d", limit)
		}
		page, err := st.List(s.ctx, "/p", metadata.ListOptions{})
		require.NoError(s.T, err)
		for _, n := range page.Nodes {
			if slices.Contains([]string{"/p/a", "/p/a.b", "/p/c"}, n.Key) {
				require.Empty(s.T, n.Value)
			} else {
				require.NotZero(s.T, n.Version, n.Key)
			}
		}
	}},
	{"a listing skips large sub-trees", func(s suite) {
		st := s.open()
		for _, parent := range []string{"a", "b", "c"} {
			s.do(st, metadata.Create("/p/"+parent, nil).WithParents())
			for i := range 8 {
				var ops []metadata.Op
				for j := range 60 {
					ops = append(ops, metadata.Create(fmt.Sprintf("/p/%s/%03d", parent, 60*i+j), nil))
				}
				s.do(st, ops...)
			}
		}
		for limit := range 4 {
			require.Equal(s.T, []string{"a", "b", "c"}, s.names(st, "/p", limit))
		}
		require.Len(s.T, s.names(st, "/p/b", 50), 480)
		require.Len(s.T, s.names(st, "/p/b", 0), 480)
	}},
	{"a child that stays is listed exactly once while others come and go", func(s suite) {
		st := s.open()
		var want []string
		for i := range 40 {
			name := fmt.Sprintf("stay-%02d", i)
			want = append(want, name)
			s.do(st, metadata.Create("/p/"+name, nil).WithParents())
			if i%4 == 0 {
				s.do(st, metadata.Create("/p/"+name+"/sub", nil))
			}
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var failure error
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("/p/stay-%02d!", i%40)
				for _, op := range []metadata.Op{metadata.Create(key, nil), metadata.Delete(key, metadata.AnyVersion)} {
					if _, err := st.Txn(s.ctx, op); err != nil {
						failure = err
						return
					}
				}
			}
		})
		for range 10 {
			got := slices.DeleteFunc(s.names(st, "/p", 7), func(n string) bool { return n[len(n)-1] == '!' })
			require.Equal(s.T, want, got)
		}
		close(stop)
		wg.Wait()
		require.NoError(s.T, failure)
	}},
}

var sequenceRules = []rule{
	{"sequential numbers rise, also over deleted siblings and other names", func(s suite) {
		st := s.open()
		s.do(st, metadata.Create("/p", nil), metadata.Create("/q", nil))
		last := ""
		for i := range 4 {
			prefix := []string{"/p/a-", "/p/b-"}[i%2]
			n := s.do(st, metadata.Create(prefix, []byte("v")).AsSequential())[0]
			require.GreaterOrEqual(s.T, len(n.Key), len(prefix)+10)
			require.Equal(s.T, prefix, n.Key[:len(prefix)])
			require.Greater(s.T, n.Key[len(prefix):], last)
			last = n.Key[len(prefix):]
			require.Equal(s.T, n.Version, s.get(st, n.Key).Version)
			s.do(st, metadata.Delete(n.Key, n.Version))
		}
		two := s.do(st, metadata.Create("/p/", nil).AsSequential(), metadata.Create("/p/", nil).AsSequential())
		require.Less(s.T, two[0].Key, two[1].Key)
		require.Greater(s.T, metadata.Name(two[0].Key), last)
		require.Equal(s.T, []string{metadata.Name(two[0].Key), metadata.Name(two[1].Key)}, s.names(st, "/p", 1))
		require.Empty(s.T, s.names(st, "/q", 0))
	}},
	{"sequential numbers are given once to concurrent clients", func(s suite) {
		a, b := s.open(), s.open()
		s.do(a, metadata.Create("/p", nil))
		const each = 15
		keys := make(chan string, 4*each)
		errs := make(chan error, 4*each)
		var wg sync.WaitGroup
		for i := range 4 {
			st := []metadata.Store{a, b}[i%2]
			wg.Go(func() {
				for range each {
					res, err := st.Txn(s.ctx, metadata.Create("/p/n", nil).AsSequential())
					errs <- err
					if err == nil {
						keys <- res.Nodes[0].Key
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		close(keys)
		for err := range errs {
			require.NoError(s.T, err)
		}
		seen := map[string]bool{}
		for k := range keys {
			require.False(s.T, seen[k], k)
			seen[k] = true
		}
		require.Len(s.T, s.names(a, "/p", 0), 4*each)
	}},
	{"a parent that had sequential children can be deleted", func(s suite) {
		st := s.open()
		s.do(st, metadata.Create("/p", nil), metadata.Create("/p/s", nil))
		n := s.do(st, metadata.Create("/p/s/n-", nil).AsSequential())[0]
		s.refused(st, 0, metadata.ErrNotEmpty, metadata.Delete("/p/s", metadata.AnyVersion))
		s.do(st, metadata.Delete(n.Key, n.Version), metadata.Delete("/p/s", metadata.AnyVersion), metadata.Delete("/p", metadata.AnyVersion))
		require.Empty(s.T, s.names(st, "/p", 0))
		s.refused(st, 1, metadata.ErrExists, metadata.Create("/x", nil), metadata.Create("/x", nil), metadata.Create("/p/s", nil).AsSequential())
	}},
}
