package ledger

import (
	"context"
	"iter"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata/layout"
)


// Client talks to the bookies of one cluster. Any number of goroutines may use
// it.
type Client struct {
	cluster *layout.Cluster
	opts    Options
}

// Connect opens the metadata store at a URI ("etcd://host:2379/ledgers") and
// makes a client of the cluster there. Close closes the store too.
func Connect(ctx context.Context, metadataURI string, opts ...Option) (*Client, error) {
	return nil, errTODO
}

// New makes a client of a cluster. The cluster's store stays the caller's.
func New(cluster *layout.Cluster, opts Options) (*Client, error) {
	return nil, errTODO
}

// Cluster is the metadata of the cluster that the client uses.
func (c *Client) Cluster() *layout.Cluster { return c.cluster }

// Close fails what is still in flight and waits for the client's goroutines.
// Writers and readers that are still open end as by Abort.
func (c *Client) Close() error { return errTODO }

// Create makes a new, open ledger and gives its writer. It fails with
// bk.ErrNotEnoughBookies when fewer bookies than q.Ensemble are writable.
func (c *Client) Create(ctx context.Context, q bk.Quorum, opts ...CreateOption) (*Writer, error) {
	return nil, errTODO
}

// Open gives a reader of a ledger. With Recover a ledger that is not closed is
// fenced, recovered and closed first. It fails with bk.ErrNoSuchLedger when
// the metadata has no such ledger, with bk.ErrRecoveryFailed when too few
// bookies answered to be sure of the end.
func (c *Client) Open(ctx context.Context, id bk.LedgerID, mode OpenMode, opts ...OpenOption) (*Reader, error) {
	return nil, errTODO
}

// Delete removes a ledger's metadata; bookies drop the entries by their own
// garbage collection. Deleting a ledger that does not exist is
// bk.ErrNoSuchLedger.
func (c *Client) Delete(ctx context.Context, id bk.LedgerID) error { return errTODO }

// List gives the ids of all ledgers of the cluster, in ascending order where
// the store allows.
func (c *Client) List(ctx context.Context) iter.Seq2[bk.LedgerID, error] {
	return func(yield func(bk.LedgerID, error) bool) { yield(0, errTODO) }
}

// Metadata reads what the store holds of a ledger.
func (c *Client) Metadata(ctx context.Context, id bk.LedgerID) (*layout.LedgerMetadata, error) {
	return nil, errTODO
}
