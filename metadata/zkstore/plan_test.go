package zkstore

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

func TestDataVersions(t *testing.T) {
	for v, want := range map[metadata.Version]int32{
		metadata.AnyVersion: -1, 1: 0, 2: 1, math.MaxInt32: math.MaxInt32 - 1,
		0: noVersion, -2: noVersion, math.MaxInt32 + 1: noVersion, math.MinInt64: noVersion,
	} {
		require.Equal(t, want, dataVersion(v), "%d", v)
	}
	require.EqualValues(t, 1, versionOf(0))
	require.Zero(t, nodeOf("/c", nil, &zk.Stat{EphemeralOwner: containerOwner}).Session)
}

func TestKeysZooKeeperTakes(t *testing.T) {
	for _, key := range []string{"/", "/a", "/a b", "/%2f", "/...", "/zookeeper2", "/a/zookeeper", "/ü", "/\u2028", "/\ud7ff", "/\ufb01"} {
		require.NoError(t, validKey(key), "%q", key)
	}
	for _, key := range []string{
		"", "a", "/a/", "/a//b", "/..", "/zookeeper", "/zookeeper/quota", "/\x01", "/a\n", "/\x7f", "/\u0085",
		"/\ue000", "/\uf8ff", "/\ufff0", "/\ufffd", "/\U0001f600", "/\xff",
	} {
		require.ErrorIs(t, validKey(key), metadata.ErrInvalidKey, "%q", key)
	}
	require.NoError(t, validOp(metadata.Create("/p/", nil).AsSequential()))
	require.ErrorIs(t, validOp(metadata.Create("/p/\n", nil).AsSequential()), metadata.ErrInvalidKey)
}

// multiOf writes a plan down, a word or two for each operation.
func multiOf(p *plan) string {
	var words []string
	for i, r := range p.multi {
		var w string
		switch r := r.(type) {
		case *zk.CreateRequest:
			w = fmt.Sprintf("create %s/%d", r.Path, r.Flags)
		case *zk.SetDataRequest:
			w = fmt.Sprintf("set %s@%d", r.Path, r.Version)
		case *zk.DeleteRequest:
			w = fmt.Sprintf("delete %s@%d", r.Path, r.Version)
		case *zk.CheckVersionRequest:
			w = fmt.Sprintf("check %s@%d", r.Path, r.Version)
		}
		if p.read[i] {
			w += "?"
		}
		if p.parent[i] {
			w += "^"
		}
		words = append(words, w)
	}
	return strings.Join(words, ", ")
}

// What a transaction becomes, given what was read: "?" rests on that, "^" makes
// a parent.
func TestPlans(t *testing.T) {
	there := func(owner metadata.SessionID, version int32) *found {
		return &found{known: true, exists: true, owner: owner, version: version}
	}
	any := metadata.AnyVersion
	for _, c := range []struct {
		ops     []metadata.Op
		read    map[string]*found
		missing []string
		want    string
	}{
		{ops: []metadata.Op{metadata.Create("/a", nil), metadata.Set("/b", nil, 3), metadata.Delete("/c", any), metadata.Check("/d", 1)},
			want: "create /a/0, set /b@2, delete /c@-1, check /d@0"},
		{ops: []metadata.Op{metadata.Create("/e", nil).WithSession(7), metadata.Create("/s-", nil).AsSequential().WithSession(7)},
			want: "create /e/1, create /s-/3"},
		{ops: []metadata.Op{metadata.Set("/a", nil, 0)}, want: "set /a@-2"},

		{ops: []metadata.Op{metadata.Put("/a", nil)}, read: map[string]*found{"/a": {known: true}}, want: "create /a/0?"},
		{ops: []metadata.Op{metadata.Put("/a", nil)}, read: map[string]*found{"/a": there(0, 4)}, want: "set /a@4?"},
		{ops: []metadata.Op{metadata.Put("/a", nil)}, read: map[string]*found{"/a": there(7, 4)}, want: "delete /a@4?, create /a/0?"},
		{ops: []metadata.Op{metadata.Put("/a", nil).WithSession(7)}, read: map[string]*found{"/a": there(7, 4)}, want: "set /a@4?"},
		{ops: []metadata.Op{metadata.Create("/a", nil), metadata.Put("/a", nil)}, read: map[string]*found{"/a": {known: true}},
			want: "create /a/0, set /a@-1"},
		{ops: []metadata.Op{metadata.Delete("/a", any), metadata.Put("/a", nil)}, read: map[string]*found{"/a": there(0, 1)},
			want: "delete /a@-1, create /a/0"},
		{ops: []metadata.Op{metadata.Set("/a", nil, any), metadata.Put("/a", nil)}, read: map[string]*found{"/a": there(7, 1)},
			want: "set /a@-1, delete /a@-1, create /a/0"},

		{ops: []metadata.Op{metadata.Check("/a", any)}, read: map[string]*found{"/a": there(0, 9)}, want: "check /a@9?"},
		{ops: []metadata.Op{metadata.Check("/a", any)}, read: map[string]*found{"/a": {known: true}}, want: "check /a@-2?"},
		{ops: []metadata.Op{metadata.Create("/a", nil), metadata.Check("/a", any)}, read: map[string]*found{"/a": {known: true}},
			want: "create /a/0, check /a@-1"},

		{ops: []metadata.Op{metadata.Create("/p/q/a", nil).WithParents(), metadata.Create("/p/q/b", nil).WithParents()},
			missing: []string{"/p", "/p/q"}, want: "create /p/0^, create /p/q/0^, create /p/q/a/0, create /p/q/b/0"},
		{ops: []metadata.Op{metadata.Create("/p", nil), metadata.Create("/p/q/a", nil).WithParents()}, missing: []string{"/p", "/p/q"},
			want: "create /p/0, create /p/q/0^, create /p/q/a/0"},
		{ops: []metadata.Op{metadata.Delete("/p", any), metadata.Create("/p/a", nil).WithParents()},
			want: "delete /p@-1, create /p/0^, create /p/a/0"},
		{ops: []metadata.Op{metadata.Create("/p/a", nil)}, missing: []string{"/p"}, want: "create /p/a/0"},
	} {
		missing := map[string]bool{}
		for _, key := range c.missing {
			missing[key] = true
		}
		if c.read == nil {
			c.read = map[string]*found{}
		}
		p, err := newPlan(c.ops, c.read, missing)
		require.NoError(t, err)
		require.Equal(t, c.want, multiOf(p))
		for i := range c.ops {
			require.Equal(t, i, p.of[p.last[i]])
		}
	}
}

func TestPlanErrors(t *testing.T) {
	_, err := newPlan([]metadata.Op{metadata.Create("/a", make([]byte, maxTxnBytes))}, map[string]*found{}, nil)
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = newPlan([]metadata.Op{metadata.Create("/a", nil), {Kind: 99, Key: "/b"}}, map[string]*found{}, nil)
	require.ErrorIs(t, err, metadata.ErrInvalidKey)
	var te *metadata.TxnError
	require.ErrorAs(t, err, &te)
	require.Equal(t, 1, te.Index)
}

// What a refusal means depends on whether it contradicts what was read.
func TestVerdicts(t *testing.T) {
	there := func() map[string]*found {
		return map[string]*found{"/a": {known: true, exists: true, version: 3}}
	}
	gone := func() map[string]*found { return map[string]*found{"/a": {known: true}} }
	for _, c := range []struct {
		name string
		op   metadata.Op
		read map[string]*found
		err  error
		want verdict
	}{
		{"create of what exists", metadata.Create("/a", nil), map[string]*found{}, zk.ErrNodeExists, refusedForGood},
		{"create without its parent", metadata.Create("/a", nil), map[string]*found{}, zk.ErrNoNode, refusedForGood},
		{"create that makes its parent", metadata.Create("/a", nil).WithParents(), map[string]*found{}, zk.ErrNoNode, readParents},
		{"set of another version", metadata.Set("/a", nil, 4), map[string]*found{}, zk.ErrBadVersion, refusedForGood},
		{"put of what was made meanwhile", metadata.Put("/a", nil), gone(), zk.ErrNodeExists, readAgain},
		{"put without its parent", metadata.Put("/a", nil), gone(), zk.ErrNoNode, refusedForGood},
		{"put that makes its parent", metadata.Put("/a", nil).WithParents(), gone(), zk.ErrNoNode, readParents},
		{"put of what was changed meanwhile", metadata.Put("/a", nil), there(), zk.ErrBadVersion, readAgain},
		{"put of what was deleted meanwhile", metadata.Put("/a", nil), there(), zk.ErrNoNode, readAgain},
		{"put without permission", metadata.Put("/a", nil), there(), zk.ErrNoAuth, refusedForGood},
		{"check of what was changed meanwhile", metadata.Check("/a", metadata.AnyVersion), there(), zk.ErrBadVersion, readAgain},
		{"check of what was deleted meanwhile", metadata.Check("/a", metadata.AnyVersion), there(), zk.ErrNoNode, readAgain},
		{"check of what was made meanwhile", metadata.Check("/a", metadata.AnyVersion), gone(), zk.ErrBadVersion, readAgain},
		{"check of what is not there", metadata.Check("/a", metadata.AnyVersion), gone(), zk.ErrNoNode, refusedForGood},
		{"check of a version", metadata.Check("/a", 3), map[string]*found{}, zk.ErrBadVersion, refusedForGood},
	} {
		p, err := newPlan([]metadata.Op{c.op}, c.read, nil)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, p.judge(len(p.multi)-1, c.err), c.name)
	}
	require.Equal(t, 1, refusedAt([]zk.MultiResponse{{}, {Error: zk.ErrNodeExists}, {Error: fmt.Errorf("unknown error: -2")}}))
	require.Equal(t, -1, refusedAt([]zk.MultiResponse{{}, {Error: fmt.Errorf("unknown error: -4")}}))
}

func TestPages(t *testing.T) {
	names := func() []string { return []string{"c", "a", "zookeeper", "b"} }
	for _, c := range []struct {
		key  string
		opts metadata.ListOptions
		want []string
		more bool
	}{
		{"/", metadata.ListOptions{}, []string{"a", "b", "c"}, false},
		{"/p", metadata.ListOptions{}, []string{"a", "b", "c", "zookeeper"}, false},
		{"/p", metadata.ListOptions{Limit: 2}, []string{"a", "b"}, true},
		{"/p", metadata.ListOptions{Limit: 2, After: "b"}, []string{"c", "zookeeper"}, false},
		{"/p", metadata.ListOptions{Limit: 1, After: "b0"}, []string{"c"}, true},
		{"/p", metadata.ListOptions{After: "b/"}, []string{"c", "zookeeper"}, false},
		{"/p", metadata.ListOptions{After: "zz"}, []string{}, false},
	} {
		got, more := onPage(c.key, names(), c.opts)
		require.Equal(t, c.want, got, "%+v", c)
		require.Equal(t, c.more, more, "%+v", c)
	}
}

func TestOptionsErrors(t *testing.T) {
	for field, o := range map[string]Options{
		"Servers": {}, "SessionTimeout": {Servers: []string{"h:1"}, SessionTimeout: -1},
		"DialTimeout": {Servers: []string{"h:1"}, DialTimeout: -1}, "RequestTimeout": {Servers: []string{"h:1"}, RequestTimeout: -1},
	} {
		require.ErrorContains(t, o.Validate(), field)
		_, err := Open(t.Context(), o)
		require.ErrorContains(t, err, field)
	}
}
