package zkstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/loglode/loglode/metadata"
)

// Txn is metadata.Store.Txn: one multi, on the connection of the session that
// its operations name, else on the Store's own. A Put and a Check of any
// version read first, and again if the node has changed when the multi comes to
// it; so do creates that make their parents.
func (s *Store) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	if len(ops) == 0 {
		return metadata.Result{}, nil
	}
	ops, err := owned(ops)
	if err != nil {
		return metadata.Result{}, err
	}
	ctx, cancel, err := s.call(ctx)
	if err != nil {
		return metadata.Result{}, fmt.Errorf("txn on %q: %w", ops[0].Key, err)
	}
	defer cancel()
	l, err := s.linkOf(ops)
	if err != nil {
		return metadata.Result{}, err
	}
	t := txn{s: s, l: l, ops: ops}
	res, err := t.run(ctx)
	var te *metadata.TxnError
	if err != nil && !errors.As(err, &te) {
		err = fmt.Errorf("txn on %q: %w", ops[0].Key, err)
	}
	return res, err
}

// owned checks operations and copies what the caller may change when Txn has
// returned: a multi may be on its way still then.
func owned(ops []metadata.Op) ([]metadata.Op, error) {
	ops = append([]metadata.Op(nil), ops...)
	for i, op := range ops {
		if err := validOp(op); err != nil {
			return nil, &metadata.TxnError{Index: i, Key: op.Key, Err: err}
		}
		ops[i].Value = bytes.Clone(op.Value)
	}
	return ops, nil
}

// linkOf is the link of the session that ops name.
func (s *Store) linkOf(ops []metadata.Op) (*link, error) {
	var id metadata.SessionID
	for i, op := range ops {
		switch {
		case op.Session == 0 || op.Session == id:
		case id != 0:
			return nil, &metadata.TxnError{
				Index: i, Key: op.Key, Err: fmt.Errorf("a second session in one transaction: %w", errors.ErrUnsupported),
			}
		default:
			id = op.Session
			s.mu.Lock()
			h := s.sessions[id]
			s.mu.Unlock()
			if h == nil {
				return nil, &metadata.TxnError{Index: i, Key: op.Key, Err: metadata.ErrSessionLost}
			}
		}
	}
	if id == 0 {
		return s.l, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.sessions[id]; h != nil {
		return h.l, nil
	}
	return nil, &metadata.TxnError{Index: -1, Key: ops[0].Key, Err: metadata.ErrSessionLost}
}

// txn is one transaction under way.
type txn struct {
	s       *Store
	l       *link
	ops     []metadata.Op
	missing map[string]bool // parents that were not there when they were looked for
}

func (t *txn) run(ctx context.Context) (metadata.Result, error) {
	for {
		nodes, err := t.look(ctx)
		if err != nil {
			return metadata.Result{}, t.failure(ctx, false, err)
		}
		p, err := newPlan(t.ops, nodes, t.missing)
		if err != nil {
			return metadata.Result{}, err
		}
		answers, handed, err := ask(ctx, t.s, t.l, func(c *zk.Conn) ([]zk.MultiResponse, error) {
			return c.Multi(p.multi...)
		})
		if err == nil && len(answers) == len(p.multi) {
			return p.result(answers), nil
		}
		if err == nil {
			err = fmt.Errorf("%d answers to %d operations", len(answers), len(p.multi))
		}
		at := refusedAt(answers)
		if at < 0 || at >= len(p.of) {
			return metadata.Result{}, t.failure(ctx, handed, err)
		}
		err = answers[at].Error
		switch p.judge(at, err) {
		case refusedForGood:
			i := p.of[at]
			return metadata.Result{}, &metadata.TxnError{Index: i, Key: t.ops[i].Key, Err: condition(err)}
		case readParents:
			if err := t.findParents(ctx); err != nil {
				return metadata.Result{}, t.failure(ctx, false, err)
			}
		}
		if err := ctx.Err(); err != nil {
			return metadata.Result{}, t.failure(ctx, false, err)
		}
	}
}

// refusedAt is the operation of a multi that the server refused, -1 if none
// says so: all others of a refused multi are without an error or say that the
// multi failed.
func refusedAt(answers []zk.MultiResponse) int {
	for i, a := range answers {
		if a.Error != nil && refused(a.Error) {
			return i
		}
	}
	return -1
}

// failure names why a transaction failed that no operation is to blame for.
// handed says that the multi may have left.
func (t *txn) failure(ctx context.Context, handed bool, err error) error {
	switch {
	case errors.Is(err, metadata.ErrSessionLost), errors.Is(err, zk.ErrSessionExpired) && t.l != t.s.l:
		return &metadata.TxnError{Index: -1, Key: t.ops[0].Key, Err: metadata.ErrSessionLost}
	case refused(err):
		return condition(err)
	case !handed || unsent(err):
		return readError(ctx, err)
	default:
		return fmt.Errorf("%w: %w", metadata.ErrUnknownOutcome, err)
	}
}

// look reads the nodes that the plan rests on.
func (t *txn) look(ctx context.Context) (map[string]*found, error) {
	keys := look(t.ops)
	nodes := make(map[string]*found, len(t.ops))
	if len(keys) == 0 {
		return nodes, nil
	}
	stats, err := read(ctx, t.s, t.l, func(c *zk.Conn) (map[string]*zk.Stat, error) { return exist(c, keys) })
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		n := &found{known: true}
		if stat := stats[key]; stat != nil {
			n.exists, n.owner, n.version = true, nodeOf(key, nil, stat).Session, stat.Version
		}
		nodes[key] = n
	}
	return nodes, nil
}

// findParents reads which parents of the nodes to create are missing.
func (t *txn) findParents(ctx context.Context) error {
	var keys []string
	for _, op := range t.ops {
		if !op.Parents || op.Kind != metadata.OpCreate && op.Kind != metadata.OpPut {
			continue
		}
		for key, _ := metadata.Split(op.Key); key != "/"; key, _ = metadata.Split(key) {
			keys = append(keys, key)
		}
	}
	stats, err := read(ctx, t.s, t.l, func(c *zk.Conn) (map[string]*zk.Stat, error) { return exist(c, keys) })
	if err != nil {
		return err
	}
	t.missing = map[string]bool{}
	for _, key := range keys {
		if stats[key] == nil {
			t.missing[key] = true
		}
	}
	return nil
}

// exist reads the newest state of nodes; those that do not exist are left out.
func exist(c *zk.Conn, keys []string) (map[string]*zk.Stat, error) {
	if _, err := c.Sync(keys[0]); err != nil {
		return nil, err
	}
	stats := make(map[string]*zk.Stat, len(keys))
	seen := make(map[string]bool, len(keys))
	for _, key := range keys {
		if seen[key] {
			continue
		}
		seen[key] = true
		ok, stat, err := c.Exists(key)
		if err != nil {
			return nil, err
		}
		if ok {
			stats[key] = stat
		}
	}
	return stats, nil
}
