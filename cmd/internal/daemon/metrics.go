package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsServer serves Prometheus metrics and profiles over HTTP.
type metricsServer struct {
	http    *http.Server
	serving sync.WaitGroup
	err     error // of Serve; read it after serving.Wait
}

// startMetrics serves registry at addr; no address means no server.
func startMetrics(addr string, registry *prometheus.Registry) (*metricsServer, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	m := &metricsServer{http: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}}
	m.serving.Go(func() {
		if err := m.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			m.err = fmt.Errorf("metrics server: %w", err)
		}
	})
	return m, nil
}

func (m *metricsServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := m.http.Shutdown(ctx)
	m.serving.Wait()
	return errors.Join(err, m.err)
}
