package namespace

import (
	"context"
	"iter"

	"github.com/loglode/loglode/stream"
)

// CreateNamespace makes a namespace of streams at a URI, bound to the cluster
// of bookies at another, which must be initialised. Both must have the same
// scheme. It fails with ErrNamespaceExists.
func CreateNamespace(ctx context.Context, uri, clusterURI string, opts ...Option) error {
	return errTODO
}

// Show gives the binding of the namespace at a URI.
func Show(ctx context.Context, uri string, opts ...Option) (Binding, error) {
	return Binding{}, errTODO
}

// ListNamespaces gives the URIs of the namespaces at and below a URI.
func ListNamespaces(ctx context.Context, uri string, opts ...Option) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { yield("", errTODO) }
}

// RemoveNamespace removes an empty namespace. It fails with ErrNotEmpty when it
// has streams, with ErrNotNamespace when nothing is bound there.
func RemoveNamespace(ctx context.Context, uri string, opts ...Option) error { return errTODO }

var _ = stream.ErrNotFound
