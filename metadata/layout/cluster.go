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
	keys() keys
	// initOps makes a new cluster; its first operation fails if there is one.
	initOps(instanceID string) []metadata.Op
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
}

func newForm(scope string) (form, error) {
	if err := metadata.ValidKey(scope); err != nil {
		return nil, fmt.Errorf("cluster scope: %w", err)
	}
	if scope == "/" {
		return nil, fmt.Errorf("cluster scope %q: want a path such as /bk: %w", scope, metadata.ErrInvalidKey)
	}
	return newEtcdForm(scope), nil
}

// Init makes a new cluster below scope ("/bk") and gives its instance id. It
// fails with metadata.ErrExists if there is one.
func Init(ctx context.Context, store metadata.Store, scope string) (string, error) {
	f, err := newForm(scope)
	if err != nil {
		return "", err
	}
	id := newUUID()
	for {
		_, err = store.Txn(ctx, f.initOps(id)...)
		if !errors.Is(err, metadata.ErrUnknownOutcome) {
			break
		}
		// The instance id is the token that tells one's own lost answer from
		// another's success.
		n, getErr := store.Get(ctx, f.keys().instanceID)
		if getErr == nil && string(n.Value) == id {
			return id, nil
		}
		if getErr != nil && !errors.Is(getErr, metadata.ErrNotFound) {
			return "", fmt.Errorf("init cluster %s: %w", scope, errors.Join(err, getErr))
		}
	}
	if errors.Is(err, metadata.ErrExists) {
		// A retry may have met one's own first try.
		if n, getErr := store.Get(ctx, f.keys().instanceID); getErr == nil && string(n.Value) == id {
			return id, nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("init cluster %s: %w", scope, err)
	}
	return id, nil
}

// Open uses the cluster below scope; metadata.ErrNotFound if Init never ran.
func Open(ctx context.Context, store metadata.Store, scope string) (*Cluster, error) {
	f, err := newForm(scope)
	if err != nil {
		return nil, err
	}
	n, err := store.Get(ctx, f.keys().instanceID)
	if err != nil {
		return nil, fmt.Errorf("open cluster %s: instance id: %w", scope, err)
	}
	return &Cluster{store: store, scope: scope, instanceID: string(n.Value), form: f, keys: f.keys()}, nil
}

// Store is the store the cluster lives in.
func (c *Cluster) Store() metadata.Store { return c.store }

// Scope is the key the cluster lives below, without a slash at its end.
func (c *Cluster) Scope() string { return c.scope }

// InstanceID is the cluster's random id; cookies carry it.
func (c *Cluster) InstanceID() string { return c.instanceID }

// newUUID gives a random UUID of version 4.
func newUUID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails, by its documentation
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
