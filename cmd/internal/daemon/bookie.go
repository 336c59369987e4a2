package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
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
	ID          string        // "" = Listen
	JournalDirs []string      // at least one
	LedgerDirs  []string      // at least one
	LeaseTTL    time.Duration // of its registration; 0 = 5 s
	Metrics     string        // host:port of the metrics server; "" = none
	Logger      *zap.Logger
}

// Bookie is a running bookie: storage, server and registration.
type Bookie struct {
	store   *bookie.Bookie
	server  *server.Server
	reg     *bookie.Registration
	meta    metadata.Store
	metrics *metricsServer

	ended
	serving sync.WaitGroup
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
	id, err := bookieID(o)
	if err != nil {
		return nil, err
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
	registry := prometheus.NewRegistry()
	b.store, err = bookie.Open(ctx, bookie.Options{
		JournalDirs: o.JournalDirs, LedgerDirs: o.LedgerDirs,
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
	b.reg, err = b.store.Register(ctx, bookie.RegisterOptions{Cluster: cluster, ID: id, TTL: o.LeaseTTL, Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("register bookie %s: %w", id, err)
	}
	b.metrics, err = startMetrics(o.Metrics, registry)
	return b, err
}

func bookieID(o BookieOptions) (bk.BookieID, error) {
	text := o.ID
	if text == "" {
		text = o.Listen
	}
	id, err := bk.ParseBookieID(text)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(text)
	if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 1 || n > 65535 || host == "" {
		return "", fmt.Errorf("bookie id %q: clients dial it, so it must be host:port with a port of its own: %w", text, bk.ErrInvalidBookieID)
	}
	return id, nil
}

func (b *Bookie) openCluster(ctx context.Context, o BookieOptions) (*layout.Cluster, error) {
	store, scope, err := dial.Open(ctx, o.MetadataURI, dial.Options{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	b.meta = store
	ctx, cancel := context.WithTimeout(ctx, metadataWait)
	defer cancel()
	cluster, err := layout.Open(ctx, store, scope)
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
