package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie"
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/server"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
)

// BookieOptions set up one bookie.
type BookieOptions struct {
	MetadataURI string        // its cluster
	Listen      string        // host:port to serve on
	Advertise   string        // host:port that clients reach; "" = ID if that is one, else Listen
	ID          string        // "" = Advertise, or Listen; any name where clients read the address, as on ZooKeeper
	JournalDirs []string      // at least one
	LedgerDirs  []string      // at least one
	LeaseTTL    time.Duration // of its registration; 0 = 5 s
	Metrics     string        // host:port of the metrics server; "" = none
	Place       layout.Place  // where it is; zero = as stored before
	Logger      *zap.Logger

	CollectInterval time.Duration // from one garbage collection to the next; 0 = 15 min
}

// Bookie is a running bookie: storage, server and registration.
type Bookie struct {
	store   *bookie.Bookie
	server  *server.Server
	reg     *bookie.Registration
	meta    metadata.Store
	metrics *metricsServer
	told    int64 // free bytes that clients know of; of firstPlace, then of tellRoom

	ended
	serving  sync.WaitGroup
	telling  sync.WaitGroup
	stopTell context.CancelFunc // nil: not telling
}

// ended tells that a server has ended by itself, and why.
type ended struct {
	once sync.Once
	done chan struct{}
	err  error // set before done is closed
}

func newEnded() ended { return ended{done: make(chan struct{})} }

func (e *ended) end(err error) { e.once.Do(func() { e.err = err; close(e.done) }) }

// Done is closed when the server has ended by itself.
func (e *ended) Done() <-chan struct{} { return e.done }

// Err is why the server has ended by itself; call it after Done is closed.
func (e *ended) Err() error { return e.err }

const bookieLeaseDefault = 5 * time.Second

// StartBookie opens the bookie's directories, serves and registers. It returns
// when all of that has happened.
func StartBookie(ctx context.Context, o BookieOptions) (_ *Bookie, err error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.LeaseTTL == 0 {
		o.LeaseTTL = bookieLeaseDefault
	}
	id, info, err := bookieID(o)
	if err != nil {
		return nil, err
	}
	if err := validatePlace(o.Place); err != nil {
		return nil, fmt.Errorf("bookie %s: %w", id, err)
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("bookie %s: %w", id, err)
	}
	b := &Bookie{ended: newEnded()}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close(), b.Close(context.Background()))
		}
	}()
	cluster, err := b.openCluster(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := cluster.Registrable(id, info); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	b.store, err = bookie.Open(ctx, bookie.Options{
		JournalDirs: o.JournalDirs, LedgerDirs: o.LedgerDirs,
		Collect:  bookie.CollectOptions{Ledgers: bookie.ClusterLedgers(cluster), Interval: o.CollectInterval},
		Identity: &bookie.Identity{ID: id, Cluster: cluster},
		Logger:   o.Logger, Registerer: registry,
	})
	if err != nil {
		return nil, fmt.Errorf("bookie %s: %w", id, err)
	}
	if b.server, err = server.New(b.store, server.Options{Logger: o.Logger}); err != nil {
		return nil, fmt.Errorf("bookie %s: %w", id, err)
	}
	b.serving.Go(func() {
		if err := b.server.Serve(l); !errors.Is(err, server.ErrClosed) {
			b.end(fmt.Errorf("bookie %s: %w", id, err))
		}
	})
	if info.Properties, err = b.firstPlace(ctx, cluster, id, o.Place); err != nil {
		return nil, fmt.Errorf("bookie %s: %w", id, err)
	}
	b.reg, err = b.store.Register(ctx, bookie.RegisterOptions{
		Cluster: cluster, ID: id, Info: info, TTL: o.LeaseTTL, Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("register bookie %s: %w", id, err)
	}
	tell, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stopTell = stop
	b.telling.Go(func() { b.tellRoom(tell, cluster, id, o.Logger) })
	b.metrics, err = startMetrics(o.Metrics, registry)
	return b, err
}

// bookieID gives who the bookie is and where clients dial it.
func bookieID(o BookieOptions) (bk.BookieID, layout.ServiceInfo, error) {
	fail := func(err error) (bk.BookieID, layout.ServiceInfo, error) { return "", layout.ServiceInfo{}, err }
	addr := o.Advertise
	if _, err := layout.BookieEndpoint(o.ID); err == nil && addr == "" {
		addr = o.ID
	}
	if addr == "" {
		addr = o.Listen
	}
	endpoint, err := layout.BookieEndpoint(addr)
	if err != nil {
		return fail(err)
	}
	if ip := net.ParseIP(endpoint.Host); ip != nil && ip.IsUnspecified() {
		return fail(fmt.Errorf("%w: clients cannot dial %s: advertise an address that they reach", ErrOptions, addr))
	}
	text := o.ID
	if text == "" {
		text = addr
	}
	id, err := bk.ParseBookieID(text)
	if err != nil {
		return fail(err)
	}
	return id, layout.ServiceInfo{Endpoints: []layout.Endpoint{endpoint}}, nil
}

func (b *Bookie) openCluster(ctx context.Context, o BookieOptions) (*layout.Cluster, error) {
	uri, err := dial.ParseURI(o.MetadataURI)
	if err != nil {
		return nil, err
	}
	store, scope, err := dial.Open(ctx, o.MetadataURI, dial.Options{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	b.meta = store
	ctx, cancel := context.WithTimeout(ctx, metadataWait)
	defer cancel()
	cluster, err := layout.OpenKind(ctx, store, scope, layout.Kind(uri.Layout))
	if errors.Is(err, metadata.ErrNotFound) {
		return nil, fmt.Errorf("no cluster of bookies at %s; make one with `loglode init --metadata %s`: %w", o.MetadataURI, o.MetadataURI, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", o.MetadataURI, err)
	}
	return cluster, nil
}

// metadataWait bounds one look at metadata while a server starts.
const metadataWait = 15 * time.Second

// Close leaves the cluster, finishes what is in flight within the context's
// time, and closes the storage. It works on a bookie that is only half started.
func (b *Bookie) Close(ctx context.Context) error {
	var errs []error
	if b.stopTell != nil {
		b.stopTell()
		b.telling.Wait()
	}
	if b.reg != nil {
		errs = append(errs, b.reg.Close(ctx))
	}
	if b.server != nil {
		errs = append(errs, b.server.Drain(ctx))
		b.serving.Wait()
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	if b.metrics != nil {
		errs = append(errs, b.metrics.close())
	}
	if b.meta != nil {
		errs = append(errs, b.meta.Close())
	}
	return errors.Join(errs...)
}
