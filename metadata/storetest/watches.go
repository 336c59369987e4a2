package storetest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

var watchRules = []rule{
	{"a watch signals at its start and after each change of its node", func(s suite) {
		st, other := s.open(), s.open()
		w := s.watch(st, "/p/a", metadata.WatchNode)
		s.signal(w)
		s.do(other, metadata.Create("/p/a", nil).WithParents())
		s.signal(w)
		s.do(other, metadata.Set("/p/a", nil, metadata.AnyVersion))
		s.signal(w)
		s.do(other, metadata.Delete("/p/a", metadata.AnyVersion))
		s.signal(w)
		s.do(other, metadata.Create("/p/a", nil))
		s.signal(w)
	}},
	{"a watch of children signals when one is created, written or deleted", func(s suite) {
		st, other := s.open(), s.open()
		s.do(st, metadata.Create("/p", nil))
		w := s.watch(st, "/p", metadata.WatchChildren)
		s.signal(w)
		s.do(other, metadata.Create("/p/a", nil))
		s.signal(w)
		s.do(other, metadata.Set("/p/a", nil, metadata.AnyVersion))
		s.signal(w)
		s.do(other, metadata.Delete("/p/a", metadata.AnyVersion))
		s.signal(w)
	}},
	{"a watch does not signal for other nodes", func(s suite) {
		st := s.open()
		s.do(st, metadata.Create("/p", nil), metadata.Create("/p/a", nil), metadata.Create("/p0", nil))
		node := s.watch(st, "/p", metadata.WatchNode)
		children := s.watch(st, "/p", metadata.WatchChildren)
		s.signal(node)
		s.signal(children)
		s.do(st, metadata.Create("/p/a/deep", nil), metadata.Set("/p0", nil, metadata.AnyVersion), metadata.Create("/q", nil))
		// Another watch that sees these changes tells when they have passed.
		after := s.watch(st, "/p/a", metadata.WatchChildren)
		s.signal(after)
		s.do(st, metadata.Set("/p/a/deep", nil, metadata.AnyVersion))
		s.signal(after)
		select {
		case <-node.C():
			s.Fatal("signal for another node")
		case <-children.C():
			s.Fatal("signal for a node that is not a child")
		default:
		}
	}},
	{"a watch ends with its context or its store", func(s suite) {
		st := s.Open(s.T)
		ctx, cancel := context.WithCancel(s.ctx)
		byContext, err := st.Watch(ctx, "/a", metadata.WatchNode)
		require.NoError(s.T, err)
		byStore := s.watch(st, "/a", metadata.WatchChildren)
		s.signal(byContext)
		s.signal(byStore)
		require.NoError(s.T, byContext.Err())
		cancel()
		s.drained(byContext)
		require.ErrorIs(s.T, byContext.Err(), context.Canceled)
		require.NoError(s.T, byStore.Err())
		require.NoError(s.T, st.Close())
		s.drained(byStore)
		require.ErrorIs(s.T, byStore.Err(), metadata.ErrClosed)
	}},
	{"who reads after each signal ends at the newest state", func(s suite) {
		st, writer := s.open(), s.open()
		s.do(st, metadata.Create("/a", []byte("0")))
		w := s.watch(st, "/a", metadata.WatchNode)
		const last = 200
		errs := make(chan error, 1)
		go func() {
			var err error
			for i := 1; i <= last && err == nil; i++ {
				_, err = writer.Txn(s.ctx, metadata.Set("/a", strconv.AppendInt(nil, int64(i), 10), metadata.AnyVersion))
			}
			errs <- err
		}()
		before := -1
		s.until(w, func() bool {
			now, err := strconv.Atoi(string(s.get(st, "/a").Value))
			require.NoError(s.T, err)
			require.GreaterOrEqual(s.T, now, before)
			before = now
			return now == last
		})
		require.NoError(s.T, <-errs)
	}},
	{"R22 a watch survives cut connections and lost history", func(s suite) {
		st, writer := s.open(), s.direct()
		s.do(st, metadata.Create("/p", nil), metadata.Create("/p/a", []byte("before")))
		node := s.watch(st, "/p/a", metadata.WatchNode)
		children := s.watch(st, "/p", metadata.WatchChildren)
		s.signal(node)
		s.signal(children)
		change := func() {
			for i := range 10 {
				s.do(writer, metadata.Set("/p/a", []byte(fmt.Sprint(i)), metadata.AnyVersion), metadata.Create(fmt.Sprintf("/p/c%d", i), nil))
			}
			if s.Compact != nil {
				s.Compact(s.T)
			}
		}
		if s.Cut != nil {
			s.Cut(s.T, change)
		} else {
			change()
		}
		s.until(node, func() bool { return string(s.get(st, "/p/a").Value) == "9" })
		s.until(children, func() bool { return len(s.names(st, "/p", 0)) == 11 })
		// And they go on.
		s.do(writer, metadata.Set("/p/a", []byte("after"), metadata.AnyVersion))
		s.until(node, func() bool { return string(s.get(st, "/p/a").Value) == "after" })
	}},
	{"many watches of one node all signal", func(s suite) {
		st := s.open()
		ctx, cancel := context.WithTimeout(s.ctx, wait)
		defer cancel()
		var ws []metadata.Watch
		for range 50 {
			w, err := st.Watch(ctx, "/a", metadata.WatchNode)
			require.NoError(s.T, err)
			s.signal(w)
			ws = append(ws, w)
		}
		s.do(st, metadata.Create("/a", nil))
		for _, w := range ws {
			s.signal(w)
		}
	}},
}

// drained waits until the watch has ended.
func (s suite) drained(w metadata.Watch) {
	s.Helper()
	deadline := time.After(wait)
	for {
		select {
		case _, open := <-w.C():
			if !open {
				return
			}
		case <-deadline:
			s.Fatal("watch does not end")
		}
	}
}
