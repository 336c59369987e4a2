package metadata

// OpKind tells operations of a Txn apart.
type OpKind uint8

const (
	OpCreate OpKind = iota // node must not exist
	OpSet                  // node must exist, with Version unless AnyVersion
	OpPut                  // create or overwrite; ZooKeeper has no such thing: it is read first there, and compared and set
	OpDelete               // node must exist, with Version unless AnyVersion
	OpCheck                // node must exist, with Version unless AnyVersion; changes nothing
)

// Op is one operation of a Txn. Make it with Create, Set, Put, Delete or Check.
type Op struct {
	Kind    OpKind
	Key     string
	Value   []byte // owned by the callee until Txn returns
	Version Version
	Session SessionID // Create, Put: the node dies with this session
	// Sequential makes Create append a number of at least ten digits to Key,
	// higher than that of every earlier sequential sibling.
	Sequential bool
	// Parents makes Create make missing parents as empty nodes, where the
	// store needs them.
	Parents bool
}

// Create makes a node that must not exist.
func Create(key string, value []byte) Op { return Op{Kind: OpCreate, Key: key, Value: value} }

// Set overwrites a node that must have this version.
func Set(key string, value []byte, v Version) Op {
	return Op{Kind: OpSet, Key: key, Value: value, Version: v}
}

// Put creates or overwrites a node, whatever it was.
func Put(key string, value []byte) Op {
	return Op{Kind: OpPut, Key: key, Value: value, Version: AnyVersion}
}

// Delete removes a node that must have this version.
func Delete(key string, v Version) Op { return Op{Kind: OpDelete, Key: key, Version: v} }

// Check requires a node to exist with this version.
func Check(key string, v Version) Op { return Op{Kind: OpCheck, Key: key, Version: v} }

// WithSession makes the created node die with the session.
func (o Op) WithSession(id SessionID) Op { o.Session = id; return o }

// WithParents makes missing parents of the created node, where the store needs
// them.
func (o Op) WithParents() Op { o.Parents = true; return o }

// AsSequential appends a rising number to the created key.
func (o Op) AsSequential() Op { o.Sequential = true; return o }

// Result tells what a Txn did: the node after each operation, in their order
// (of a Delete, only its key). Value is not filled in.
type Result struct {
	Nodes []Node
}
