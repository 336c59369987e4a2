package segment

import (
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// partition is the node between a stream and its parts. It cannot collide with
// a nested stream, whose name has no angle brackets.
const partition = "<default>"

// keys are the nodes of one stream.
type keys struct {
	stream     string // <namespace>/<stream>
	root       string // …/<default>
	maxTxID    string
	version    string
	lock       string
	readLock   string
	ledgers    string
	allocation string
}

func keysOf(namespace string, name stream.Name) keys {
	k := keys{stream: joinKey(namespace, string(name))}
	k.root = metadata.Child(k.stream, partition)
	k.maxTxID = metadata.Child(k.root, "maxtxid")
	k.version = metadata.Child(k.root, "version")
	k.lock = metadata.Child(k.root, "lock")
	k.readLock = metadata.Child(k.root, "readLock")
	k.ledgers = metadata.Child(k.root, "ledgers")
	k.allocation = metadata.Child(k.root, "allocation")
	return k
}

func joinKey(parent, rest string) string {
	if parent == "/" {
		return "/" + rest
	}
	return parent + "/" + rest
}

// layoutVersion is the value of the version node: i32 -1, the only one there is.
var layoutVersion = []byte{0xff, 0xff, 0xff, 0xff}
