package zkstore

import (
	"fmt"
	"math"

	"github.com/go-zookeeper/zk"

	"github.com/loglode/loglode/metadata"
)

// maxTxnBytes is what a transaction may hold: a server takes requests of up to
// 1 MiB by default, and breaks the connection that a larger one came on.
const maxTxnBytes = 1<<20 - 1<<12

// opOverhead is an upper bound of what an operation takes beside key and value.
const opOverhead = 64

// noVersion is a data version that no node has.
const noVersion = -2

// dataVersion is the version to compare with, as ZooKeeper counts.
func dataVersion(v metadata.Version) int32 {
	switch {
	case v == metadata.AnyVersion:
		return -1
	case v <= 0 || v > math.MaxInt32:
		return noVersion
	default:
		return int32(v - 1)
	}
}

// found is what is known of a node as an operation finds it.
type found struct {
	known  bool // whether it exists and who owns it
	exists bool
	owner  metadata.SessionID
	// version is its data version, -1 if it is not known or does not matter
	// because an operation of the same transaction made it.
	version int32
	own     bool // an operation of the same transaction wrote, made or deleted it
}

// plan is one multi for a transaction: what was read for it, and which of its
// operations stands for which of the transaction's.
type plan struct {
	ops     []metadata.Op
	nodes   map[string]*found
	missing map[string]bool // parents that do not exist, as far as was read

	multi  []any
	of     []int  // operation of the transaction that each is for
	parent []bool // makes a parent of it
	read   []bool // rests on what was read
	// for each operation of the transaction:
	last  []int                // the one of the multi that says what became of its node
	owner []metadata.SessionID // of a Check: the node's, if it was read
}

// look gives what must be read before the plan can be made: the keys of
// operations that depend on what is there.
func look(ops []metadata.Op) []string {
	var keys []string
	for _, op := range ops {
		if op.Kind == metadata.OpPut || op.Kind == metadata.OpCheck && op.Version == metadata.AnyVersion {
			keys = append(keys, op.Key)
		}
	}
	return keys
}

// newPlan makes the multi. nodes has what was read, by key.
func newPlan(ops []metadata.Op, nodes map[string]*found, missing map[string]bool) (*plan, error) {
	p := &plan{ops: ops, nodes: nodes, missing: missing, last: make([]int, len(ops)), owner: make([]metadata.SessionID, len(ops))}
	size := 0
	for i, op := range ops {
		size += len(op.Key) + len(op.Value) + opOverhead
		if err := p.add(i, op); err != nil {
			return nil, &metadata.TxnError{Index: i, Key: op.Key, Err: err}
		}
		p.last[i] = len(p.multi) - 1
	}
	if size > maxTxnBytes {
		return nil, fmt.Errorf("%w: %d bytes, %d at most", ErrTooLarge, size, maxTxnBytes)
	}
	return p, nil
}

func (p *plan) add(i int, op metadata.Op) error {
	n := p.nodes[op.Key]
	if n == nil {
		n = &found{version: -1}
		p.nodes[op.Key] = n
	}
	switch op.Kind {
	case metadata.OpCreate:
		if op.Sequential {
			p.parents(i, op)
			p.emit(i, createOf(op), false)
			return nil
		}
		p.create(i, op, n)
	case metadata.OpSet:
		p.emit(i, &zk.SetDataRequest{Path: op.Key, Data: op.Value, Version: dataVersion(op.Version)}, false)
		n.version, n.own = -1, true
	case metadata.OpPut:
		p.put(i, op, n)
	case metadata.OpDelete:
		p.emit(i, &zk.DeleteRequest{Path: op.Key, Version: dataVersion(op.Version)}, false)
		*n = found{known: true, own: true}
	case metadata.OpCheck:
		v, read := dataVersion(op.Version), false
		p.owner[i] = n.owner
		if op.Version == metadata.AnyVersion && n.known && n.exists && !n.own {
			v, read = n.version, true
		} else if op.Version == metadata.AnyVersion && !n.own {
			read = true // not there when it was looked for: if it is now, look again
			v = noVersion
		}
		p.emit(i, &zk.CheckVersionRequest{Path: op.Key, Version: v}, read)
	default:
		return fmt.Errorf("operation kind %d: %w", op.Kind, metadata.ErrInvalidKey)
	}
	return nil
}

func (p *plan) emit(i int, request any, read bool) {
	p.multi, p.of = append(p.multi, request), append(p.of, i)
	p.parent, p.read = append(p.parent, false), append(p.read, read)
}

func createOf(op metadata.Op) *zk.CreateRequest {
	r := &zk.CreateRequest{Path: op.Key, Data: op.Value, Acl: zk.WorldACL(zk.PermAll)}
	if op.Session != 0 {
		r.Flags |= zk.FlagEphemeral
	}
	if op.Sequential {
		r.Flags |= zk.FlagSequence
	}
	return r
}

func (p *plan) create(i int, op metadata.Op, n *found) {
	p.parents(i, op)
	p.emit(i, createOf(op), op.Kind == metadata.OpPut && !n.own)
	*n = found{known: true, exists: true, owner: op.Session, version: -1, own: true}
}

// put overwrites a node in place if it may keep its owner; else it makes it
// anew.
func (p *plan) put(i int, op metadata.Op, n *found) {
	switch {
	case !n.exists:
		p.create(i, op, n)
	case n.owner == op.Session:
		p.emit(i, &zk.SetDataRequest{Path: op.Key, Data: op.Value, Version: n.version}, !n.own)
		n.version, n.own = -1, true
	default:
		p.emit(i, &zk.DeleteRequest{Path: op.Key, Version: n.version}, !n.own)
		p.create(i, op, n)
	}
}

// parents makes the parents of op's node that are missing, or that an earlier
// operation deletes.
func (p *plan) parents(i int, op metadata.Op) {
	if !op.Parents {
		return
	}
	var make []string
	for key, _ := metadata.Split(op.Key); key != "/"; key, _ = metadata.Split(key) {
		n := p.nodes[key]
		gone := n != nil && n.own && !n.exists && n.known
		made := n != nil && n.own && n.exists
		if made || !gone && !p.missing[key] {
			break
		}
		make = append(make, key)
	}
	for j := len(make) - 1; j >= 0; j-- {
		p.emit(i, &zk.CreateRequest{Path: make[j], Acl: zk.WorldACL(zk.PermAll)}, false)
		p.parent[len(p.parent)-1] = true
		p.nodes[make[j]] = &found{known: true, exists: true, version: -1, own: true}
	}
}

// verdict is what a refused multi means.
type verdict uint8

const (
	refusedForGood verdict = iota
	readAgain              // it rested on what is not so any more
	readParents            // a parent is missing
)

// judge tells what the refusal of one operation of the multi means.
func (p *plan) judge(at int, err error) verdict {
	op := p.ops[p.of[at]]
	switch {
	case p.parent[at]:
		return readParents // made or gone meanwhile
	case p.read[at] && p.moved(at, err):
		return readAgain
	case err == zk.ErrNoNode && op.Parents && (op.Kind == metadata.OpCreate || op.Kind == metadata.OpPut):
		return readParents
	default:
		return refusedForGood
	}
}

// moved says whether a refusal contradicts what was read.
func (p *plan) moved(at int, err error) bool {
	switch r := p.multi[at].(type) {
	case *zk.CheckVersionRequest:
		return err == zk.ErrBadVersion || err == zk.ErrNoNode && r.Version != noVersion
	case *zk.CreateRequest:
		return err == zk.ErrNodeExists
	default:
		return err == zk.ErrBadVersion || err == zk.ErrNoNode
	}
}

// result gives the node after each operation.
func (p *plan) result(answers []zk.MultiResponse) metadata.Result {
	res := metadata.Result{Nodes: make([]metadata.Node, len(p.ops))}
	before := map[string]int{} // last operation that wrote a key
	for i, op := range p.ops {
		a := answers[p.last[i]]
		n := metadata.Node{Key: op.Key}
		switch r := p.multi[p.last[i]].(type) {
		case *zk.CreateRequest:
			n.Key, n.Version, n.Writes, n.Session = a.String, 1, 1, op.Session
		case *zk.SetDataRequest:
			n = nodeOf(op.Key, nil, a.Stat)
		case *zk.CheckVersionRequest:
			if j, ok := before[op.Key]; ok {
				n = res.Nodes[j]
				break
			}
			n.Version, n.Writes, n.Session = versionOf(r.Version), int64(r.Version)+1, p.owner[i]
		}
		if op.Kind != metadata.OpCheck {
			before[n.Key] = i
		}
		res.Nodes[i] = n
	}
	return res
}
