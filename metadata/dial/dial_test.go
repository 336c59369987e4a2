package dial

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loglode/loglode/metadata"
)

func TestParseURI(t *testing.T) {
	for in, want := range map[string]URI{
		"etcd://h:1/a":                 {Scheme: SchemeEtcd, Hosts: []string{"h:1"}, Path: "/a"},
		"etcd://h:1,g:2/a/b":           {Scheme: SchemeEtcd, Hosts: []string{"h:1", "g:2"}, Path: "/a/b"},
		"etcd://h:1;g/a/":              {Scheme: SchemeEtcd, Hosts: []string{"h:1", "g:2379"}, Path: "/a"},
		"etcd://h":                     {Scheme: SchemeEtcd, Hosts: []string{"h:2379"}, Path: "/"},
		"etcd://[::1]:7/x":             {Scheme: SchemeEtcd, Hosts: []string{"[::1]:7"}, Path: "/x"},
		"etcd://[::1]/x":               {Scheme: SchemeEtcd, Hosts: []string{"[::1]:2379"}, Path: "/x"},
		"zk://h/messaging/ns":          {Scheme: SchemeZooKeeper, Hosts: []string{"h:2181"}, Path: "/messaging/ns"},
		"zk+hierarchical://h/ledgers":  {Scheme: SchemeZooKeeper, Layout: "hierarchical", Hosts: []string{"h:2181"}, Path: "/ledgers"},
		"zk+flat://h:1;g/ledgers":      {Scheme: SchemeZooKeeper, Layout: "flat", Hosts: []string{"h:1", "g:2181"}, Path: "/ledgers"},
		"zk+null://h/ledgers":          {Scheme: SchemeZooKeeper, Hosts: []string{"h:2181"}, Path: "/ledgers"},
		"mem://name":                   {Scheme: SchemeMemory, Hosts: []string{"name"}, Path: "/"},
		"mem://name/ns":                {Scheme: SchemeMemory, Hosts: []string{"name"}, Path: "/ns"},
		"etcd://127.0.0.1:2379/\u00fc": {Scheme: SchemeEtcd, Hosts: []string{"127.0.0.1:2379"}, Path: "/\u00fc"},
	} {
		got, err := ParseURI(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
		again, err := ParseURI(got.String())
		require.NoError(t, err, in)
		require.Equal(t, want, again, in)
	}
	require.Equal(t, "etcd://h:1,g:2/x", URI{Scheme: SchemeEtcd, Hosts: []string{"h:1", "g:2"}, Path: "/"}.WithPath("/x").String())
}

func TestParseURIErrors(t *testing.T) {
	for in, want := range map[string]error{
		"":                    ErrInvalidURI,
		"h:2379/a":            ErrInvalidURI,
		"://h/a":              ErrInvalidURI,
		"etcd:///a":           ErrInvalidURI,
		"etcd://,/a":          ErrInvalidURI,
		"etcd://h:0/a":        ErrInvalidURI,
		"etcd://h:99999/a":    ErrInvalidURI,
		"etcd://h:x/a":        ErrInvalidURI,
		"etcd://:1/a":         ErrInvalidURI,
		"etcd://u:p@h:1/a":    ErrInvalidURI,
		"etcd://h/a//b":       ErrInvalidURI,
		"etcd://h/../b":       ErrInvalidURI,
		"etcd://h/a\x00":      ErrInvalidURI,
		"mem:///a":            ErrInvalidURI,
		"mem://a,b/c":         ErrInvalidURI,
		"http://h/a":          ErrUnknownScheme,
		"distributedlog://h/": ErrUnknownScheme,
		"zk+ms://h/a":         ErrUnknownScheme,
		"zk+://h/a":           ErrUnknownScheme,
		"etcd+flat://h/a":     ErrUnknownScheme,
	} {
		_, err := ParseURI(in)
		require.ErrorIs(t, err, want, "%q", in)
		require.ErrorContains(t, err, Example, "%q", in)
		_, _, err = Open(t.Context(), in, Options{})
		require.ErrorIs(t, err, want, "%q", in)
	}
}

// A memory store is one store for all who know its name.
func TestOpenMemoryByName(t *testing.T) {
	a, path, err := Open(t.Context(), "mem://TestOpenMemoryByName/x", Options{})
	require.NoError(t, err)
	require.Equal(t, "/x", path)
	_, err = a.Txn(t.Context(), metadata.Create("/x", []byte("v")))
	require.NoError(t, err)
	require.NoError(t, a.Close())
	b, _, err := Open(t.Context(), "mem://TestOpenMemoryByName", Options{})
	require.NoError(t, err)
	n, err := b.Get(t.Context(), "/x")
	require.NoError(t, err)
	require.Equal(t, "v", string(n.Value))
	require.NoError(t, b.Close())
	c, _, err := Open(t.Context(), "mem://TestOpenMemoryByName.other", Options{})
	require.NoError(t, err)
	_, err = c.Get(t.Context(), "/x")
	require.ErrorIs(t, err, metadata.ErrNotFound)
	require.NoError(t, c.Close())
}

func TestOpenUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	for _, scheme := range []string{"etcd", "zk", "zk+hierarchical"} {
		uri := scheme + "://" + l.Addr().String() + "/a"
		_, _, err = Open(t.Context(), uri, Options{DialTimeout: 100 * time.Millisecond})
		require.ErrorIs(t, err, metadata.ErrUnavailable)
		require.ErrorContains(t, err, uri)
	}
}
