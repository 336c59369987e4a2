package ledger

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
	"github.com/loglode/loglode/ledger/placement"
	"github.com/loglode/loglode/metadata/layout"
)

// Placement says how a client chooses the bookies of ledgers.
type Placement struct {
	// Policy is that of ledgers that have none of their own (WithPlacement).
	Policy placement.Policy
	// Locate, if not nil, says where a bookie is; ok is false to believe what
	// the bookie tells of itself. It is asked about every bookie at every choice,
	// on the goroutine of Create, of Open or of an ensemble change, with no lock
	// held, and must not block.
	Locate func(id bk.BookieID) (site placement.Site, ok bool)
}

// policyKey is the custom metadata of a ledger with a policy of its own: the
// policy's text. Stored: do not rename.
const policyKey = "loglode.placement"

// placesAgeMax is how old what is known of the bookies' places may be.
const placesAgeMax = 10 * time.Second

// places is what a client knows of where bookies are.
type places struct {
	mu    sync.Mutex                   // guards all below
	known map[bk.BookieID]layout.Place // nil until the first look has succeeded; never changed
	at    time.Time                    // of the last look
}

// now gives what is known of places, read anew if it is old. Where that fails,
// the last known ones have to do, as they are hints; with none known yet it
// fails. The map is not changed later.
func (p *places) now(ctx context.Context, c *Client) (map[bk.BookieID]layout.Place, error) {
	p.mu.Lock()
	known := p.known
	if known != nil && time.Since(p.at) < placesAgeMax {
		p.mu.Unlock()
		return known, nil
	}
	p.at = time.Now() // others use the last known ones meanwhile
	p.mu.Unlock()
	got, err := c.cluster.Places(ctx)
	if got == nil && known == nil {
		return nil, err
	}
	if err != nil {
		c.opts.Logger.Warn("places of bookies cannot be read, the last known ones are used", zap.Error(err))
	}
	if got == nil {
		return known, nil
	}
	for id, old := range known {
		if _, ok := got[id]; !ok {
			got[id] = old // a bookie that is gone may still be in ensembles
		}
	}
	p.mu.Lock()
	p.known = got
	p.mu.Unlock()
	return got, nil
}

// candidates gives what is known of all bookies that are registered, or whose
// place is known, sorted.
func (c *Client) candidates(ctx context.Context) ([]placement.Bookie, error) {
	listed, err := c.cluster.Bookies(ctx)
	if err != nil {
		return nil, fmt.Errorf("list bookies: %w", err)
	}
	places, err := c.places.now(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make([]placement.Bookie, 0, len(places)+len(listed.Writable)+len(listed.ReadOnly))
	add := func(id bk.BookieID, s placement.Status) {
		out = append(out, c.candidate(id, places[id], s))
	}
	for _, id := range listed.Writable {
		s := placement.Good
		switch {
		case c.avoid(id):
			s = placement.Quarantined
		case places[id].Draining:
			s = placement.Draining
		}
		add(id, s)
	}
	for _, id := range listed.ReadOnly {
		add(id, placement.ReadOnly)
	}
	for id := range places {
		_, writable := slices.BinarySearch(listed.Writable, id)
		_, readOnly := slices.BinarySearch(listed.ReadOnly, id)
		if !writable && !readOnly {
			add(id, placement.Gone)
		}
	}
	slices.SortFunc(out, func(a, b placement.Bookie) int {
		if a.ID < b.ID {
			return -1
		}
		return 1 // each is there once
	})
	return out, nil
}

func (c *Client) candidate(id bk.BookieID, p layout.Place, s placement.Status) placement.Bookie {
	b := placement.Bookie{
		ID: id, Location: placement.Location{Region: p.Region, Zone: p.Zone, Rack: p.Rack},
		Labels: p.Labels, Weight: p.Weight, FreeBytes: p.FreeBytes, Status: s,
	}
	if c.opts.Placement.Locate != nil {
		if site, ok := c.opts.Placement.Locate(id); ok {
			b.Location, b.Labels, b.Weight = site.Location, site.Labels, site.Weight
		}
	}
	return b
}

// chance gives a source of chance of its own, from the client's.
func (c *Client) chance() *rand.Rand {
	c.mu.Lock()
	defer c.mu.Unlock()
	return rand.New(rand.NewPCG(c.rng.Uint64(), c.rng.Uint64()))
}

// chooseEnsemble chooses the bookies of a new ledger (rule 1).
func (c *Client) chooseEnsemble(ctx context.Context, q bk.Quorum, p placement.Policy) ([]bk.BookieID, error) {
	bookies, err := c.candidates(ctx)
	if err != nil {
		return nil, err
	}
	return placement.Choose(placement.Request{Quorum: q, Policy: p, Bookies: bookies, Rand: c.chance()})
}

// substitutes chooses a bookie for each failed position, or for as many as it
// can: some are better than none, and the core asks again for the others (rule
// 15).
func (c *Client) substitutes(ctx context.Context, p pickRequest) ([]quorum.Pick, error) {
	bookies, err := c.candidates(ctx)
	if err != nil {
		return nil, err
	}
	r := placement.Request{Quorum: p.quorum, Policy: p.policy, Bookies: bookies, Recovery: p.recovery, Rand: c.chance()}
	ensemble, positions, err := placement.ReplaceSome(r, p.ensemble, p.positions, p.failed)
	var picks []quorum.Pick
	for _, pos := range positions {
		picks = append(picks, quorum.Pick{Pos: pos, Bookie: ensemble[pos]})
	}
	return picks, err
}

// pickRequest asks for substitutes.
type pickRequest struct {
	quorum    bk.Quorum
	policy    placement.Policy
	ensemble  []bk.BookieID
	positions []int         // that failed
	failed    []bk.BookieID // not to be chosen
	recovery  bool          // they get copies of a recovery alone
}

// newPickRequest copies what the core's action says, as it is good until the
// next event only.
func newPickRequest(q bk.Quorum, p placement.Policy, a *quorum.Action, recovery bool) pickRequest {
	return pickRequest{
		quorum: q, policy: p, recovery: recovery,
		ensemble:  append([]bk.BookieID(nil), a.Change.Ensemble...),
		positions: append([]int(nil), a.Change.Failed...),
		failed:    append([]bk.BookieID(nil), a.Change.Avoid...),
	}
}

// policyOf gives a ledger's own policy, else the client's.
func (c *Client) policyOf(m *layout.LedgerMetadata) placement.Policy {
	p, own, err := PolicyOf(m)
	if err != nil {
		c.opts.Logger.Warn("the placement policy of a ledger cannot be read, the client's is used", zap.Error(err))
	}
	if err != nil || !own {
		return c.opts.Placement.Policy
	}
	return p
}

// PolicyOf gives the placement policy that a ledger was created with by
// WithPlacement; own is false if it was created without.
func PolicyOf(m *layout.LedgerMetadata) (p placement.Policy, own bool, err error) {
	text, own := m.Custom[policyKey]
	if !own {
		return placement.Policy{}, false, nil
	}
	p, err = placement.ParsePolicy(string(text))
	return p, true, err
}

// WithPlacement chooses the ledger's bookies by a policy of its own, now and
// when some are replaced, by whatever client: the policy's text is in the
// ledger's custom metadata. Default: Options.Placement.
func WithPlacement(p placement.Policy) CreateOption {
	return func(c *createConfig) { c.placement = &p }
}

// placementOf validates the policy of a ledger to be created, and notes it in
// its custom metadata if it is its own.
func (c *Client) placementOf(cfg *createConfig) (placement.Policy, error) {
	if cfg.placement == nil {
		return c.opts.Placement.Policy, nil
	}
	if err := cfg.placement.Validate(); err != nil {
		return placement.Policy{}, err
	}
	cfg.custom = maps.Clone(cfg.custom)
	if cfg.custom == nil {
		cfg.custom = map[string][]byte{}
	}
	cfg.custom[policyKey] = []byte(cfg.placement.String())
	return *cfg.placement, nil
}

// Explain chooses an ensemble as Create would with these options, makes no
// ledger, and says why each bookie was chosen or not. nil p: the client's
// policy.
func (c *Client) Explain(ctx context.Context, q bk.Quorum, p *placement.Policy) (placement.Explanation, error) {
	if p == nil {
		p = &c.opts.Placement.Policy
	}
	if err := errorsOf(q, *p); err != nil {
		return placement.Explanation{}, fmt.Errorf("explain placement: %w", err)
	}
	bookies, err := c.candidates(ctx)
	if err != nil {
		return placement.Explanation{}, fmt.Errorf("explain placement: %w", err)
	}
	return placement.Explain(placement.Request{Quorum: q, Policy: *p, Bookies: bookies, Rand: c.chance()}), nil
}

func errorsOf(q bk.Quorum, p placement.Policy) error {
	if err := q.Validate(); err != nil {
		return err
	}
	return p.Validate()
}

// ExplainLedger says for each segment of a ledger, in the order of the
// metadata, how its ensemble keeps a policy. nil p: the ledger's own, else the
// client's.
func (c *Client) ExplainLedger(ctx context.Context, id bk.LedgerID, p *placement.Policy) ([]placement.Explanation, error) {
	m, err := c.Metadata(ctx, id)
	if err != nil {
		return nil, err
	}
	policy := c.policyOf(m)
	if p != nil {
		policy = *p
	}
	if err := policy.Validate(); err != nil {
		return nil, fmt.Errorf("explain placement of ledger %d: %w", id, err)
	}
	bookies, err := c.candidates(ctx)
	if err != nil {
		return nil, fmt.Errorf("explain placement of ledger %d: %w", id, err)
	}
	var out []placement.Explanation
	for _, s := range m.Segments {
		out = append(out, placement.ExplainEnsemble(placement.Request{Quorum: m.Quorum, Policy: policy, Bookies: bookies}, s.Ensemble))
	}
	return out, nil
}
