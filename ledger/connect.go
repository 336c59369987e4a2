package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
)

// Connect opens the metadata store at a URI ("etcd://host:2379/bk",
// "zk://host:2181/ledgers") and makes a client of the cluster there. A URI that
// names a layout ("zk+hierarchical://…") wants the cluster to have it:
// layout.ErrLayout. Close closes the store too.
func Connect(ctx context.Context, metadataURI string, opts ...Option) (*Client, error) {
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	uri, err := dial.ParseURI(metadataURI)
	if err != nil {
		return nil, err
	}
	store, scope, err := dial.Open(ctx, metadataURI, dial.Options{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	cluster, err := layout.OpenKind(ctx, store, scope, layout.Kind(uri.Layout))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open cluster %s: %w", metadataURI, err), store.Close())
	}
	c, err := New(cluster, o)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	c.store = store
	return c, nil
}
