package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
	"github.com/loglode/loglode/metadata/layout"
)

// createAttempts bounds how many generated ids may turn out to be taken.
const createAttempts = 10

// Create makes a new, open ledger and gives its writer. It fails with
// bk.ErrNotEnoughBookies when fewer bookies than q.Ensemble are writable, and
// with bk.ErrTimeout at the deadline of ctx or after MetadataTimeout. A ledger
// that was made all the same, its answer lost, is deleted later. No bookie gets
// a request before the ledger's first add.
func (c *Client) Create(ctx context.Context, q bk.Quorum, opts ...CreateOption) (*Writer, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	w, err := c.create(ctx, q, opts)
	if err != nil {
		return nil, fmt.Errorf("create ledger: %w", timedOut(ctx, err))
	}
	return w, nil
}

func (c *Client) create(ctx context.Context, q bk.Quorum, opts []CreateOption) (*Writer, error) {
	cfg := createConfig{digest: bk.DigestCRC32C, id: bk.InvalidLedgerID}
	for _, o := range opts {
		o(&cfg)
	}
	if err := q.Validate(); err != nil {
		return nil, err
	}
	digester, err := bk.NewDigester(cfg.digest, cfg.password)
	if err != nil {
		return nil, err
	}
	policy, err := c.placementOf(&cfg)
	if err != nil {
		return nil, err
	}
	ensemble, err := c.chooseEnsemble(ctx, q, policy)
	if err != nil {
		return nil, err
	}
	dialed := c.dialAhead(ensemble)
	m := &layout.LedgerMetadata{
		Quorum: q, State: layout.StateOpen, Segments: []layout.Segment{{First: 0, Ensemble: ensemble}},
		LastEntry: bk.InvalidEntryID, HasPassword: true, Digest: cfg.digest, Password: cfg.password,
		CTime: time.Now().Truncate(time.Millisecond), Custom: maps.Clone(cfg.custom),
		CToken: mathrand.Int64N(math.MaxInt64) + 1,
	}
	stored, epochs, err := c.storeNew(ctx, cfg.id, m, dialed)
	if err != nil {
		return nil, err
	}
	w, err := newWriter(c, stored, epochs, digester, cfg)
	if err != nil {
		return nil, fmt.Errorf("ledger %d: %w", stored.id, err)
	}
	w.placement = policy
	return w, nil
}

// dialAheadMax is how long a metadata write that names bookies waits for their
// connections. Those that are there before it need no proof later that the
// ledger is still open.
const dialAheadMax = 200 * time.Millisecond

// dialAhead dials bookies that will be needed, unless they are connected. The
// function it gives waits for that, for a short while, and gives those that
// could not be reached; one that is only slow is none of them.
func (c *Client) dialAhead(ids []bk.BookieID) (wait func(context.Context) (failed []bk.BookieID)) {
	dials := make([]<-chan struct{}, len(ids))
	for i, id := range ids {
		dials[i] = c.pool.Bookie(id).Connect()
	}
	return func(ctx context.Context) (failed []bk.BookieID) {
		ctx, cancel := context.WithTimeout(ctx, dialAheadMax)
		defer cancel()
		for i, d := range dials {
			select {
			case <-d:
			case <-ctx.Done():
				select {
				case <-d:
				default:
					continue
				}
			}
			if c.pool.Bookie(ids[i]).Epoch() == 0 {
				failed = append(failed, ids[i])
			}
		}
		return failed
	}
}

// epochs tells the connections to these bookies, by which a writer notices that
// it has another one later; 0 where there is none.
func (c *Client) epochs(ids []bk.BookieID) []uint64 {
	out := make([]uint64, len(ids))
	for i, id := range ids {
		out[i] = c.pool.Bookie(id).Epoch()
	}
	return out
}

// storeNew writes the metadata of a new ledger, under a new id if id is
// bk.InvalidLedgerID (rule 2). It also gives the epochs of the ensemble's
// connections before that.
func (c *Client) storeNew(ctx context.Context, id bk.LedgerID, m *layout.LedgerMetadata, dialed func(context.Context) []bk.BookieID) (storedMetadata, []uint64, error) {
	chosen := id != bk.InvalidLedgerID
	for attempt := 1; ; attempt++ {
		if !chosen {
			var err error
			if id, err = c.cluster.NewLedgerID(ctx); err != nil {
				return storedMetadata{}, nil, fmt.Errorf("new ledger id: %w", err)
			}
		}
		dialed(ctx)
		epochs := c.epochs(m.Segments[0].Ensemble)
		v, err := c.cluster.CreateLedger(ctx, id, m)
		if err == nil {
			return storedMetadata{cluster: c.cluster, id: id, meta: m, version: v}, epochs, nil
		}
		if !errors.Is(err, bk.ErrLedgerExists) {
			c.disown(id, m.CToken)
		}
		if chosen || !errors.Is(err, bk.ErrLedgerExists) || attempt == createAttempts {
			return storedMetadata{}, nil, fmt.Errorf("metadata of ledger %d: %w", id, err)
		}
	}
}

// disownAfter is when to look for a ledger whose create may still take effect.
var disownAfter = []time.Duration{0, time.Second, 10 * time.Second, time.Minute}

// disown deletes, in the background, a ledger whose create failed for its
// caller but may have been carried out, or may be yet. Its token tells it from
// one that another client made (R21).
func (c *Client) disown(id bk.LedgerID, token int64) {
	if !c.enter() {
		return
	}
	go func() {
		defer c.wg.Done()
		for _, d := range disownAfter {
			if sleep(c.ctx, d) != nil {
				return
			}
			done, err := c.deleteOwn(id, token)
			if err != nil {
				c.opts.Logger.Info("a ledger whose create failed cannot be deleted yet",
					zap.Int64("ledger", int64(id)), zap.Error(err))
			}
			if done {
				return
			}
		}
	}()
}

// deleteOwn deletes a ledger if it has this token. done: nothing is left to do.
func (c *Client) deleteOwn(id bk.LedgerID, token int64) (done bool, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.MetadataTimeout)
	defer cancel()
	m, _, err := c.cluster.Ledger(ctx, id)
	switch {
	case errors.Is(err, bk.ErrNoSuchLedger):
		return false, nil
	case err != nil:
		return false, err
	case m.CToken != token:
		return true, nil
	}
	err = c.cluster.DeleteLedger(ctx, id)
	return err == nil, err
}

// policy is what a writer does about a bookie that failed.
func (o *Options) policy() quorum.Policy {
	switch {
	case o.FailWhenShort:
		return quorum.ReplaceOrFail
	case o.DelayEnsembleChange:
		return quorum.ReplaceLate
	default:
		return quorum.ReplaceOrGoOn
	}
}
