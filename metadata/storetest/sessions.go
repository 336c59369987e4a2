package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

// ttl is short, as tests wait for it, and the least that etcd grants.
const ttl = time.Second

var sessionRules = []rule{
	{"nodes of a session go when it is closed", func(s suite) {
		st, other := s.open(), s.open()
		ses := s.session(st, metadata.SessionOptions{TTL: 10 * time.Second})
		n := s.do(st, metadata.Create("/e", []byte("v")).WithSession(ses.ID()), metadata.Create("/p", nil))[0]
		require.Equal(s.T, ses.ID(), n.Session)
		require.Equal(s.T, ses.ID(), s.get(other, "/e").Session)
		require.Zero(s.T, s.get(other, "/p").Session)
		w := s.watch(other, "/e", metadata.WatchNode)
		s.signal(w)
		require.NoError(s.T, ses.Close(s.ctx))
		s.closed(ses.Done(), "session")
		s.signal(w)
		s.absent(other, "/e")
		s.get(other, "/p")
		require.NoError(s.T, ses.Close(s.ctx))
	}},
	{"nodes of a session outlive a crash until the TTL, not longer", func(s suite) {
		st, other := s.Open(s.T), s.open()
		ses := s.session(st, metadata.SessionOptions{TTL: ttl})
		s.do(st, metadata.Create("/e", nil).WithSession(ses.ID()))
		w := s.watch(other, "/e", metadata.WatchNode)
		s.Crash(s.T, st)
		crashed := time.Now()
		s.get(other, "/e")
		s.until(w, func() bool {
			_, err := other.Get(s.ctx, "/e")
			return err != nil
		})
		require.Greater(s.T, time.Since(crashed), ttl/3)
		s.absent(other, "/e")
	}},
	{"a session lives as long as its holder", func(s suite) {
		st, other := s.open(), s.open()
		ses := s.session(st, metadata.SessionOptions{TTL: 2 * ttl})
		s.do(st, metadata.Create("/e", nil).WithSession(ses.ID()))
		// An abandoned session of a longer TTL measures the time.
		gone := s.Open(s.T)
		clock := s.session(gone, metadata.SessionOptions{TTL: 3 * ttl})
		s.do(gone, metadata.Create("/clock", nil).WithSession(clock.ID()))
		w := s.watch(other, "/clock", metadata.WatchNode)
		clock.Abandon()
		s.closed(clock.Done(), "abandoned session")
		s.until(w, func() bool {
			_, err := other.Get(s.ctx, "/clock")
			return err != nil
		})
		require.NoError(s.T, gone.Close())
		require.Equal(s.T, ses.ID(), s.get(other, "/e").Session)
		select {
		case <-ses.Done():
			s.Fatal("session ended")
		default:
		}
	}},
	{"a holder learns that its session has expired", func(s suite) {
		st := s.open()
		ses := s.session(st, metadata.SessionOptions{TTL: ttl})
		s.do(st, metadata.Create("/e", nil).WithSession(ses.ID()))
		s.Expire(s.T, ses.ID())
		s.closed(ses.Done(), "expired session")
		s.absent(st, "/e")
		_, err := st.Txn(s.ctx, metadata.Create("/e", nil).WithSession(ses.ID()))
		require.ErrorIs(s.T, err, metadata.ErrSessionLost)
		s.absent(st, "/e")
		require.NoError(s.T, ses.Close(s.ctx))
	}},
	{"a session can be resumed after a crash, with its nodes", func(s suite) {
		st, next := s.Open(s.T), s.open()
		ses := s.session(st, metadata.SessionOptions{TTL: 10 * time.Second})
		s.do(st, metadata.Create("/e", nil).WithSession(ses.ID()))
		s.Crash(s.T, st)
		again := s.session(next, metadata.SessionOptions{TTL: 10 * time.Second, Resume: ses.ID(), Secret: ses.Secret()})
		require.Equal(s.T, ses.ID(), again.ID())
		s.do(next, metadata.Create("/f", nil).WithSession(again.ID()))
		s.get(next, "/e")
		require.NoError(s.T, again.Close(s.ctx))
		s.absent(next, "/e")
		s.absent(next, "/f")
		_, err := next.Session(s.ctx, metadata.SessionOptions{TTL: 10 * time.Second, Resume: ses.ID(), Secret: ses.Secret()})
		require.ErrorIs(s.T, err, metadata.ErrSessionLost)
	}},
	{"a node keeps its session when it is set, not when it is put or made anew", func(s suite) {
		st := s.open()
		ses := s.session(st, metadata.SessionOptions{TTL: 10 * time.Second})
		s.do(st, metadata.Create("/set", nil).WithSession(ses.ID()), metadata.Create("/put", nil).WithSession(ses.ID()),
			metadata.Create("/new", nil).WithSession(ses.ID()), metadata.Create("/plain", nil))
		n := s.do(st, metadata.Set("/set", []byte("2"), metadata.AnyVersion), metadata.Put("/put", nil),
			metadata.Delete("/new", metadata.AnyVersion), metadata.Create("/new", nil),
			metadata.Put("/plain", nil).WithSession(ses.ID()))
		require.Equal(s.T, ses.ID(), n[0].Session)
		require.Zero(s.T, n[1].Session)
		require.Zero(s.T, n[3].Session)
		require.Equal(s.T, ses.ID(), n[4].Session)
		require.NoError(s.T, ses.Close(s.ctx))
		s.absent(st, "/set")
		s.absent(st, "/plain")
		s.get(st, "/put")
		s.get(st, "/new")
	}},
	{"sessions end with their store", func(s suite) {
		st, other := s.Open(s.T), s.open()
		ses := s.session(st, metadata.SessionOptions{TTL: 10 * time.Second})
		s.do(st, metadata.Create("/e", nil).WithSession(ses.ID()))
		require.NoError(s.T, st.Close())
		s.closed(ses.Done(), "session of a closed store")
		require.NoError(s.T, ses.Close(s.ctx))
		s.absent(other, "/e")
	}},
	{"a session of nobody cannot own a node", func(s suite) {
		st := s.open()
		_, err := st.Txn(s.ctx, metadata.Create("/e", nil).WithSession(424242))
		require.ErrorIs(s.T, err, metadata.ErrSessionLost)
		s.absent(st, "/e")
		_, err = st.Session(s.ctx, metadata.SessionOptions{Resume: 424242})
		require.ErrorIs(s.T, err, metadata.ErrSessionLost)
	}},
}
