package layout

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
)

// etcdLayout is the value of <scope>/layout. The Java driver writes it and does
// not read it.
const etcdLayout = "2\norg.apache.bookkeeper.metadata.etcd.EtcdLedgerManagerFactory:0"

// etcdBuckets is the number of ledger id counters. A ledger id is
// bucket<<56 | count, so buckets must stay below 128 for ids to be positive.
const etcdBuckets = 128

// etcdForm is the tree of Apache's etcd driver; doc.go shows it. The memory
// store uses it too.
type etcdForm struct {
	scope  string
	bucket atomic.Uint32 // the next counter to use, modulo etcdBuckets
}

func newEtcdForm(scope string) *etcdForm {
	f := &etcdForm{scope: scope}
	f.bucket.Store(rand.Uint32N(etcdBuckets))
	return f
}

func (f *etcdForm) keys() keys {
	return keys{
		layout:     f.scope + "/layout",
		instanceID: f.scope + "/instanceid",
		cookies:    f.scope + "/cookies",
		writable:   f.scope + "/bookies/writable",
		readOnly:   f.scope + "/bookies/readonly",
	}
}

func (f *etcdForm) layout() Kind { return Etcd }

func (f *etcdForm) initOps(instanceID string) []metadata.Op {
	ops := []metadata.Op{metadata.Create(f.scope, nil).WithParents()}
	for _, name := range []string{
		"/cookies", "/bookies", "/bookies/writable", "/bookies/readonly", "/ledgers", "/buckets", "/underreplication",
	} {
		ops = append(ops, metadata.Create(f.scope+name, nil))
	}
	k := f.keys()
	return append(ops,
		metadata.Create(k.layout, []byte(etcdLayout)),
		metadata.Create(k.instanceID, []byte(instanceID)))
}

func (f *etcdForm) finishInit(context.Context, metadata.Store) error { return nil }

// registration is empty, as Java's etcd clients parse the id for the address
// and never look at the value. If the bookie serves elsewhere, the value says
// so to clients of ours.
func (f *etcdForm) registration(id bk.BookieID, info ServiceInfo) ([]byte, error) {
	if _, err := splitHostPort(string(id)); err != nil {
		return nil, fmt.Errorf("bookie id %q: on etcd it must be host:port, for clients dial it: %w", id, bk.ErrInvalidBookieID)
	}
	for _, e := range info.Endpoints {
		if e.Protocol == ProtocolBookie && net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) != string(id) {
			return info.Marshal()
		}
	}
	return nil, nil
}

// remove deletes a ledger's key; metadata.ErrNotFound if there is none, as in
// Java's etcd driver.
func (f *etcdForm) remove(ctx context.Context, store metadata.Store, id bk.LedgerID) error {
	return metadata.RemoveExisting(ctx, store, f.key(id), metadata.AnyVersion)
}

func (f *etcdForm) ledgers() ledgerTree { return f }

// key puts the ledger id in the low half of a UUID, so that sorted keys are
// sorted ids.
func (f *etcdForm) key(id bk.LedgerID) string {
	return fmt.Sprintf("%s/ledgers/00000000-0000-0000-%04x-%012x", f.scope, uint64(id)>>48, uint64(id)&(1<<48-1))
}

// etcdLedgerID is the inverse of key, false for a name that it cannot have
// made.
func etcdLedgerID(name string) (bk.LedgerID, bool) {
	low, ok := strings.CutPrefix(name, "00000000-0000-0000-")
	if !ok || len(low) != 4+1+12 || low[4] != '-' {
		return 0, false
	}
	b, err := hex.DecodeString(low[:4] + low[5:])
	if err != nil || b[0] >= 0x80 || strings.ToLower(low) != low {
		return 0, false
	}
	var id uint64
	for _, c := range b {
		id = id<<8 | uint64(c)
	}
	return bk.LedgerID(id), true
}

func (f *etcdForm) list(ctx context.Context, store metadata.Store) iter.Seq2[bk.LedgerID, error] {
	return func(yield func(bk.LedgerID, error) bool) {
		for n, err := range metadata.Children(ctx, store, f.scope+"/ledgers", metadata.ListOptions{KeysOnly: true}) {
			if err != nil {
				yield(bk.InvalidLedgerID, fmt.Errorf("list ledgers: %w", err))
				return
			}
			// A node of another kind is not a ledger.
			if id, ok := etcdLedgerID(metadata.Name(n.Key)); ok && !yield(id, nil) {
				return
			}
		}
	}
}

// newID takes the next number of one of the counters, in turn. A counter is how
// often its key was written, so a lost answer costs one unused id.
func (f *etcdForm) newID(ctx context.Context, store metadata.Store) (bk.LedgerID, error) {
	for attempt := 1; ; attempt++ {
		bucket := f.bucket.Add(1) % etcdBuckets
		res, err := store.Txn(ctx, metadata.Put(fmt.Sprintf("%s/buckets/%03d", f.scope, bucket), nil))
		if errors.Is(err, metadata.ErrUnknownOutcome) && ctx.Err() == nil && attempt < etcdBuckets {
			continue
		}
		if err != nil {
			return bk.InvalidLedgerID, fmt.Errorf("new ledger id: %w", err)
		}
		return bk.LedgerID(bucket)<<56 | bk.LedgerID(res.Nodes[0].Writes), nil
	}
}

// splitHostPort checks that s is host:port with a numeric port, and gives s.
func splitHostPort(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", err
	}
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 || host == "" {
		return "", fmt.Errorf("%q is not host:port", s)
	}
	return s, nil
}
