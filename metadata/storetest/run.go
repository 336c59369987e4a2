package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

// Env is one fresh, empty store and what can be done to it.
type Env struct {
	// Open gives another client of the store; the suite closes it.
	Open func(t *testing.T) metadata.Store
	// Direct gives a client that Cut does not touch; nil: Open does.
	Direct func(t *testing.T) metadata.Store
	// Crash ends a client as kill -9 would: its sessions live on until their
	// TTL is over.
	Crash func(t *testing.T, s metadata.Store)
	// Expire ends a session as if its TTL had passed.
	Expire func(t *testing.T, id metadata.SessionID)
	// Compact makes the store forget its history, and Cut breaks all
	// connections of the clients and lets them connect again after during was
	// called. A driver that has no history or no connections leaves them nil,
	// and the rule then checks the rest.
	Compact func(t *testing.T)
	Cut     func(t *testing.T, during func())
	// Refuses says that this driver takes no such key, though metadata.ValidKey
	// does; nil: there are none.
	Refuses func(key string) bool
	// VersionsRepeat says that a node which is made again starts at the versions
	// of the one before.
	VersionsRepeat bool
}

// wait bounds every wait of the suite. It is only reached by a failure.
const wait = 30 * time.Second

// suite is what a rule works with.
type suite struct {
	*testing.T
	*Env
	ctx context.Context
}

type rule struct {
	name  string
	check func(s suite)
}

// Run checks all rules, each on an Env of its own.
func Run(t *testing.T, newEnv func(t *testing.T) *Env) {
	for _, rules := range [][]rule{nodeRules, txnRules, listRules, sequenceRules, watchRules, sessionRules, outcomeRules} {
		for _, r := range rules {
			t.Run(r.name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*wait)
				defer cancel()
				r.check(suite{T: t, Env: newEnv(t), ctx: ctx})
			})
		}
	}
}

// open gives a client that is closed at the end.
func (s suite) open() metadata.Store {
	s.Helper()
	st := s.Open(s.T)
	s.Cleanup(func() { require.NoError(s.T, st.Close()) })
	return st
}

// direct gives a client that Cut does not touch.
func (s suite) direct() metadata.Store {
	s.Helper()
	if s.Direct == nil {
		return s.open()
	}
	st := s.Direct(s.T)
	s.Cleanup(func() { require.NoError(s.T, st.Close()) })
	return st
}

// do is a Txn that must succeed.
func (s suite) do(st metadata.Store, ops ...metadata.Op) []metadata.Node {
	s.Helper()
	res, err := st.Txn(s.ctx, ops...)
	require.NoError(s.T, err)
	require.Len(s.T, res.Nodes, len(ops))
	return res.Nodes
}

// get is a Get that must succeed.
func (s suite) get(st metadata.Store, key string) metadata.Node {
	s.Helper()
	n, err := st.Get(s.ctx, key)
	require.NoError(s.T, err)
	return n
}

// absent checks that there is no node.
func (s suite) absent(st metadata.Store, key string) {
	s.Helper()
	_, err := st.Get(s.ctx, key)
	require.ErrorIs(s.T, err, metadata.ErrNotFound)
}

// refused checks that a Txn is refused for its operation i, and why.
func (s suite) refused(st metadata.Store, i int, want error, ops ...metadata.Op) {
	s.Helper()
	_, err := st.Txn(s.ctx, ops...)
	require.ErrorIs(s.T, err, want)
	var te *metadata.TxnError
	require.ErrorAs(s.T, err, &te)
	if te.Index != -1 { // a store that cannot tell
		require.Equal(s.T, i, te.Index)
		require.Equal(s.T, ops[i].Key, te.Key)
	}
}

// names lists the children of key in pages of this size.
func (s suite) names(st metadata.Store, key string, limit int) []string {
	s.Helper()
	names := []string{}
	for n, err := range metadata.Children(s.ctx, st, key, metadata.ListOptions{Limit: limit}) {
		require.NoError(s.T, err)
		require.Equal(s.T, n.Key, metadata.Child(key, metadata.Name(n.Key)))
		names = append(names, metadata.Name(n.Key))
	}
	return names
}

// signal waits for a signal of w.
func (s suite) signal(w metadata.Watch) {
	s.Helper()
	select {
	case _, open := <-w.C():
		require.True(s.T, open, "watch ended: %v", w.Err())
	case <-time.After(wait):
		s.Fatal("no signal")
	}
}

// until reads after each signal until cond holds.
func (s suite) until(w metadata.Watch, cond func() bool) {
	s.Helper()
	for !cond() {
		s.signal(w)
	}
}

// closed waits until c is closed.
func (s suite) closed(c <-chan struct{}, what string) {
	s.Helper()
	select {
	case <-c:
	case <-time.After(wait):
		s.Fatalf("%s: not closed", what)
	}
}

func (s suite) session(st metadata.Store, opts metadata.SessionOptions) metadata.Session {
	s.Helper()
	ses, err := st.Session(s.ctx, opts)
	require.NoError(s.T, err)
	return ses
}

func (s suite) watch(st metadata.Store, key string, scope metadata.WatchScope) metadata.Watch {
	s.Helper()
	w, err := st.Watch(s.ctx, key, scope)
	require.NoError(s.T, err)
	return w
}
