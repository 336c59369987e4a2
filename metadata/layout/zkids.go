package layout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
)

const (
	numbered = "ID-"  // what a numbered node's name begins with
	highHalf = "HOB-" // and the node of the high 32 bits of an id
	// keptHighHalves is how many nodes of high halves stay when one is made.
	keptHighHalves = 3
	// idAttempts bounds how often a number is asked for when answers or
	// sessions are lost.
	idAttempts = 8
)

// errNumbersUsedUp: all numbers of one counter were given out.
var errNumbersUsedUp = errors.New("ledger ids are used up")

// zkIDs hands out ledger ids. A number is the name of an ephemeral node that
// ZooKeeper numbered; the node itself is not needed any more then.
type zkIDs struct {
	scope string
	kind  Kind
	long  atomic.Bool // idgen-long was seen
	// holder has the session of the numbered nodes, nil while there is none.
	// Who takes it out has it to himself until he puts it back.
	holder chan metadata.Session
}

func newZKIDs(scope string, kind Kind) *zkIDs {
	g := &zkIDs{scope: scope, kind: kind, holder: make(chan metadata.Session, 1)}
	g.holder <- nil
	return g
}

func (g *zkIDs) next(ctx context.Context, store metadata.Store) (bk.LedgerID, error) {
	id, err := g.generate(ctx, store)
	if err != nil {
		return bk.InvalidLedgerID, fmt.Errorf("new ledger id: %w", err)
	}
	return id, nil
}

func (g *zkIDs) generate(ctx context.Context, store metadata.Store) (bk.LedgerID, error) {
	withLong := g.kind == Hierarchical || g.kind == LongHierarchical
	if withLong && !g.long.Load() {
		_, err := store.Get(ctx, g.longKey())
		if err != nil && !errors.Is(err, metadata.ErrNotFound) {
			return 0, err
		}
		g.long.Store(err == nil)
	}
	if g.long.Load() {
		return g.longID(ctx, store)
	}
	prefix := g.scope + "/idgen/" + numbered
	if g.kind == Flat {
		prefix = g.scope + "/" + numbered
	}
	n, err := g.number(ctx, store, metadata.Create(prefix, nil).WithParents())
	switch {
	case err == nil:
		return bk.LedgerID(n), nil
	case !errors.Is(err, errNumbersUsedUp):
		return 0, err
	case !withLong:
		return 0, fmt.Errorf("layout %s: %w", g.kind, err)
	}
	if _, err := metadata.CreateOnce(ctx, store, metadata.Create(g.longKey(), nil), nil); err != nil && !errors.Is(err, metadata.ErrExists) {
		return 0, err
	}
	g.long.Store(true)
	return g.longID(ctx, store)
}

func (g *zkIDs) longKey() string { return g.scope + "/idgen-long" }

func (g *zkIDs) highKey(high int64) string {
	return fmt.Sprintf("%s/%s%010d", g.longKey(), highHalf, high)
}

// longID gives an id whose high half is the largest that has a node.
func (g *zkIDs) longID(ctx context.Context, store metadata.Store) (bk.LedgerID, error) {
	for range idAttempts {
		all, err := g.highHalves(ctx, store)
		if err != nil {
			return 0, err
		}
		if len(all) == 0 {
			if err := g.makeHighHalf(ctx, store, 1, nil); err != nil {
				return 0, err
			}
			continue
		}
		high := all[len(all)-1]
		// No parents here: the counter of a node that was deleted meanwhile
		// must not begin anew.
		low, err := g.number(ctx, store, metadata.Create(g.highKey(high)+"/"+numbered, nil))
		switch {
		case err == nil:
			return bk.LedgerID(high<<32 | low), nil
		case errors.Is(err, errNumbersUsedUp):
			if err := g.makeHighHalf(ctx, store, high+1, all); err != nil {
				return 0, err
			}
		case !errors.Is(err, metadata.ErrNotFound):
			return 0, err
		}
	}
	return 0, fmt.Errorf("%s keeps changing: %w", g.longKey(), metadata.ErrConflict)
}

// highHalves lists the high halves that have a node, ascending.
func (g *zkIDs) highHalves(ctx context.Context, store metadata.Store) ([]int64, error) {
	var all []int64
	for n, err := range metadata.Children(ctx, store, g.longKey(), metadata.ListOptions{KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		text, ok := strings.CutPrefix(metadata.Name(n.Key), highHalf)
		if high, err := strconv.ParseInt(text, 10, 64); ok && err == nil && high >= 0 && g.highKey(high) == n.Key {
			all = append(all, high)
		}
	}
	return all, nil
}

// makeHighHalf makes the node of a high half, unless another did, and deletes
// old ones.
func (g *zkIDs) makeHighHalf(ctx context.Context, store metadata.Store, high int64, older []int64) error {
	if high > math.MaxInt32 {
		return errNumbersUsedUp
	}
	_, err := metadata.CreateOnce(ctx, store, metadata.Create(g.highKey(high), nil).WithParents(), nil)
	if err != nil && !errors.Is(err, metadata.ErrExists) {
		return err
	}
	for i := range len(older) - (keptHighHalves - 1) {
		err := metadata.Remove(ctx, store, g.highKey(older[i]), metadata.AnyVersion)
		if err != nil && !errors.Is(err, metadata.ErrNotEmpty) { // somebody is at it still
			return err
		}
	}
	return nil
}

// number makes an ephemeral numbered node and gives its number. A lost answer
// costs one unused number. errNumbersUsedUp: the counter went past its end.
func (g *zkIDs) number(ctx context.Context, store metadata.Store, create metadata.Op) (int64, error) {
	var err error
	for range idAttempts {
		var sess metadata.Session
		if sess, err = g.session(ctx, store); err != nil {
			return 0, err
		}
		var res metadata.Result
		res, err = store.Txn(ctx, create.AsSequential().WithSession(sess.ID()))
		if err == nil {
			return g.take(ctx, store, res.Nodes[0].Key)
		}
		vanished := create.Parents && errors.Is(err, metadata.ErrNotFound)
		again := vanished || errors.Is(err, metadata.ErrUnknownOutcome) || errors.Is(err, metadata.ErrSessionLost)
		if !again || ctx.Err() != nil {
			return 0, err
		}
		if errors.Is(err, metadata.ErrSessionLost) {
			g.drop(sess)
		}
	}
	return 0, err
}

// take reads the number off a node's name and deletes the node. If that fails
// the node goes with its session; the number is good anyway.
func (g *zkIDs) take(ctx context.Context, store metadata.Store, key string) (int64, error) {
	text := strings.TrimPrefix(metadata.Name(key), numbered)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("numbered node %q: %w", key, err)
	}
	_, _ = store.Txn(ctx, metadata.Delete(key, metadata.AnyVersion))
	if n < 0 || n >= shortIDs {
		return 0, errNumbersUsedUp
	}
	return n, nil
}

// session gives the session of the numbered nodes, a new one if there is none.
// It ends with the store, unless number finds it lost before.
func (g *zkIDs) session(ctx context.Context, store metadata.Store) (metadata.Session, error) {
	select {
	case sess := <-g.holder:
		if sess == nil {
			opened, err := store.Session(ctx, metadata.SessionOptions{})
			if err != nil {
				g.holder <- nil
				return nil, err
			}
			sess = opened
		}
		g.holder <- sess
		return sess, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", metadata.ErrUnavailable, ctx.Err())
	}
}

// drop forgets a session that was found lost.
func (g *zkIDs) drop(lost metadata.Session) {
	sess := <-g.holder
	if sess == lost {
		sess = nil
	}
	g.holder <- sess
}
