package bookie

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata/layout"
)

// ClusterLedgers gives the ledgers of a cluster for CollectOptions. If the
// metadata that the cluster was opened on now hold another one, each listing
// fails: what an emptied or exchanged store does not have was not deleted.
func ClusterLedgers(c *layout.Cluster) Ledgers { return clusterLedgers{c} }

type clusterLedgers struct{ c *layout.Cluster }

func (m clusterLedgers) Ledgers(ctx context.Context) iter.Seq2[bk.LedgerID, error] {
	return func(yield func(bk.LedgerID, error) bool) {
		if err := m.same(ctx); err != nil {
			yield(bk.InvalidLedgerID, err)
			return
		}
		m.c.Ledgers(ctx)(yield)
	}
}

func (m clusterLedgers) same(ctx context.Context) error {
	now, err := layout.OpenKind(ctx, m.c.Store(), m.c.Scope(), m.c.Kind())
	if err != nil {
		return err
	}
	if now.InstanceID() != m.c.InstanceID() {
		return fmt.Errorf("cluster %s has instance id %q, want %q: the metadata were made anew; restart the bookie to have its cookie checked: %w",
			m.c.Scope(), now.InstanceID(), m.c.InstanceID(), ErrIdentity)
	}
	return nil
}

func (m clusterLedgers) Exists(ctx context.Context, l bk.LedgerID) (bool, error) {
	_, _, err := m.c.Ledger(ctx, l)
	switch {
	case errors.Is(err, bk.ErrNoSuchLedger):
		return false, nil
	case errors.Is(err, bk.ErrCorrupt):
		return true, nil // it is there, whatever it says
	}
	return err == nil, err
}
