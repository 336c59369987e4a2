package storetest

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

// The n-th answer, or request, is lost, for n = 0 to lostMax-1.
const lostMax = 50

var outcomeRules = []rule{
	{"R21 one's own create, update and delete are recognised after a lost answer", func(s suite) {
		st := s.open()
		f := NewFaulty(st)
		for _, fault := range []Fault{LoseAnswer, LoseRequest} {
			for n := range lostMax {
				key := fmt.Sprintf("/%v-%d", fault, n)
				f.FailNth("Txn", n%3, fault)
				made, err := metadata.CreateOnce(s.ctx, f, metadata.Create(key, []byte("token")), nil)
				require.NoError(s.T, err)
				v, err := metadata.CompareAndSet(s.ctx, f, key, []byte("next"), made.Version)
				require.NoError(s.T, err)
				require.Equal(s.T, metadata.Version(s.get(st, key).Version), v)
				require.NoError(s.T, metadata.Remove(s.ctx, f, key, v))
				s.absent(st, key)
				require.NoError(s.T, metadata.Remove(s.ctx, f, key, v))
			}
		}
	}},
	{"R21 another's success is not taken for one's own", func(s suite) {
		st := s.open()
		f := NewFaulty(st)
		// The other client comes in just before the request that gets lost, or
		// just after the answer that gets lost.
		for _, fault := range []Fault{LoseRequest, LoseAnswer} {
			key := fmt.Sprintf("/%v", fault)
			race := func(other ...metadata.Op) {
				f.OnCall(func(ctx context.Context, c Call) Fault {
					if c.Method == "Txn" && c.N == 0 {
						_, err := st.Txn(ctx, other...)
						require.NoError(s.T, err)
						return fault
					}
					return Pass
				})
			}
			race(metadata.Create(key, []byte("theirs")))
			_, err := metadata.CreateOnce(s.ctx, f, metadata.Create(key, []byte("mine")), nil)
			require.ErrorIs(s.T, err, metadata.ErrExists)

			n := s.get(st, key)
			race(metadata.Set(key, []byte("theirs again"), n.Version))
			_, err = metadata.CompareAndSet(s.ctx, f, key, []byte("mine"), n.Version)
			require.ErrorIs(s.T, err, metadata.ErrConflict)

			n = s.get(st, key)
			race(metadata.Set(key, []byte("changed"), n.Version))
			require.ErrorIs(s.T, metadata.Remove(s.ctx, f, key, n.Version), metadata.ErrConflict)
			require.Equal(s.T, "changed", string(s.get(st, key).Value))

			n = s.get(st, key)
			race(metadata.Delete(key, n.Version))
			_, err = metadata.CompareAndSet(s.ctx, f, key, []byte("mine"), n.Version)
			require.ErrorIs(s.T, err, metadata.ErrNotFound)
		}
	}},
	{"rule 48 an outcome that cannot be read back stays unknown", func(s suite) {
		st := s.open()
		f := NewFaulty(st)
		s.do(st, metadata.Create("/a", []byte("0")))
		v := s.get(st, "/a").Version
		f.OnCall(func(_ context.Context, c Call) Fault {
			return map[string]Fault{"Txn": LoseAnswer, "Get": Refuse}[c.Method]
		})
		_, err := metadata.CompareAndSet(s.ctx, f, "/a", []byte("1"), v)
		require.ErrorIs(s.T, err, metadata.ErrUnknownOutcome)
		require.ErrorIs(s.T, err, metadata.ErrUnavailable)
		require.Equal(s.T, "1", string(s.get(st, "/a").Value))
		f.OnCall(func(_ context.Context, c Call) Fault {
			return map[string]Fault{"Txn": Refuse}[c.Method]
		})
		_, err = metadata.CompareAndSet(s.ctx, f, "/a", []byte("2"), s.get(st, "/a").Version)
		require.ErrorIs(s.T, err, metadata.ErrUnavailable)
		require.NotErrorIs(s.T, err, metadata.ErrUnknownOutcome)
		f.OnCall(func(_ context.Context, c Call) Fault {
			return map[string]Fault{"Txn": LoseRequest}[c.Method]
		})
		_, err = metadata.CompareAndSet(s.ctx, f, "/a", []byte("2"), s.get(st, "/a").Version)
		require.ErrorIs(s.T, err, metadata.ErrUnknownOutcome)
		require.Equal(s.T, "1", string(s.get(st, "/a").Value))
	}},
	{"rule 47 an update computes again from what it lost against", func(s suite) {
		st := s.open()
		f := NewFaulty(st)
		s.do(st, metadata.Create("/a", []byte("x")))
		f.OnCall(func(ctx context.Context, c Call) Fault {
			if c.Method == "Txn" && c.N < 3 {
				_, err := st.Txn(ctx, metadata.Set("/a", append(s.get(st, "/a").Value, 'o'), metadata.AnyVersion))
				require.NoError(s.T, err)
			}
			return Pass
		})
		n, err := metadata.Update(s.ctx, f, "/a", func(n metadata.Node) ([]byte, error) { return append(n.Value, '!'), nil })
		require.NoError(s.T, err)
		require.Equal(s.T, "xooo!", string(n.Value))
		got := s.get(st, "/a")
		require.Equal(s.T, n, got)
		_, err = metadata.Update(s.ctx, f, "/a", func(metadata.Node) ([]byte, error) { return nil, context.Canceled })
		require.ErrorIs(s.T, err, context.Canceled)
		require.Equal(s.T, got, s.get(st, "/a"))
	}},
	{"R22 a deaf watch signals once it is healed", func(s suite) {
		st := s.open()
		f := NewFaulty(st)
		s.do(st, metadata.Create("/a", nil))
		w, err := f.Watch(s.ctx, "/a", metadata.WatchNode)
		require.NoError(s.T, err)
		s.signal(w)
		f.DropWatches()
		s.do(st, metadata.Set("/a", []byte("1"), metadata.AnyVersion))
		f.HealWatches()
		s.until(w, func() bool { return string(s.get(f, "/a").Value) == "1" })
	}},
	{"an expired session tells its holder through the wrapper", func(s suite) {
		f := NewFaulty(s.open())
		ses := s.session(f, metadata.SessionOptions{})
		s.do(f, metadata.Create("/e", nil).WithSession(ses.ID()))
		require.NoError(s.T, f.ExpireSessions(s.ctx))
		s.closed(ses.Done(), "session")
		s.absent(f, "/e")
	}},
}
