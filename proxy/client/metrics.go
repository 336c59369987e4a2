package client

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// stats counts what the routing does.
type stats struct {
	hops, lookUps, binds, resolved, retries prometheus.Counter
	hopsPerCall                             prometheus.Histogram
}

func newStats(r prometheus.Registerer) (*stats, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "loglode", Subsystem: "proxyclient", Name: name, Help: help})
	}
	s := &stats{
		hops:     counter("hops_total", "Redirects followed."),
		lookUps:  counter("lookups_total", "Owners looked up in metadata."),
		binds:    counter("binds_total", "Bindings of writers to streams."),
		resolved: counter("resolved_records_total", "Records of unknown outcome that were found in the stream."),
		retries:  counter("retried_records_total", "Records sent again."),
		hopsPerCall: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "loglode", Subsystem: "proxyclient", Name: "hops",
			Help: "Redirects of one routed call.", Buckets: []float64{0, 1, 2, 3, 5, 8}}),
	}
	if r == nil {
		return s, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{s.hops, s.lookUps, s.binds, s.resolved, s.retries, s.hopsPerCall} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of proxy client: %w", err)
	}
	return s, nil
}
