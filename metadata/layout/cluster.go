package layout

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
)

// Cluster is one initialised cluster of bookies. Any number of goroutines may
// use it. It starts no goroutine but one for each WatchBookies, which ends with
// its context or with the store.
type Cluster struct {
	store      metadata.Store
	scope      string
	instanceID string
	form       form
	keys       keys
}

// keys are the keys of a cluster that its form fixes.
type keys struct {
	layout, instanceID, cookies, writable, readOnly string
}

// form is what differs between BookKeeper's trees in etcd and in ZooKeeper.
type form interface {
	layout() Kind
	keys() keys
	// initOps makes a new cluster; its first operation fails if there is one.
	initOps(instanceID string) []metadata.Op
	// finishInit does what Java does in a step of its own after initOps.
	finishInit(ctx context.Context, store metadata.Store) error
	// registration gives the value of a bookie's node, and refuses an id that
	// clients of this form could not dial.
	registration(id bk.BookieID, info ServiceInfo) ([]byte, error)
	ledgers() ledgerTree
}

// ledgerTree is a form's part about ledgers.
type ledgerTree interface {
	key(id bk.LedgerID) string
	list(ctx context.Context, store metadata.Store) iter.Seq2[bk.LedgerID, error]
	newID(ctx context.Context, store metadata.Store) (bk.LedgerID, error)
	remove(ctx context.Context, store metadata.Store, id bk.LedgerID) error
}

func validScope(scope string) error {
	if err := metadata.ValidKey(scope); err != nil {
		return fmt.Errorf("cluster scope: %w", err)
	}
	if scope == "/" {
		return fmt.Errorf("cluster scope %q: want a path such as /bk: %w", scope, metadata.ErrInvalidKey)
	}
	return nil
}

func newForm(scope string, kind Kind) (form, error) {
	switch {
	case kind == AnyKind || kind == Etcd:
		return newEtcdForm(scope), nil
	case kind.onZooKeeper():
		return newZKForm(scope, kind), nil
	default:
		return nil, fmt.Errorf("layout %q is not known: %w", string(kind), ErrLayout)
	}
}

// Init makes a new cluster below scope ("/bk"), in the tree of Apache's etcd
// driver, and gives its instance id. It fails with metadata.ErrExists if there
// is one.
func Init(ctx context.Context, store metadata.Store, scope string) (string, error) {
	return InitKind(ctx, store, scope, Etcd)
}

// InitKind makes a new cluster of a kind and gives its instance id. Whatever is
// at scope already is left as it is: metadata.ErrExists.
func InitKind(ctx context.Context, store metadata.Store, scope string, kind Kind) (string, error) {
	if err := validScope(scope); err != nil {
		return "", err
	}
	f, err := newForm(scope, kind)
	if err != nil {
		return "", err
	}
	id := newUUID()
	if err = initOnce(ctx, store, f, id); err == nil {
		err = f.finishInit(ctx, store)
	}
	if err != nil {
		return "", fmt.Errorf("init cluster %s: %w", scope, err)
	}
	return id, nil
}

// initOnce makes the tree of a new cluster. The instance id is the token that
// tells one's own lost answer from another's success.
func initOnce(ctx context.Context, store metadata.Store, f form, id string) error {
	mine := func() (bool, error) {
		n, err := store.Get(ctx, f.keys().instanceID)
		if errors.Is(err, metadata.ErrNotFound) {
			return false, nil
		}
		return err == nil && string(n.Value) == id, err
	}
	for {
		_, err := store.Txn(ctx, f.initOps(id)...)
		lost := errors.Is(err, metadata.ErrUnknownOutcome)
		if !lost && !errors.Is(err, metadata.ErrExists) {
			return err
		}
		own, getErr := mine() // a retry may have met one's own first try
		switch {
		case getErr != nil:
			return errors.Join(err, getErr)
		case own:
			return nil
		case !lost:
			return err
		}
	}
}

// Open uses the cluster below scope, of whichever kind it is;
// metadata.ErrNotFound if Init never ran.
func Open(ctx context.Context, store metadata.Store, scope string) (*Cluster, error) {
	return OpenKind(ctx, store, scope, AnyKind)
}

// OpenKind uses the cluster below scope if it is of this kind; ErrLayout if it
// is of another.
func OpenKind(ctx context.Context, store metadata.Store, scope string, want Kind) (*Cluster, error) {
	if err := validScope(scope); err != nil {
		return nil, err
	}
	f, instanceID, err := openForm(ctx, store, scope, want)
	if err != nil {
		return nil, fmt.Errorf("open cluster %s: %w", scope, err)
	}
	return &Cluster{store: store, scope: scope, instanceID: instanceID, form: f, keys: f.keys()}, nil
}

// openForm finds out what there is. In etcd a cluster has an instance id; in
// ZooKeeper it can do without one.
func openForm(ctx context.Context, store metadata.Store, scope string, want Kind) (form, string, error) {
	if _, err := newForm(scope, want); err != nil {
		return nil, "", err
	}
	etcd := newEtcdForm(scope)
	n, err := store.Get(ctx, etcd.keys().instanceID)
	switch {
	case err == nil && want.onZooKeeper():
		return nil, "", fmt.Errorf("the cluster is %s, not %s: %w", Etcd, want, ErrLayout)
	case err == nil:
		return etcd, string(n.Value), nil
	case want == Etcd || !errors.Is(err, metadata.ErrNotFound):
		return nil, "", fmt.Errorf("instance id: %w", err)
	}
	kind, err := zkLayout(ctx, store, scope, want)
	if errors.Is(err, metadata.ErrNotFound) {
		err = fmt.Errorf("there is none: %w", err)
	}
	if err != nil {
		return nil, "", err
	}
	zk := newZKForm(scope, kind)
	n, err = store.Get(ctx, zk.keys().instanceID)
	if err != nil && !errors.Is(err, metadata.ErrNotFound) {
		return nil, "", fmt.Errorf("instance id: %w", err)
	}
	return zk, string(n.Value), nil
}

// Kind is the kind of the cluster's tree.
func (c *Cluster) Kind() Kind { return c.form.layout() }

// Store is the store the cluster lives in.
func (c *Cluster) Store() metadata.Store { return c.store }

// Scope is the key the cluster lives below, without a slash at its end.
func (c *Cluster) Scope() string { return c.scope }

// InstanceID is the cluster's random id; cookies carry it. A ZooKeeper cluster
// may have none, "".
func (c *Cluster) InstanceID() string { return c.instanceID }

// newUUID gives a random UUID of version 4.
func newUUID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails, by its documentation
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
