package layout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
)

// NewLedgerID gives an id that no other call on this cluster was given. In etcd
// ids use up to 63 bits from the first on. Someone may have chosen the same id
// himself: CreateLedger tells, and then the next one is due.
func (c *Cluster) NewLedgerID(ctx context.Context) (bk.LedgerID, error) {
	return c.form.ledgers().newID(ctx, c.store)
}

// CreateLedger stores the metadata of a new ledger and gives its version;
// bk.ErrLedgerExists if the id is taken by another. One's own create whose
// answer was lost is recognised by its CToken, which CreateLedger sets, and
// counts as success. m is not kept.
func (c *Cluster) CreateLedger(ctx context.Context, id bk.LedgerID, m *LedgerMetadata) (metadata.Version, error) {
	if id < 0 {
		return 0, fmt.Errorf("create ledger %d: id is negative: %w", id, metadata.ErrInvalidKey)
	}
	withToken := *m
	if m.CToken == 0 && (m.FormatVersion == 0 || m.FormatVersion == FormatVersion3) {
		withToken.CToken = rand.Int64N(1<<63-1) + 1
	}
	value, err := withToken.Marshal()
	if err != nil {
		return 0, fmt.Errorf("create ledger %d: %w", id, err)
	}
	op := metadata.Create(c.form.ledgers().key(id), value).WithParents()
	for range createAttempts {
		var n metadata.Node
		n, err = metadata.CreateOnce(ctx, c.store, op, func(n metadata.Node) bool { return bytes.Equal(n.Value, value) })
		if err == nil {
			return n.Version, nil
		}
		// A delete of the last neighbour takes the parents away, maybe between
		// their making and ours.
		if !errors.Is(err, metadata.ErrNotFound) || ctx.Err() != nil {
			return 0, ledgerError("create", id, err)
		}
	}
	return 0, fmt.Errorf("create ledger %d: its parents keep vanishing: %w: %w", id, bk.ErrMetadataConflict, err)
}

// createAttempts bounds how often a ledger is created when its parents vanish.
const createAttempts = 10

// Ledger gives the metadata of a ledger and its version; bk.ErrNoSuchLedger.
func (c *Cluster) Ledger(ctx context.Context, id bk.LedgerID) (*LedgerMetadata, metadata.Version, error) {
	n, err := c.store.Get(ctx, c.form.ledgers().key(id))
	if err != nil {
		return nil, 0, ledgerError("read", id, err)
	}
	m, err := ParseLedgerMetadata(n.Value)
	if err != nil {
		return nil, 0, ledgerError("read", id, err)
	}
	return m, n.Version, nil
}

// UpdateLedger overwrites the metadata if it still has version v, and gives the
// new version. m keeps the format version it was read with.
//
// bk.ErrMetadataConflict: someone else changed it; read it again, test the
// precondition again, compute again. A lost answer is settled by reading back:
// metadata.ErrUnknownOutcome remains only if that failed too, and then the
// caller must read before it decides.
func (c *Cluster) UpdateLedger(ctx context.Context, id bk.LedgerID, m *LedgerMetadata, v metadata.Version) (metadata.Version, error) {
	noToken := *m
	noToken.CToken = 0
	value, err := noToken.Marshal()
	if err != nil {
		return 0, fmt.Errorf("update ledger %d: %w", id, err)
	}
	v, err = metadata.CompareAndSet(ctx, c.store, c.form.ledgers().key(id), value, v)
	if err != nil {
		return 0, ledgerError("update", id, err)
	}
	return v, nil
}

// DeleteLedger removes the metadata, whatever its version. None there is
// success in a ZooKeeper tree and bk.ErrNoSuchLedger in etcd's, as in Java's
// drivers. Bookies find out by their own garbage collection.
func (c *Cluster) DeleteLedger(ctx context.Context, id bk.LedgerID) error {
	if err := c.form.ledgers().remove(ctx, c.store, id); err != nil {
		return ledgerError("delete", id, err)
	}
	return nil
}

// Ledgers lists all ledgers of the cluster in the order of their ids (as far as
// the tree has room for their digits: ids from 10^10 on that someone chose in
// LegacyHierarchical or Flat come where their path sorts). The sequence ends after the first error. A ledger that is made or deleted
// meanwhile may or may not be in it: ask Ledger before acting on an absence.
func (c *Cluster) Ledgers(ctx context.Context) iter.Seq2[bk.LedgerID, error] {
	return c.form.ledgers().list(ctx, c.store)
}

// WatchLedger signals changes of one ledger's metadata.
func (c *Cluster) WatchLedger(ctx context.Context, id bk.LedgerID) (metadata.Watch, error) {
	w, err := c.store.Watch(ctx, c.form.ledgers().key(id), metadata.WatchNode)
	if err != nil {
		return nil, fmt.Errorf("watch ledger %d: %w", id, err)
	}
	return w, nil
}

// ledgerError adds the ledger's own word for a condition of the store; both
// stay visible.
func ledgerError(verb string, id bk.LedgerID, err error) error {
	var as error
	switch {
	case errors.Is(err, metadata.ErrNotFound):
		as = bk.ErrNoSuchLedger
	case errors.Is(err, metadata.ErrExists):
		as = bk.ErrLedgerExists
	case errors.Is(err, metadata.ErrConflict):
		as = bk.ErrMetadataConflict
	default:
		return fmt.Errorf("%s ledger %d: %w", verb, id, err)
	}
	return fmt.Errorf("%s ledger %d: %w: %w", verb, id, as, err)
}
