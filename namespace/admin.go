package namespace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/stream"
)

// admin opens the store of a namespace's URI for an operation on the namespace
// itself.
func admin(ctx context.Context, uri string, opts []Option, f func(context.Context, *Namespace) error) error {
	o, err := newOptions(opts)
	if err != nil {
		return err
	}
	at, err := parseLocation(uri)
	if err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	ctx, cancel := o.bound(ctx)
	defer cancel()
	n := &Namespace{at: at, opts: o, log: o.logger.Named("namespace")}
	if n.store, err = n.dial(ctx, at, o.store); err == nil {
		err = f(ctx, n)
	}
	if err != nil {
		err = fmt.Errorf("namespace %s: %w", uri, unreachable(err))
	}
	return errors.Join(err, n.closeAll())
}

// CreateNamespace makes a namespace of streams at a URI, bound to the cluster
// of bookies at another, which must be initialised. Both must have the same
// scheme. It fails with ErrNamespaceExists, and with ErrNoCluster when the
// cluster is not there.
func CreateNamespace(ctx context.Context, uri, clusterURI string, opts ...Option) error {
	cluster, err := parseLocation(clusterURI)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	var kind layout.Kind
	if scheme, _, named := strings.Cut(cluster.scheme, "+"); named { // zk+hierarchical://…
		u, err := dial.ParseURI(clusterURI)
		if err != nil {
			return fmt.Errorf("cluster: %w", err)
		}
		cluster.scheme, kind = scheme, layout.Kind(u.Layout)
	}
	return admin(ctx, uri, opts, func(ctx context.Context, n *Namespace) error {
		if cluster.scheme != n.at.scheme {
			return fmt.Errorf("cluster %s has another scheme: %w", cluster, ErrInvalidURI)
		}
		n.binding = Binding{
			ClusterServers: cluster.servers, ClusterScope: cluster.path, ClusterReaderServers: cluster.servers,
			StreamServers: n.at.servers, StreamReaderServers: n.at.servers,
		}
		store, err := n.clusterStore(ctx)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", cluster, err)
		}
		if _, err := layout.OpenKind(ctx, store, cluster.path, kind); err != nil {
			if errors.Is(err, metadata.ErrNotFound) {
				err = ErrNoCluster
			}
			return fmt.Errorf("cluster %s: %w", cluster, err)
		}
		return n.bind(ctx)
	})
}

// bind makes the namespace's node, or gives one without a value its binding.
func (n *Namespace) bind(ctx context.Context) error {
	value := n.binding.Marshal()
	for {
		_, err := metadata.CreateOnce(ctx, n.store, metadata.Create(n.at.path, value).WithParents(), nil)
		if !errors.Is(err, metadata.ErrExists) {
			return err
		}
		node, err := n.store.Get(ctx, n.at.path)
		if errors.Is(err, metadata.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if len(node.Value) > 0 {
			return ErrNamespaceExists
		}
		_, err = metadata.CompareAndSet(ctx, n.store, n.at.path, value, node.Version)
		if !errors.Is(err, metadata.ErrConflict) && !errors.Is(err, metadata.ErrNotFound) {
			return err
		}
	}
}

// Show gives the binding of the namespace at a URI. It fails with
// ErrNotNamespace.
func Show(ctx context.Context, uri string, opts ...Option) (b Binding, err error) {
	err = admin(ctx, uri, opts, func(ctx context.Context, n *Namespace) (err error) {
		b, err = resolveBinding(ctx, n.store, n.at)
		return err
	})
	return b, err
}

// listDepth is how many levels below its URI ListNamespaces looks.
const listDepth = 4

// ListNamespaces gives the URIs of the namespaces at a URI and at most four
// levels below it, outermost first. It does not look inside namespaces and
// clusters.
func ListNamespaces(ctx context.Context, uri string, opts ...Option) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := admin(ctx, uri, opts, func(ctx context.Context, n *Namespace) error {
			_, err := n.listBelow(ctx, n.at, listDepth, func(at location) bool { return yield(at.String(), nil) })
			return err
		})
		if err != nil {
			yield("", err)
		}
	}
}

func (n *Namespace) listBelow(ctx context.Context, at location, depth int, yield func(location) bool) (more bool, err error) {
	node, err := n.store.Get(ctx, at.path)
	if err != nil && !errors.Is(err, metadata.ErrNotFound) {
		return false, err
	}
	if len(node.Value) > 0 {
		if _, err := ParseBinding(node.Value, at.servers); err == nil {
			return yield(at), nil
		}
		return true, nil
	}
	if depth == 0 {
		return true, nil
	}
	if _, err := layout.Open(ctx, n.store, at.path); err == nil {
		return true, nil // a cluster: ledgers, no namespaces
	}
	for c, err := range metadata.Children(ctx, n.store, at.path, metadata.ListOptions{KeysOnly: true}) {
		if err != nil {
			return false, err
		}
		if reserved(metadata.Name(c.Key)) {
			continue
		}
		if more, err := n.listBelow(ctx, location{at.scheme, at.servers, c.Key}, depth-1, yield); !more || err != nil {
			return more, err
		}
	}
	return true, nil
}

// RemoveNamespace removes a namespace without streams. It fails with
// ErrNotEmpty when it has any, with ErrNotNamespace when nothing is bound
// there. The cluster stays as it is.
func RemoveNamespace(ctx context.Context, uri string, opts ...Option) error {
	return admin(ctx, uri, opts, func(ctx context.Context, n *Namespace) error {
		node, err := n.store.Get(ctx, n.at.path)
		if errors.Is(err, metadata.ErrNotFound) || err == nil && len(node.Value) == 0 {
			return ErrNotNamespace
		}
		if err != nil {
			return err
		}
		var own []string
		for c, err := range metadata.Children(ctx, n.store, n.at.path, metadata.ListOptions{KeysOnly: true}) {
			if err != nil {
				return err
			}
			if !reserved(metadata.Name(c.Key)) {
				return fmt.Errorf("%s: %w", metadata.Name(c.Key), ErrNotEmpty)
			}
			own = append(own, c.Key)
		}
		for _, key := range own {
			if err := removeTree(ctx, n.store, key); err != nil {
				return err
			}
		}
		err = metadata.Remove(ctx, n.store, n.at.path, node.Version)
		if errors.Is(err, metadata.ErrConflict) {
			return fmt.Errorf("%w: %w", stream.ErrConflict, err)
		}
		return err
	})
}

// removeTree removes a node and everything below it.
func removeTree(ctx context.Context, s metadata.Store, key string) error {
	for c, err := range metadata.Children(ctx, s, key, metadata.ListOptions{KeysOnly: true}) {
		if err != nil {
			return err
		}
		if err := removeTree(ctx, s, c.Key); err != nil {
			return err
		}
	}
	return metadata.Remove(ctx, s, key, metadata.AnyVersion)
}
