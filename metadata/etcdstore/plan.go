package etcdstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/loglode/loglode/metadata"
)

// sequencePrefix is where the numbers of sequential children are kept. On disk:
// do not change.
const sequencePrefix = "/.loglode/sequence"

// plan turns operations that happen one after the other into one etcd
// transaction, which compares first, changes then, and may touch a key but
// once: it follows what is known of each key from operation to operation.
type plan struct {
	ops       []metadata.Op // with the keys of sequential creates filled in
	keys      map[string]*planKey
	order     []string // keys in the order of their first operation
	checks    []check
	sequences map[string]*sequence
	parents   []string // keys of sequences, in order
}

// planKey is what is known of a key so far.
type planKey struct {
	known     bool // exists is known
	exists    bool
	dirty     bool // written or deleted by an operation
	value     []byte
	lease     int64
	keepLease bool             // written by Set: its lease stays
	read      *mvccpb.KeyValue // by the request: what a put replaced, or what a Check saw
}

// sequence is the number for the next sequential child of a parent.
type sequence struct {
	next    int64
	version int64 // mod revision of the stored number, 0 if there is none
}

// check is one compare of the request, for an operation.
type check struct {
	op       int
	key      string // of the operation
	from, to string // range without a key, if to is set
	want     wanted
	version  metadata.Version
}

type wanted uint8

const (
	wantAbsent wanted = iota
	wantPresent
	wantVersion
	wantNoChildren
)

func newPlan() *plan {
	return &plan{keys: map[string]*planKey{}, sequences: map[string]*sequence{}}
}

// add takes the next operation. An error means that the operation must fail
// because of those before it.
func (p *plan) add(i int, op metadata.Op) error {
	p.ops = append(p.ops, op)
	k := p.keys[op.Key]
	if k == nil {
		k = &planKey{}
		p.keys[op.Key] = k
		p.order = append(p.order, op.Key)
	}
	switch op.Kind {
	case metadata.OpCreate:
		if k.known && k.exists {
			return metadata.ErrExists
		}
		if !k.known {
			p.checks = append(p.checks, check{op: i, key: op.Key, want: wantAbsent})
		}
		k.put(op, false)
	case metadata.OpPut:
		k.put(op, false)
	case metadata.OpSet, metadata.OpDelete, metadata.OpCheck:
		if err := p.require(i, op, k); err != nil {
			return err
		}
		switch op.Kind {
		case metadata.OpSet:
			k.put(op, !k.dirty || k.keepLease)
		case metadata.OpDelete:
			if err := p.requireNoChildren(i, op.Key); err != nil {
				return err
			}
			k.dirty, k.exists, k.value, k.lease, k.keepLease = true, false, nil, 0, false
		}
	default:
		return fmt.Errorf("operation kind %d: %w", op.Kind, metadata.ErrInvalidKey)
	}
	return nil
}

// put notes a write. A Set of a node that this transaction made keeps the
// session it was made with.
func (k *planKey) put(op metadata.Op, keepLease bool) {
	if op.Kind != metadata.OpSet {
		k.lease = int64(op.Session)
	}
	k.known, k.exists, k.dirty, k.value, k.keepLease = true, true, true, op.Value, keepLease
}

// require checks that the node exists with the operation's version.
func (p *plan) require(i int, op metadata.Op, k *planKey) error {
	switch {
	case k.known && !k.exists:
		return metadata.ErrNotFound
	case op.Version != metadata.AnyVersion && k.dirty:
		return metadata.ErrConflict // its version is not made yet
	case op.Version != metadata.AnyVersion:
		p.checks = append(p.checks, check{op: i, key: op.Key, want: wantVersion, version: op.Version})
	case !k.known:
		p.checks = append(p.checks, check{op: i, key: op.Key, want: wantPresent})
	}
	k.known, k.exists = true, true
	return nil
}

// requireNoChildren checks that nothing is below key but what earlier
// operations deleted.
func (p *plan) requireNoChildren(i int, key string) error {
	var deleted []string
	for name, k := range p.keys {
		if !strings.HasPrefix(name, key+"/") || !k.dirty {
			continue
		}
		if k.exists {
			return metadata.ErrNotEmpty
		}
		deleted = append(deleted, name)
	}
	slices.Sort(deleted)
	from := key + "/"
	for _, d := range append(deleted, past(key)) {
		if from < d {
			p.checks = append(p.checks, check{op: i, key: key, from: from, to: d, want: wantNoChildren})
		}
		from = d + "\x00"
	}
	return nil
}

// judge gives the reason why a check failed, nil if it did not. kv is the key,
// or the first of its range, nil if there is none.
func (c check) judge(kv *mvccpb.KeyValue) error {
	switch {
	case c.want == wantAbsent && kv != nil:
		return metadata.ErrExists
	case c.want == wantNoChildren && kv != nil:
		return metadata.ErrNotEmpty
	case c.want == wantPresent && kv == nil, c.want == wantVersion && kv == nil:
		return metadata.ErrNotFound
	case c.want == wantVersion && kv.ModRevision != int64(c.version):
		return metadata.ErrConflict
	}
	return nil
}

func (c check) compare() *pb.Compare {
	created := func(result pb.Compare_CompareResult) *pb.Compare {
		return &pb.Compare{
			Key: []byte(c.key), Target: pb.Compare_CREATE, Result: result,
			TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 0},
		}
	}
	switch c.want {
	case wantAbsent:
		return created(pb.Compare_EQUAL)
	case wantPresent:
		return created(pb.Compare_GREATER)
	case wantNoChildren:
		cmp := created(pb.Compare_EQUAL) // holds for each key in the range, so for none
		cmp.Key, cmp.RangeEnd = []byte(c.from), []byte(c.to)
		return cmp
	default:
		v := int64(c.version)
		if v == 0 {
			v = -1 // no node has version 0, but to etcd a missing key has
		}
		return modRevision(c.key, v)
	}
}

func modRevision(key string, v int64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: v},
	}
}

// request gives the etcd transaction. Its first operations are those on the
// keys, in p.order; on failure it reads what it compared, first the checks, then
// the sequences.
func (p *plan) request() *pb.TxnRequest {
	req := &pb.TxnRequest{}
	for _, c := range p.checks {
		req.Compare = append(req.Compare, c.compare())
		r := &pb.RangeRequest{Key: []byte(c.key), KeysOnly: true}
		if c.want == wantNoChildren {
			r = &pb.RangeRequest{Key: []byte(c.from), RangeEnd: []byte(c.to), KeysOnly: true, Limit: 1}
		}
		req.Failure = append(req.Failure, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}})
	}
	for _, name := range p.order {
		k := p.keys[name]
		switch {
		case !k.dirty:
			req.Success = append(req.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
				RequestRange: &pb.RangeRequest{Key: []byte(name), KeysOnly: true},
			}})
		case k.exists:
			req.Success = append(req.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
				RequestPut: &pb.PutRequest{
					Key: []byte(name), Value: k.value, Lease: k.lease, PrevKv: true, IgnoreLease: k.keepLease,
				},
			}})
		default:
			req.Success = append(req.Success, deleteOp(name))
		}
	}
	p.requestSequences(req)
	return req
}

// requestSequences writes the numbers given, and forgets those of deleted
// parents.
func (p *plan) requestSequences(req *pb.TxnRequest) {
	for _, parent := range p.parents {
		q := p.sequences[parent]
		req.Compare = append(req.Compare, modRevision(sequencePrefix+parent, q.version))
		req.Failure = append(req.Failure, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
			RequestRange: &pb.RangeRequest{Key: []byte(sequencePrefix + parent), KeysOnly: true},
		}})
		req.Success = append(req.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: []byte(sequencePrefix + parent), Value: strconv.AppendInt(nil, q.next, 10)},
		}})
	}
	for _, name := range p.order {
		if k := p.keys[name]; k.dirty && !k.exists && p.sequences[name] == nil {
			req.Success = append(req.Success, deleteOp(sequencePrefix+name))
		}
	}
}

func deleteOp(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
}
