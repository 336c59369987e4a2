package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/metadata/dial"
	"github.com/loglode/loglode/metadata/layout"
	"github.com/loglode/loglode/namespace"
)

// DevOptions set up a whole system in one process, on loopback.
type DevOptions struct {
	Dir      string // data of all servers, made if absent
	Bookies  int    // at least 1
	Zones    int    // to spread the bookies over; 0 = they tell no zone
	PortBase int    // etcd; bookies follow, then the proxy; etcd's peer address is at PortBase + 50
	Logger   *zap.Logger

	Placement ledger.Placement // of the proxy's new ledgers
}

// Validate names the field and value it refuses.
func (o DevOptions) Validate() error {
	if o.Bookies < 1 || o.Bookies > devBookiesMax {
		return fmt.Errorf("%w: %d bookies: want 1 to %d", ErrOptions, o.Bookies, devBookiesMax)
	}
	if o.Zones < 0 {
		return fmt.Errorf("%w: %d zones: want 0 or more", ErrOptions, o.Zones)
	}
	if o.PortBase < 1 || o.PortBase > 65535-devPeerOffset {
		return fmt.Errorf("%w: port base %d: want 1 to %d", ErrOptions, o.PortBase, 65535-devPeerOffset)
	}
	if o.Dir == "" {
		return fmt.Errorf("%w: no data directory", ErrOptions)
	}
	return nil
}

// ErrOptions: a server's settings cannot be used.
var ErrOptions = errors.New("bad setting")

const (
	devBookiesMax = 40
	devPeerOffset = 50
	devClusterKey = "/bk"
	devNamespace  = "/loglode/default"
	// devLease is short: in one process nobody waits for a dead bookie's lease
	// but the next start of that process.
	devLease = 2 * time.Second
)

// Dev is a whole running system.
type Dev struct {
	opts    DevOptions
	etcd    *Etcd
	bookies []*Bookie
	proxy   *Proxy

	ended
	watching sync.WaitGroup
	stop     chan struct{}
}

// NamespaceURI is where clients find the streams.
func (d *Dev) NamespaceURI() string { return "etcd://" + d.etcd.Endpoint() + devNamespace }

func (d *Dev) clusterURI() string { return "etcd://" + d.etcd.Endpoint() + devClusterKey }

func (o DevOptions) addr(i int) string { return fmt.Sprintf("127.0.0.1:%d", o.PortBase+i) }

// StartDev starts everything, on fresh directories or on those of a run before.
func StartDev(ctx context.Context, o DevOptions) (_ *Dev, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("dev: %w", err)
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	d := &Dev{opts: o, ended: newEnded(), stop: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close(context.Background()))
		}
	}()
	d.etcd, err = StartEtcd(ctx, EtcdOptions{
		Dir: filepath.Join(o.Dir, "etcd"), ListenClient: o.addr(0), ListenPeer: o.addr(devPeerOffset), Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	if err := d.initCluster(ctx); err != nil {
		return nil, err
	}
	if err := d.startBookies(ctx); err != nil {
		return nil, err
	}
	if err := namespace.CreateNamespace(ctx, d.NamespaceURI(), d.clusterURI()); err != nil && !errors.Is(err, namespace.ErrNamespaceExists) {
		return nil, err
	}
	d.proxy, err = StartProxy(ctx, ProxyOptions{NamespaceURI: d.NamespaceURI(), Listen: o.addr(o.Bookies + 1), Placement: o.Placement, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	d.watch()
	return d, nil
}

func (d *Dev) initCluster(ctx context.Context) error {
	store, scope, err := dial.Open(ctx, d.clusterURI(), dial.Options{Logger: d.opts.Logger})
	if err != nil {
		return err
	}
	if _, err = layout.Init(ctx, store, scope); errors.Is(err, metadata.ErrExists) {
		err = nil
	}
	return errors.Join(err, store.Close())
}

// startBookies starts all bookies at once: after a crash each has to wait for
// its old lease, and they can wait together.
func (d *Dev) startBookies(ctx context.Context) error {
	d.bookies = make([]*Bookie, d.opts.Bookies)
	errs := make([]error, d.opts.Bookies)
	var wg sync.WaitGroup
	for i := range d.bookies {
		wg.Go(func() {
			dir := filepath.Join(d.opts.Dir, fmt.Sprintf("bookie%d", i+1))
			var place layout.Place
			if d.opts.Zones > 0 {
				place.Zone = fmt.Sprintf("zone%d", i%d.opts.Zones+1)
			}
			d.bookies[i], errs[i] = StartBookie(ctx, BookieOptions{
				Place:       place,
				MetadataURI: d.clusterURI(), Listen: d.opts.addr(i + 1), LeaseTTL: devLease, Logger: d.opts.Logger,
				JournalDirs: []string{filepath.Join(dir, "journal")}, LedgerDirs: []string{filepath.Join(dir, "ledgers")},
			})
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// watch ends the whole system when one server ends by itself.
func (d *Dev) watch() {
	note := func(done <-chan struct{}, why func() error) {
		d.watching.Go(func() {
			select {
			case <-done:
				d.end(why())
			case <-d.stop:
			}
		})
	}
	note(d.etcd.Done(), d.etcd.Err)
	note(d.proxy.Done(), d.proxy.Err)
	for _, b := range d.bookies {
		note(b.Done(), b.Err)
	}
}

// Close drains the proxy, then the bookies, then stops etcd. It works on a
// system that is only half started.
func (d *Dev) Close(ctx context.Context) error {
	close(d.stop)
	d.watching.Wait()
	var errs []error
	if d.proxy != nil {
		errs = append(errs, d.proxy.Close(ctx))
	}
	for _, b := range d.bookies {
		if b != nil {
			errs = append(errs, b.Close(ctx))
		}
	}
	if d.etcd != nil {
		errs = append(errs, d.etcd.Close(ctx))
	}
	return errors.Join(errs...)
}
