package memstore

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/loglode/loglode/metadata"
)

// Tree is the state that Stores share.
type Tree struct {
	mu       sync.Mutex // guards everything below, and the fields of nodes, watches and sessions
	strict   bool       // parents must exist; never changes
	root     *node
	rev      metadata.Version
	sessions map[metadata.SessionID]*session
	lastID   metadata.SessionID
	watches  map[watchKey]map[*watch]struct{}
}

// node is one place in the tree. It is kept while it exists, has children or
// has given out sequence numbers.
type node struct {
	parent   *node
	name     string
	children map[string]*node
	names    []string // keys of children, sorted

	exists  bool
	value   []byte
	version metadata.Version
	writes  int64
	session metadata.SessionID
	seq     int64 // next number for a sequential child
}

// NewTree makes an empty tree.
func NewTree() *Tree {
	return &Tree{
		root:     &node{},
		sessions: map[metadata.SessionID]*session{},
		watches:  map[watchKey]map[*watch]struct{}{},
	}
}

// NewStrictTree makes an empty tree that is as particular as ZooKeeper: the
// parent of a created node must exist (WithParents makes it), a Put is inTxn in
// its Txn, a node's Version begins anew when it is deleted and made again, and
// every create below a node moves its next sequence number.
func NewStrictTree() *Tree {
	t := NewTree()
	t.strict = true
	return t
}

// Open gives a new client of the tree.
func (t *Tree) Open() *Store {
	return &Store{tree: t, sessions: map[*session]struct{}{}, watches: map[*watch]struct{}{}}
}

// find gives the tree node of key, nil if there is none.
func (t *Tree) find(key string) *node {
	n := t.root
	if key == "/" {
		return n
	}
	for name := range strings.SplitSeq(key[1:], "/") {
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return n
}

// ensure gives the tree node of key, making places that do not exist yet.
func (t *Tree) ensure(key string) *node {
	n := t.root
	if key == "/" {
		return n
	}
	for name := range strings.SplitSeq(key[1:], "/") {
		c := n.children[name]
		if c == nil {
			c = &node{parent: n, name: name}
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[name] = c
			i, _ := slices.BinarySearch(n.names, name)
			n.names = slices.Insert(n.names, i, name)
		}
		n = c
	}
	return n
}

// prune drops places from n upwards that hold nothing.
func (n *node) prune() {
	for n.parent != nil && !n.exists && n.seq == 0 && len(n.children) == 0 {
		p := n.parent
		delete(p.children, n.name)
		i, _ := slices.BinarySearch(p.names, n.name)
		p.names = slices.Delete(p.names, i, i+1)
		n = p
	}
}

// live reports whether n or anything below it exists.
func (n *node) live() bool { return n.exists || n.hasChildren() }

func (n *node) hasChildren() bool {
	for _, c := range n.children {
		if c.live() {
			return true
		}
	}
	return false
}

func (n *node) public(key string, keysOnly bool) metadata.Node {
	if !n.exists {
		return metadata.Node{Key: key}
	}
	out := metadata.Node{Key: key, Version: n.version, Writes: n.writes, Session: n.session}
	if !keysOnly {
		out.Value = bytes.Clone(n.value)
	}
	return out
}

// change is one operation as applied, with what it takes to take it back.
type change struct {
	key    string
	n      *node
	before node // value fields only
	quiet  bool // only its next sequence number changed
}

func (c change) undo() {
	c.n.exists, c.n.value, c.n.version = c.before.exists, c.before.value, c.before.version
	c.n.writes, c.n.session, c.n.seq = c.before.writes, c.before.session, c.before.seq
}

// txn applies all operations or none.
func (t *Tree) txn(ops []metadata.Op) (metadata.Result, error) {
	res := metadata.Result{Nodes: make([]metadata.Node, 0, len(ops))}
	var changes []change
	for i, op := range ops {
		n, err := t.apply(op, &changes)
		if err != nil {
			for _, c := range slices.Backward(changes) {
				c.undo()
			}
			for _, c := range changes {
				if n := t.find(c.key); n != nil {
					n.prune()
				}
			}
			return metadata.Result{}, &metadata.TxnError{Index: i, Key: op.Key, Err: err}
		}
		res.Nodes = append(res.Nodes, n)
	}
	t.commit(changes)
	return res, nil
}

// commit makes changes visible to watches and sessions.
func (t *Tree) commit(changes []change) {
	if len(changes) == 0 {
		return
	}
	t.rev++
	for _, c := range changes {
		if s := t.sessions[c.before.session]; s != nil {
			delete(s.nodes, c.key)
		}
	}
	for _, c := range changes {
		if n := t.find(c.key); n != nil {
			if s := t.sessions[n.session]; n.exists && s != nil {
				s.nodes[c.key] = struct{}{}
			}
			n.prune()
		}
		if !c.quiet {
			t.notify(c.key)
		}
	}
}

func (t *Tree) apply(op metadata.Op, changes *[]change) (metadata.Node, error) {
	key := op.Key
	if op.Session != 0 && t.sessions[op.Session] == nil {
		return metadata.Node{}, metadata.ErrSessionLost
	}
	if t.strict {
		if err := t.parents(op, changes); err != nil {
			return metadata.Node{}, err
		}
	}
	if op.Kind == metadata.OpCreate && op.Sequential {
		key = t.sequence(op.Key, changes)
	}
	n := t.find(key)
	exists := n != nil && n.exists
	switch op.Kind {
	case metadata.OpCreate:
		if exists {
			return metadata.Node{}, metadata.ErrExists
		}
	case metadata.OpSet, metadata.OpDelete, metadata.OpCheck:
		if !exists {
			return metadata.Node{}, metadata.ErrNotFound
		}
		if op.Version != metadata.AnyVersion && op.Version != n.version {
			return metadata.Node{}, metadata.ErrConflict
		}
	case metadata.OpPut:
	default:
		return metadata.Node{}, fmt.Errorf("operation kind %d: %w", op.Kind, metadata.ErrInvalidKey)
	}
	switch op.Kind {
	case metadata.OpCheck:
	case metadata.OpDelete:
		if n.hasChildren() {
			return metadata.Node{}, metadata.ErrNotEmpty
		}
		*changes = append(*changes, change{key: key, n: n, before: *n})
		n.exists, n.value, n.version, n.writes, n.session, n.seq = false, nil, 0, 0, 0, 0
		return metadata.Node{Key: key}, nil
	default:
		n = t.write(key, op, changes)
	}
	return n.public(key, true), nil
}

// write gives a node a value, making it if it does not exist.
func (t *Tree) write(key string, op metadata.Op, changes *[]change) *node {
	n := t.ensure(key)
	if t.strict && !n.exists && !op.Sequential {
		parentKey, _ := metadata.Split(key)
		*changes = append(*changes, change{key: parentKey, n: n.parent, before: *n.parent, quiet: true})
		n.parent.seq++
	}
	*changes = append(*changes, change{key: key, n: n, before: *n})
	if op.Kind != metadata.OpSet {
		n.session = op.Session
	}
	n.exists, n.value, n.version, n.writes = true, bytes.Clone(op.Value), t.rev+1, n.writes+1
	if t.strict {
		n.version = metadata.Version(n.writes)
	}
	return n
}

// parents checks that the parent of what op makes exists, or makes it.
func (t *Tree) parents(op metadata.Op, changes *[]change) error {
	if op.Kind != metadata.OpCreate && op.Kind != metadata.OpPut {
		return nil
	}
	parentKey, _ := metadata.Split(op.Key)
	if n := t.find(parentKey); parentKey == "/" || n != nil && n.exists {
		return nil
	}
	if !op.Parents {
		return fmt.Errorf("parent %q: %w", parentKey, metadata.ErrNotFound)
	}
	parent := metadata.Create(parentKey, nil).WithParents()
	if err := t.parents(parent, changes); err != nil {
		return err
	}
	t.write(parentKey, parent, changes)
	return nil
}

// sequence gives the next key of a sequential create.
func (t *Tree) sequence(prefix string, changes *[]change) string {
	parentKey, _ := metadata.Split(prefix)
	p := t.ensure(parentKey)
	*changes = append(*changes, change{key: parentKey, n: p, before: *p, quiet: true})
	k := fmt.Sprintf("%s%010d", prefix, p.seq)
	p.seq++
	return k
}

// list gives a page of the children of key.
func (t *Tree) list(key string, opts metadata.ListOptions) metadata.Page {
	limit := opts.Limit
	if limit <= 0 {
		limit = metadata.DefaultListLimit
	}
	n := t.find(key)
	if n == nil {
		return metadata.Page{}
	}
	// Places in listing order: a child that does not exist itself comes where
	// its first descendant does.
	places := make([]string, 0, len(n.names))
	for _, name := range n.names {
		switch c := n.children[name]; {
		case c.exists:
			places = append(places, name)
		case c.hasChildren():
			places = append(places, name+"/")
		}
	}
	slices.Sort(places)
	i := 0
	if opts.After != "" {
		var found bool
		if i, found = slices.BinarySearch(places, opts.After); found {
			i++
		}
	}
	var page metadata.Page
	for ; i < len(places); i++ {
		if len(page.Nodes) == limit {
			page.More = true
			return page
		}
		name := strings.TrimSuffix(places[i], "/")
		page.Nodes = append(page.Nodes, n.children[name].public(metadata.Child(key, name), opts.KeysOnly))
		page.Next = places[i]
	}
	return page
}
