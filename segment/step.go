package segment

import (
	"context"
	"errors"

	"github.com/loglode/loglode/metadata"
)

// step is one transaction of a claim. Each compares the version of the ledgers
// node, the epoch, so that it fails once another claim was made.
//
// Why a lost answer is settled by counting writes:
//
//	this claim                           another claim
//	Txn(set ledgers, create segment 4)
//	  (applied, answer lost)
//	                                     Txn(set ledgers unchanged)
//	Get(ledgers): a new version
//
// If this claim took the version it reads for its own, both would hold the
// stream. The node's write count tells: one more than before is this step, two
// more is not ours any more.
type step struct {
	what string
	ops  []metadata.Op
	// moves is the index of the operation that writes ledgers, -1 if the step
	// only checks it.
	moves int
	// mark reads back whether something is there (or gone) that only this step
	// brings about.
	mark func(ctx context.Context) (bool, error)
	// done takes the change into the claim's own state; nodes holds each node
	// as the step left it, by key.
	done func(version func(key string) metadata.Version)

	sent    bool // an answer was lost: it may happen, or have happened
	settled bool // it certainly happened
}

// run does a step, and before it one whose answer is still out. It returns nil
// once it is certain that the step happened. A refusal that is not about the
// epoch is returned as it is: recompute the step. If ctx ends before the outcome
// is certain, the next call of any method settles it.
func (c *Claim) run(ctx context.Context, st *step) error {
	if err := c.settle(ctx); err != nil {
		return err
	}
	if st.settled {
		return nil
	}
	return c.attempt(ctx, st)
}

// settle finishes a step that was left uncertain.
func (c *Claim) settle(ctx context.Context) error {
	if err := c.Err(); err != nil {
		return err
	}
	if st := c.unsettled; st != nil {
		c.unsettled = nil
		if err := c.attempt(ctx, st); err != nil && !refused(err) {
			return err
		}
	}
	return c.Err()
}

func (c *Claim) attempt(ctx context.Context, st *step) error {
	var lastErr error
	for range settleAttempts {
		res, err := c.s.store().Txn(ctx, st.ops...)
		if err == nil {
			c.adopt(st, versionsOf(res))
			return nil
		}
		lastErr = err
		isRefusal := refused(err)
		if !isRefusal {
			st.sent = true
		}
		outcome, rerr := c.readBack(ctx, st)
		switch {
		case rerr != nil:
			if st.sent {
				c.unsettled = st
			}
			return errors.Join(err, rerr)
		case outcome == stepHappened:
			return nil
		case outcome == stepLost:
			return c.lose(st.what, err)
		case isRefusal:
			return err
		}
	}
	c.unsettled = st
	return lastErr
}

type outcome uint8

const (
	stepPending  outcome = iota // not happened, the epoch still holds
	stepHappened                // and the claim still holds
	stepLost                    // another claim was made; step.settled tells whether it happened before
)

// readBack finds out what became of a step.
func (c *Claim) readBack(ctx context.Context, st *step) (outcome, error) {
	n, err := c.s.store().Get(ctx, c.s.keys.ledgers)
	if errors.Is(err, metadata.ErrNotFound) {
		return stepLost, nil // the stream was deleted
	}
	if err != nil {
		return stepPending, err
	}
	moved := n.Writes - c.epoch.writes
	if n.Version == c.epoch.version {
		moved = 0
	} else if moved <= 0 {
		return stepLost, nil // deleted and created again
	}
	if moved == 0 && st.moves >= 0 {
		return stepPending, nil
	}
	happened, err := st.mark(ctx)
	if err != nil {
		return stepPending, err
	}
	mine := moved == 0 || moved == 1 && st.moves >= 0
	switch {
	case happened && mine:
		versions, err := c.readVersions(ctx, st, n)
		if err != nil {
			return stepPending, err
		}
		c.adopt(st, versions)
		return stepHappened, nil
	case happened:
		st.settled = true
		return stepLost, nil
	case moved == 0:
		return stepPending, nil
	default:
		return stepLost, nil
	}
}

// readVersions gives the versions of the nodes that a step wrote, read one by
// one: only older claims could have written them since, and those cannot any
// more.
func (c *Claim) readVersions(ctx context.Context, st *step, ledgers metadata.Node) (func(string) metadata.Version, error) {
	versions := map[string]metadata.Version{}
	for _, op := range st.ops {
		if op.Kind == metadata.OpDelete || op.Kind == metadata.OpCheck || op.Key == ledgers.Key {
			continue
		}
		n, err := c.s.store().Get(ctx, op.Key)
		if err != nil && !errors.Is(err, metadata.ErrNotFound) {
			return nil, err
		}
		versions[op.Key] = n.Version
	}
	versions[ledgers.Key] = ledgers.Version
	return func(key string) metadata.Version { return versions[key] }, nil
}

func versionsOf(res metadata.Result) func(string) metadata.Version {
	return func(key string) metadata.Version {
		for _, n := range res.Nodes {
			if n.Key == key {
				return n.Version
			}
		}
		return 0
	}
}

// adopt takes a step that happened into the claim.
func (c *Claim) adopt(st *step, version func(string) metadata.Version) {
	if st.moves >= 0 {
		c.epoch = epoch{version: version(c.s.keys.ledgers), writes: c.epoch.writes + 1}
	}
	st.settled = true
	if st.done != nil {
		st.done(version)
	}
}
