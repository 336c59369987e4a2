package layout

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strconv"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
)

// zkForm is the tree of Apache's ZooKeeper drivers; doc.go shows it.
type zkForm struct {
	scope string
	kind  Kind
	ids   *zkIDs
}

func newZKForm(scope string, kind Kind) *zkForm {
	return &zkForm{scope: scope, kind: kind, ids: newZKIDs(scope, kind)}
}

func zkKeys(scope string) keys {
	return keys{
		layout:     scope + "/LAYOUT",
		instanceID: scope + "/INSTANCEID",
		cookies:    scope + "/cookies",
		writable:   scope + "/available",
		readOnly:   scope + "/available/readonly",
	}
}

func (f *zkForm) keys() keys { return zkKeys(f.scope) }

func (f *zkForm) layout() Kind { return f.kind }

func (f *zkForm) initOps(instanceID string) []metadata.Op {
	k := f.keys()
	return []metadata.Op{
		metadata.Create(f.scope, nil).WithParents(),
		metadata.Create(k.writable, nil),
		metadata.Create(k.readOnly, nil),
		metadata.Create(k.instanceID, []byte(instanceID)),
	}
}

// finishInit makes LAYOUT. A client that came in between may have made it: the
// one that says the same is as good.
func (f *zkForm) finishInit(ctx context.Context, store metadata.Store) error {
	_, err := zkLayout(ctx, store, f.scope, f.kind)
	return err
}

// zkLayout gives the kind that LAYOUT names, which must be want if that names
// one. Where there is a root without a LAYOUT it is made, as every client of a
// cluster does.
func zkLayout(ctx context.Context, store metadata.Store, scope string, want Kind) (Kind, error) {
	k := zkKeys(scope)
	for {
		n, err := store.Get(ctx, k.layout)
		if err == nil {
			return checkLayout(n.Value, want)
		}
		if !errors.Is(err, metadata.ErrNotFound) {
			return AnyKind, fmt.Errorf("LAYOUT: %w", err)
		}
		if _, err := store.Get(ctx, k.writable); err != nil {
			return AnyKind, err
		}
		kind := want
		if kind == AnyKind {
			kind = Hierarchical
		}
		_, err = metadata.CreateOnce(ctx, store, metadata.Create(k.layout, kind.layoutText()), nil)
		if err == nil {
			return kind, nil
		}
		if !errors.Is(err, metadata.ErrExists) {
			return AnyKind, fmt.Errorf("LAYOUT: %w", err)
		}
	}
}

func checkLayout(text []byte, want Kind) (Kind, error) {
	kind, err := parseLayout(text)
	if err == nil && want != AnyKind && want != kind {
		err = fmt.Errorf("the cluster is %s, not %s: %w", kind, want, ErrLayout)
	}
	return kind, err
}

// registration is the bookie's service info. Clients dial what it says; a
// bookie whose id is its address need not give any.
func (f *zkForm) registration(id bk.BookieID, info ServiceInfo) ([]byte, error) {
	for _, e := range info.Endpoints {
		if e.Protocol == ProtocolBookie {
			return info.Marshal()
		}
	}
	addr, err := splitHostPort(string(id))
	if err != nil {
		return nil, fmt.Errorf("bookie id %q is not host:port, so its service info must say where to dial it: %w", id, bk.ErrInvalidBookieID)
	}
	own, err := BookieEndpoint(addr)
	if err != nil {
		return nil, err
	}
	info.Endpoints = append([]Endpoint{own}, info.Endpoints...)
	return info.Marshal()
}

// BookieEndpoint is the endpoint that clients connect to, as Java's bookies
// write it. addr is host:port; bk.ErrInvalidBookieID.
func BookieEndpoint(addr string) (Endpoint, error) {
	if _, err := splitHostPort(addr); err != nil {
		return Endpoint{}, fmt.Errorf("address of a bookie: %w: %w", err, bk.ErrInvalidBookieID)
	}
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return Endpoint{}, err
	}
	port, err := strconv.Atoi(portText)
	return Endpoint{ID: "bookie", Host: host, Port: port, Protocol: ProtocolBookie}, err
}

func (f *zkForm) ledgers() ledgerTree { return f }

func (f *zkForm) key(id bk.LedgerID) string { return f.scope + "/" + f.kind.path(id) }

// list walks the trees, one directory after the other. Names that are no part
// of one (LAYOUT, idgen, a foreign node) are passed over.
func (f *zkForm) list(ctx context.Context, store metadata.Store) iter.Seq2[bk.LedgerID, error] {
	return func(yield func(bk.LedgerID, error) bool) {
		for _, tree := range f.kind.trees() {
			if !f.walk(ctx, store, f.scope, "", tree.digits, yield) {
				return
			}
		}
	}
}

// walk lists the ledgers below key, whose path from the root is digits without
// its slashes. It gives false once yield did, or after an error.
func (f *zkForm) walk(ctx context.Context, store metadata.Store, key, digits string, below []int, yield func(bk.LedgerID, error) bool) bool {
	for n, err := range metadata.Children(ctx, store, key, metadata.ListOptions{KeysOnly: true}) {
		if err != nil {
			yield(bk.InvalidLedgerID, fmt.Errorf("list ledgers: %w", err))
			return false
		}
		name := metadata.Name(n.Key)
		if len(below) > 0 {
			if isDigits(name, below[0]) && !f.walk(ctx, store, n.Key, digits+name, below[1:], yield) {
				return false
			}
		} else if id, ok := f.kind.leafID(digits, name); ok && !yield(id, nil) {
			return false
		}
	}
	return true
}

func (f *zkForm) newID(ctx context.Context, store metadata.Store) (bk.LedgerID, error) {
	return f.ids.next(ctx, store)
}

// remove deletes a ledger's node, and the nodes above it that are empty then.
// No node there is success. What is left of the parents, because another made
// something below them or the store failed, does no harm: the next delete of a
// neighbour takes it.
func (f *zkForm) remove(ctx context.Context, store metadata.Store, id bk.LedgerID) error {
	key := f.key(id)
	if err := metadata.Remove(ctx, store, key, metadata.AnyVersion); err != nil {
		return err
	}
	if f.kind != Hierarchical && f.kind != LongHierarchical {
		return nil // as Java's
	}
	for parent, _ := metadata.Split(key); parent != f.scope; parent, _ = metadata.Split(parent) {
		if _, err := store.Txn(ctx, metadata.Delete(parent, metadata.AnyVersion)); err != nil {
			break
		}
	}
	return nil
}
