package segment

import (
	"context"
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/placement"
	"github.com/loglode/loglode/stream"
)

// SetPlacement chooses the bookies of ledgers that are made through this
// handle, and its claims, by the text of a placement policy; "" leaves that to
// the client of the bookies. Call it before the handle is used. It fails with
// stream.ErrInvalidConfig.
func (s *Stream) SetPlacement(policy string) error {
	s.policy = nil
	if policy == "" {
		return nil
	}
	p, err := placement.ParsePolicy(policy)
	if err != nil {
		return fmt.Errorf("placement: %w: %w", stream.ErrInvalidConfig, err)
	}
	s.policy = &p
	return nil
}

// CheckPlacement says whether a ledger could be made now: it fails with
// stream.ErrNotEnoughBookies if there are too few bookies, or if they are not
// where a strict policy wants them.
func (s *Stream) CheckPlacement(ctx context.Context, q stream.Quorum) error {
	e, err := s.tree.opts.Ledgers.Explain(ctx, bk.Quorum(q), s.policy)
	if err != nil {
		return MapError(err)
	}
	return MapError(e.Err)
}
