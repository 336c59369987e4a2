package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/loglode/loglode/metadata"
)

// errSequenceMoved says that another client took the number meanwhile.
var errSequenceMoved = errors.New("sequence number taken")

// Txn is metadata.Store.Txn. etcd takes 128 operations in one by default; a
// Delete counts as two.
func (s *Store) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	for i, op := range ops {
		if err := metadata.ValidOp(op); err != nil {
			return metadata.Result{}, &metadata.TxnError{Index: i, Key: op.Key, Err: err}
		}
	}
	if len(ops) == 0 {
		return metadata.Result{}, nil
	}
	ctx, cancel, err := s.call(ctx)
	if err != nil {
		return metadata.Result{}, fmt.Errorf("txn on %q: %w", ops[0].Key, err)
	}
	defer cancel()
	for {
		res, err := s.txn(ctx, ops)
		if errors.Is(err, errSequenceMoved) {
			continue
		}
		var te *metadata.TxnError
		if err != nil && !errors.As(err, &te) {
			err = fmt.Errorf("txn on %q: %w", ops[0].Key, err)
		}
		return res, err
	}
}

func (s *Store) txn(ctx context.Context, ops []metadata.Op) (metadata.Result, error) {
	p := newPlan()
	for i, op := range ops {
		if op.Kind == metadata.OpCreate && op.Sequential {
			if err := s.sequence(ctx, p, &op); err != nil {
				return metadata.Result{}, err
			}
		}
		if err := p.add(i, op); err != nil {
			return metadata.Result{}, &metadata.TxnError{Index: i, Key: op.Key, Err: err}
		}
	}
	req := p.request()
	ctx, sent := withSent(ctx)
	resp, err := s.kv.Txn(ctx, req, grpc.WaitForReady(true))
	if err != nil {
		return metadata.Result{}, writeError(ctx, sent.Load(), err)
	}
	if !resp.Succeeded {
		return metadata.Result{}, p.refusal(resp)
	}
	return p.result(resp), nil
}

// sequence gives op its number.
func (s *Store) sequence(ctx context.Context, p *plan, op *metadata.Op) error {
	parent, _ := metadata.Split(op.Key)
	q := p.sequences[parent]
	if q == nil {
		resp, err := s.cli.Get(ctx, sequencePrefix+parent)
		if err != nil {
			return readError(ctx, err)
		}
		q = &sequence{}
		if len(resp.Kvs) > 0 {
			q.version = resp.Kvs[0].ModRevision
			q.next, err = strconv.ParseInt(string(resp.Kvs[0].Value), 10, 64)
			if err != nil {
				return fmt.Errorf("sequence of %q: %w", parent, err)
			}
		}
		p.sequences[parent] = q
		p.parents = append(p.parents, parent)
	}
	op.Key = fmt.Sprintf("%s%010d", op.Key, q.next)
	op.Sequential = false
	q.next++
	return nil
}

// refusal finds out which operation the store refused, from what it read in
// the same moment. Numbers that moved come first: with them the keys are wrong.
func (p *plan) refusal(resp *pb.TxnResponse) error {
	read := func(i int) *mvccpb.KeyValue {
		if r := resp.Responses[i].GetResponseRange(); r != nil && len(r.Kvs) > 0 {
			return r.Kvs[0]
		}
		return nil
	}
	for i, parent := range p.parents {
		if kv := read(len(p.checks) + i); kv.GetModRevision() != p.sequences[parent].version {
			return errSequenceMoved
		}
	}
	for i, c := range p.checks {
		if err := c.judge(read(i)); err != nil {
			return &metadata.TxnError{Index: c.op, Key: c.key, Err: err}
		}
	}
	return fmt.Errorf("%w: etcd refused, but no operation says why", metadata.ErrConflict)
}

// result gives the node after each operation.
func (p *plan) result(resp *pb.TxnResponse) metadata.Result {
	for i, key := range p.order {
		switch r := resp.Responses[i]; {
		case r.GetResponsePut() != nil:
			p.keys[key].read = r.GetResponsePut().PrevKv
		case r.GetResponseRange() != nil && len(r.GetResponseRange().Kvs) > 0:
			p.keys[key].read = r.GetResponseRange().Kvs[0]
		}
	}
	res := metadata.Result{Nodes: make([]metadata.Node, len(p.ops))}
	for i, op := range p.ops {
		k := p.keys[op.Key]
		n := metadata.Node{Key: op.Key}
		switch {
		case op.Kind == metadata.OpDelete:
		case !k.dirty:
			n = nodeOf(k.read)
		default:
			n.Version, n.Writes, n.Session = metadata.Version(resp.Header.Revision), 1, metadata.SessionID(k.lease)
			if k.read != nil {
				n.Writes = k.read.Version + 1
			}
			if k.keepLease {
				n.Session = metadata.SessionID(k.read.Lease)
			}
		}
		res.Nodes[i] = n
	}
	return res
}
