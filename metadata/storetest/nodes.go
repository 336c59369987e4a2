package storetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

var nodeRules = []rule{
	{"a node is as it was created", func(s suite) {
		st := s.open()
		s.absent(st, "/a/b")
		made := s.do(st, metadata.Create("/a/b", []byte("v")).WithParents())[0]
		got := s.get(st, "/a/b")
		require.Equal(s.T, metadata.Node{Key: "/a/b", Value: []byte("v"), Version: made.Version, Writes: 1}, got)
		made.Value = got.Value
		require.Equal(s.T, got, made)
		require.NotEqual(s.T, metadata.AnyVersion, got.Version)
	}},
	{"values are kept byte for byte", func(s suite) {
		st := s.open()
		for i, v := range [][]byte{nil, {}, {0}, {0xff, 0, '\n'}, bytes.Repeat([]byte("0123456789abcdef"), 100<<10/16)} {
			key := fmt.Sprintf("/v%d", i)
			s.do(st, metadata.Create(key, v))
			require.Equal(s.T, string(v), string(s.get(st, key).Value))
		}
	}},
	{"a caller may change its buffers after the call", func(s suite) {
		st := s.open()
		v := []byte("before")
		s.do(st, metadata.Create("/a", v))
		copy(v, "AFTER!")
		got := s.get(st, "/a")
		require.Equal(s.T, "before", string(got.Value))
		copy(got.Value, "AFTER!")
		require.Equal(s.T, "before", string(s.get(st, "/a").Value))
	}},
	{"create refuses an existing node", func(s suite) {
		st := s.open()
		s.do(st, metadata.Create("/a", []byte("1")))
		s.refused(st, 0, metadata.ErrExists, metadata.Create("/a", []byte("2")))
		require.Equal(s.T, "1", string(s.get(st, "/a").Value))
	}},
	{"set compares the version and changes it", func(s suite) {
		st := s.open()
		s.refused(st, 0, metadata.ErrNotFound, metadata.Set("/a", nil, metadata.AnyVersion))
		s.refused(st, 0, metadata.ErrNotFound, metadata.Set("/a", nil, 0))
		v1 := s.do(st, metadata.Create("/a", []byte("1")))[0].Version
		n := s.do(st, metadata.Set("/a", []byte("2"), v1))[0]
		require.NotEqual(s.T, v1, n.Version)
		require.EqualValues(s.T, 2, n.Writes)
		s.refused(st, 0, metadata.ErrConflict, metadata.Set("/a", []byte("3"), v1))
		got := s.get(st, "/a")
		require.Equal(s.T, metadata.Node{Key: "/a", Value: []byte("2"), Version: n.Version, Writes: 2}, got)
		s.do(st, metadata.Set("/a", []byte("3"), metadata.AnyVersion))
		require.EqualValues(s.T, 3, s.get(st, "/a").Writes)
	}},
	{"put creates and overwrites, and counts writes", func(s suite) {
		st := s.open()
		for i := range int64(3) {
			n := s.do(st, metadata.Put("/c", nil))[0]
			require.Equal(s.T, i+1, n.Writes)
			require.Equal(s.T, n.Version, s.get(st, "/c").Version)
		}
		s.do(st, metadata.Delete("/c", metadata.AnyVersion))
		require.EqualValues(s.T, 1, s.do(st, metadata.Put("/c", nil))[0].Writes)
	}},
	{"delete compares the version", func(s suite) {
		st := s.open()
		s.refused(st, 0, metadata.ErrNotFound, metadata.Delete("/a", metadata.AnyVersion))
		v := s.do(st, metadata.Create("/a", nil))[0].Version
		w := s.do(st, metadata.Set("/a", nil, v))[0].Version
		s.refused(st, 0, metadata.ErrConflict, metadata.Delete("/a", v))
		s.do(st, metadata.Delete("/a", w))
		s.absent(st, "/a")
	}},
	{"delete refuses a node with children", func(s suite) {
		st := s.open()
		s.do(st, metadata.Create("/a", nil), metadata.Create("/a/b", nil), metadata.Create("/a-c", nil))
		s.refused(st, 0, metadata.ErrNotEmpty, metadata.Delete("/a", metadata.AnyVersion))
		s.do(st, metadata.Delete("/a/b", metadata.AnyVersion))
		s.do(st, metadata.Delete("/a", metadata.AnyVersion))
		s.get(st, "/a-c")
	}},
	{"check changes nothing", func(s suite) {
		st := s.open()
		s.refused(st, 0, metadata.ErrNotFound, metadata.Check("/a", metadata.AnyVersion))
		n := s.do(st, metadata.Create("/a", []byte("1")))[0]
		require.Equal(s.T, n.Version, s.do(st, metadata.Check("/a", n.Version))[0].Version)
		require.Equal(s.T, n.Version, s.do(st, metadata.Check("/a", metadata.AnyVersion))[0].Version)
		s.refused(st, 0, metadata.ErrConflict, metadata.Check("/a", n.Version+1))
		require.Equal(s.T, n.Version, s.get(st, "/a").Version)
	}},
	{"R40 keys that could leave their tree are refused", checkInvalidKeys},
	{"a call whose context is over fails and does nothing", func(s suite) {
		st := s.open()
		ctx, cancel := context.WithCancel(s.ctx)
		cancel()
		_, err := st.Txn(ctx, metadata.Create("/a", nil))
		require.ErrorIs(s.T, err, metadata.ErrUnavailable)
		require.ErrorIs(s.T, err, context.Canceled)
		_, err = st.Get(ctx, "/a")
		require.ErrorIs(s.T, err, metadata.ErrUnavailable)
		_, err = st.List(ctx, "/a", metadata.ListOptions{})
		require.ErrorIs(s.T, err, metadata.ErrUnavailable)
		_, err = st.Session(ctx, metadata.SessionOptions{})
		require.ErrorIs(s.T, err, metadata.ErrUnavailable)
		_, err = st.Watch(ctx, "/a", metadata.WatchNode)
		require.ErrorIs(s.T, err, metadata.ErrUnavailable)
		s.absent(st, "/a")
	}},
	{"calls on a closed store fail", func(s suite) {
		st := s.open()
		require.NoError(s.T, st.Close())
		require.NoError(s.T, st.Close())
		_, err := st.Get(s.ctx, "/a")
		require.ErrorIs(s.T, err, metadata.ErrClosed)
		_, err = st.List(s.ctx, "/a", metadata.ListOptions{})
		require.ErrorIs(s.T, err, metadata.ErrClosed)
		_, err = st.Txn(s.ctx, metadata.Create("/a", nil))
		require.ErrorIs(s.T, err, metadata.ErrClosed)
		_, err = st.Watch(s.ctx, "/a", metadata.WatchNode)
		require.ErrorIs(s.T, err, metadata.ErrClosed)
		_, err = st.Session(s.ctx, metadata.SessionOptions{TTL: time.Second})
		require.ErrorIs(s.T, err, metadata.ErrClosed)
	}},
	{"another client sees each change at once", func(s suite) {
		a, b := s.open(), s.open()
		n := s.do(a, metadata.Create("/a", []byte("1")))[0]
		require.Equal(s.T, n.Version, s.get(b, "/a").Version)
		n = s.do(b, metadata.Set("/a", []byte("2"), n.Version))[0]
		require.Equal(s.T, n.Version, s.get(a, "/a").Version)
	}},
}

func checkInvalidKeys(s suite) {
	st := s.open()
	for _, key := range []string{
		"", "a", "a/b", "/a/", "//", "//a", "/a//b", "/.", "/..", "/a/../b", "/a/./b", "../x", "/a/..",
		"/a\x00b", "/\xff", "/" + strings.Repeat("x", metadata.MaxKeyBytes),
	} {
		for _, op := range []metadata.Op{
			metadata.Create(key, nil), metadata.Put(key, nil), metadata.Set(key, nil, metadata.AnyVersion),
			metadata.Delete(key, metadata.AnyVersion), metadata.Check(key, metadata.AnyVersion),
		} {
			s.refused(st, 0, metadata.ErrInvalidKey, op)
		}
		_, err := st.Get(s.ctx, key)
		require.ErrorIs(s.T, err, metadata.ErrInvalidKey, "%q", key)
		_, err = st.List(s.ctx, key, metadata.ListOptions{})
		require.ErrorIs(s.T, err, metadata.ErrInvalidKey, "%q", key)
		_, err = st.Watch(s.ctx, key, metadata.WatchNode)
		require.ErrorIs(s.T, err, metadata.ErrInvalidKey, "%q", key)
	}
	s.refused(st, 0, metadata.ErrInvalidKey, metadata.Put("/", nil))
	require.Empty(s.T, s.names(st, "/", 0))
	// What is odd but harmless is taken as it is.
	odd := []string{"/ ", "/%2f..%2f", "/...", "/<img src=x onerror=alert(1)>", "/a.b. ", "/\x01", "/ü"}
	taken := 0
	for _, key := range odd {
		if s.Refuses != nil && s.Refuses(key) {
			s.refused(st, 0, metadata.ErrInvalidKey, metadata.Create(key, nil))
			_, err := st.Get(s.ctx, key)
			require.ErrorIs(s.T, err, metadata.ErrInvalidKey, "%q", key)
			continue
		}
		taken++
		s.do(st, metadata.Create(key, []byte(key)))
		require.Equal(s.T, key, string(s.get(st, key).Value))
	}
	require.Len(s.T, s.names(st, "/", 2), taken)
}
