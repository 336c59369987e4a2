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

	"github.com/loglode/loglode/ledger"
	"github.com/loglode/loglode/namespace"
	"github.com/loglode/loglode/proxy"
)

// ProxyOptions set up one write proxy.
type ProxyOptions struct {
	NamespaceURI string
	Listen       string        // host:port to serve on
	Advertise    string        // host:port that clients reach; "" = the listener's address
	LeaseTTL     time.Duration // of its streams; 0 = 1 s
	Metrics      string        // host:port of the metrics server; "" = none
	Placement    ledger.Placement
	Logger       *zap.Logger
}

// Proxy is a running write proxy.
type Proxy struct {
	ns      *namespace.Namespace
	proxy   *proxy.Proxy
	metrics *metricsServer

	ended
	serving sync.WaitGroup
}

// StartProxy opens the namespace and serves. It returns when clients can find
// the proxy.
func StartProxy(ctx context.Context, o ProxyOptions) (_ *Proxy, err error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{ended: newEnded()}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close(), p.Close(context.Background()))
		}
	}()
	registry := prometheus.NewRegistry()
	if p.ns, err = namespace.Open(ctx, o.NamespaceURI, namespace.WithLogger(o.Logger), namespace.WithRegisterer(registry),
		namespace.WithLedgerOptions(ledger.Options{Placement: o.Placement})); err != nil {
		return nil, err
	}
	p.proxy, err = proxy.New(p.ns, proxy.Options{
		Addr: o.Advertise, Shard: proxy.ShardAuto, LeaseTTL: o.LeaseTTL, Logger: o.Logger, Registerer: registry,
	})
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p.serving.Go(func() {
		// Serve returns nil after Drain.
		if err := p.proxy.Serve(l); err != nil {
			p.end(fmt.Errorf("proxy: %w", err))
		}
	})
	select {
	case <-p.proxy.Ready():
	case <-p.Done():
		return nil, p.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.metrics, err = startMetrics(o.Metrics, registry)
	return p, err
}

// Close hands all streams over, finishes what is in flight within the context's
// time, and leaves.
func (p *Proxy) Close(ctx context.Context) error {
	var errs []error
	if p.proxy != nil {
		errs = append(errs, p.proxy.Drain(ctx))
		p.serving.Wait()
	}
	if p.metrics != nil {
		errs = append(errs, p.metrics.close())
	}
	if p.ns != nil {
		errs = append(errs, p.ns.Close())
	}
	return errors.Join(errs...)
}
