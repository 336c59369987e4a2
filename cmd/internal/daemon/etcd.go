package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Settings of the embedded server. It is one member alone, so it may elect
// itself at once: five ticks of 20 ms. The least TTL of a lease follows from
// the election time, and is then 1 s.
const (
	etcdTickMillis     = 20
	etcdElectionMillis = 100
	etcdQuotaBytes     = 8 << 30         // etcd's own advice for the most
	etcdCompactAfter   = 5 * time.Minute // history kept; watches survive its loss
	etcdTxnOpsMax      = 4096
	etcdRequestBytes   = 8 << 20
)

// EtcdOptions set up an embedded etcd server.
type EtcdOptions struct {
	Dir          string      // its data, made if absent
	ListenClient string      // host:port for clients; "" = 127.0.0.1:2379, port 0 = any
	ListenPeer   string      // host:port for other members, of which there are none; "" = 127.0.0.1:0
	Logger       *zap.Logger // nil = none; gets warnings and errors
}

// etcdDrainMax is how long Close lets requests end by themselves. Watches never
// do.
const etcdDrainMax = 250 * time.Millisecond

// Etcd is a running embedded etcd server.
type Etcd struct {
	e    *embed.Etcd
	lock io.Closer // of the data directory

	ended
	watching sync.WaitGroup
	closing  atomic.Bool

	mu   sync.Mutex     // guards grpc
	grpc []*grpc.Server // what serves clients
}

// StartEtcd starts a single-member etcd server on opts.Dir and waits until it
// serves, or until ctx ends. The server lives until Close.
func StartEtcd(ctx context.Context, opts EtcdOptions) (*Etcd, error) {
	e := &Etcd{ended: newEnded()}
	cfg, err := etcdConfig(opts, &e.closing)
	if err != nil {
		return nil, err
	}
	cfg.ServiceRegister = func(s *grpc.Server) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.grpc = append(e.grpc, s)
	}
	if e.lock, err = lockDir(opts.Dir); err != nil {
		return nil, fmt.Errorf("start etcd on %s: %w", opts.ListenClient, err)
	}
	if e.e, err = embed.StartEtcd(cfg); err != nil {
		err = errors.Join(err, e.lock.Close())
		return nil, fmt.Errorf("start etcd on %s, data in %s: %w", opts.ListenClient, opts.Dir, err)
	}
	select {
	case <-e.e.Server.ReadyNotify():
		e.watching.Go(e.watch)
		return e, nil
	case err = <-e.e.Err():
	case <-e.e.Server.StopNotify():
		err = errors.New("it stopped by itself")
	case <-ctx.Done():
		err = ctx.Err()
	}
	e.closing.Store(true)
	e.e.Close()
	err = errors.Join(err, e.lock.Close())
	return nil, fmt.Errorf("start etcd on %s, data in %s: %w", opts.ListenClient, opts.Dir, err)
}

// ErrDirInUse means that another process has the data directory.
var ErrDirInUse = errors.New("data directory is in use by another process")

// lockDir makes a data directory and takes its lock. etcd by itself would wait
// for the other process without end, deaf to signals.
func lockDir(dir string) (io.Closer, error) {
	if err := vfs.Default.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := vfs.Default.Lock(filepath.Join(dir, "LOCK"))
	var file *fs.PathError // it could not be opened; any other failure is the lock
	switch {
	case errors.As(err, &file):
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w: %w", dir, ErrDirInUse, err)
	}
	return lock, nil
}

func etcdConfig(opts EtcdOptions, closing *atomic.Bool) (*embed.Config, error) {
	if opts.Dir == "" {
		return nil, fmt.Errorf("etcd: %w: Dir is empty: want a directory for its data", ErrOptions)
	}
	if opts.ListenClient == "" {
		opts.ListenClient = "127.0.0.1:2379"
	}
	if opts.ListenPeer == "" {
		opts.ListenPeer = "127.0.0.1:0"
	}
	log := opts.Logger
	if log == nil {
		log = zap.NewNop()
	}
	cfg := embed.NewConfig()
	cfg.Name = "loglode"
	cfg.Dir = opts.Dir
	client, err := etcdURL("ListenClient", opts.ListenClient)
	if err != nil {
		return nil, err
	}
	peer, err := etcdURL("ListenPeer", opts.ListenPeer)
	if err != nil {
		return nil, err
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = client, client
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peer, peer
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = etcdTickMillis, etcdElectionMillis
	cfg.QuotaBackendBytes = etcdQuotaBytes
	cfg.AutoCompactionMode = embed.CompactorModePeriodic
	cfg.AutoCompactionRetention = etcdCompactAfter.String()
	cfg.MaxTxnOps = etcdTxnOpsMax
	cfg.MaxRequestBytes = etcdRequestBytes
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(log, closing))
	return cfg, nil
}

// etcdURL takes host:port, where the host must be an address for etcd to bind.
func etcdURL(field, addr string) ([]url.URL, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("etcd: %s: %w: %w", field, ErrOptions, err)
	}
	if host != "localhost" && net.ParseIP(host) == nil {
		return nil, fmt.Errorf("etcd: %w: %s is %q: want an IP address and a port", ErrOptions, field, addr)
	}
	return []url.URL{{Scheme: "http", Host: addr}}, nil
}

// Endpoint is the host:port that clients connect to.
func (e *Etcd) Endpoint() string { return e.e.Clients[0].Addr().String() }

// watch notes when the server ends by itself.
func (e *Etcd) watch() {
	select {
	case err := <-e.e.Err():
		e.end(fmt.Errorf("etcd: %w", err))
	case <-e.e.Server.StopNotify():
		e.end(errors.New("etcd stopped by itself"))
	case <-e.Done():
	}
}

// Close stops the server and waits for it. Requests may end first, for a moment
// and while ctx allows; watches of clients that are still connected are broken
// off.
func (e *Etcd) Close(ctx context.Context) error {
	e.closing.Store(true)
	e.end(nil)
	e.watching.Wait()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.e.Close() // by itself it waits for watches for seconds
	}()
	t := time.NewTimer(etcdDrainMax)
	defer t.Stop()
	select {
	case <-done:
		return e.lock.Close()
	case <-t.C:
	case <-ctx.Done():
	}
	e.mu.Lock()
	servers := e.grpc
	e.mu.Unlock()
	for _, s := range servers {
		s.Stop()
	}
	<-done
	return e.lock.Close()
}
