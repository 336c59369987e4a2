package dial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/etcdstore"
	"github.com/loglode/loglode/metadata/memstore"
	"github.com/loglode/loglode/metadata/zkstore"
)

// Options set up the store that is opened; the memory store needs none.
type Options struct {
	DialTimeout    time.Duration // how long Open waits for a first answer; 0 = the driver's default
	RequestTimeout time.Duration // bound of each call whose context has no sooner deadline; 0 = the driver's default
	Logger         *zap.Logger   // nil = none
}

// memory has the memory stores of this process by name. It is global because
// the name is: whoever dials it in this process means the same store, which
// lives as long as the process.
var memory struct {
	sync.Mutex
	trees map[string]*memstore.Tree
}

func memoryTree(name string) *memstore.Tree {
	memory.Lock()
	defer memory.Unlock()
	if memory.trees == nil {
		memory.trees = map[string]*memstore.Tree{}
	}
	t := memory.trees[name]
	if t == nil {
		t = memstore.NewTree()
		memory.trees[name] = t
	}
	return t
}

// Open opens the store that uri names and gives the key in it that uri names.
// The caller closes the store. Errors: those of ParseURI, and
// metadata.ErrUnavailable if no server answers.
func Open(ctx context.Context, uri string, opts Options) (metadata.Store, string, error) {
	u, err := ParseURI(uri)
	if err != nil {
		return nil, "", err
	}
	switch u.Scheme {
	case SchemeMemory:
		return memoryTree(u.Hosts[0]).Open(), u.Path, nil
	case SchemeEtcd:
		s, err := etcdstore.Open(ctx, etcdstore.Options{
			Endpoints: u.Hosts, DialTimeout: opts.DialTimeout, RequestTimeout: opts.RequestTimeout, Logger: opts.Logger,
		})
		if err != nil {
			return nil, "", fmt.Errorf("open %s: %w", u, err)
		}
		return s, u.Path, nil
	case SchemeZooKeeper:
		s, err := zkstore.Open(ctx, zkstore.Options{
			Servers: u.Hosts, DialTimeout: opts.DialTimeout, RequestTimeout: opts.RequestTimeout, Logger: opts.Logger,
		})
		if err != nil {
			return nil, "", fmt.Errorf("open %s: %w", u, err)
		}
		return s, u.Path, nil
	default:
		return nil, "", fmt.Errorf("open %s: scheme %q: %w", u, u.Scheme, ErrUnknownScheme)
	}
}
