package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
	"github.com/loglode/loglode/ledger/placement"
	"github.com/loglode/loglode/metadata/layout"
)

// createAttempts bounds how many generated ids may turn out to be taken.
const createAttempts = 10

// Create makes a new, open ledger and gives its writer. It fails with
// bk.ErrNotEnoughBookies when fewer bookies than q.Ensemble are writable. No
// bookie hears of the ledger before its first add.
func (c *Client) Create(ctx context.Context, q bk.Quorum, opts ...CreateOption) (*Writer, error) {
	cfg := createConfig{digest: bk.DigestCRC32C, id: bk.InvalidLedgerID}
	for _, o := range opts {
		o(&cfg)
	}
	if err := q.Validate(); err != nil {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	digester, err := bk.NewDigester(cfg.digest, cfg.password)
	if err != nil {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	ensemble, err := c.chooseEnsemble(ctx, q.Ensemble)
	if err != nil {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	m := &layout.LedgerMetadata{
		Quorum: q, State: layout.StateOpen, Segments: []layout.Segment{{First: 0, Ensemble: ensemble}},
		LastEntry: bk.InvalidEntryID, HasPassword: true, Digest: cfg.digest, Password: cfg.password,
		CTime: time.Now().Truncate(time.Millisecond), Custom: maps.Clone(cfg.custom),
	}
	stored, err := c.storeNew(ctx, cfg.id, m)
	if err != nil {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	w, err := newWriter(c, stored, digester, cfg)
	if err != nil {
		return nil, fmt.Errorf("create ledger %d: %w", stored.id, err)
	}
	return w, nil
}

func (c *Client) chooseEnsemble(ctx context.Context, n int) ([]bk.BookieID, error) {
	bookies, err := c.cluster.Bookies(ctx)
	if err != nil {
		return nil, fmt.Errorf("list bookies: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return placement.Choose(c.rng, n, bookies.Writable, c.avoid)
}

// storeNew writes the metadata of a new ledger, under a new id if id is
// bk.InvalidLedgerID (rule 2).
func (c *Client) storeNew(ctx context.Context, id bk.LedgerID, m *layout.LedgerMetadata) (storedMetadata, error) {
	chosen := id != bk.InvalidLedgerID
	for attempt := 1; ; attempt++ {
		if !chosen {
			var err error
			if id, err = c.cluster.NewLedgerID(ctx); err != nil {
				return storedMetadata{}, fmt.Errorf("new ledger id: %w", err)
			}
		}
		v, err := c.cluster.CreateLedger(ctx, id, m)
		if err == nil {
			return storedMetadata{cluster: c.cluster, id: id, meta: m, version: v}, nil
		}
		if chosen || !errors.Is(err, bk.ErrLedgerExists) || attempt == createAttempts {
			return storedMetadata{}, fmt.Errorf("metadata of ledger %d: %w", id, err)
		}
	}
}

// policy is what a writer does about a bookie that failed.
func (o *Options) policy() quorum.Policy {
	if o.FailWhenShort {
		return quorum.ReplaceOrFail
	}
	return quorum.ReplaceOrGoOn
}
