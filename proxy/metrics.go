package proxy

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/loglode/loglode/proxy/wire"
)

// stats counts what happens. Labels never hold a stream's name.
type stats struct {
	acquired, released, redirected, leases prometheus.Counter
	records, bytes                         prometheus.Counter
	refused                                *prometheus.CounterVec
	calls                                  *prometheus.CounterVec
	connections                            prometheus.Gauge
}

func newStats(r prometheus.Registerer, p *Proxy) (*stats, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "loglode", Subsystem: "proxy", Name: name, Help: help})
	}
	s := &stats{
		acquired:   counter("streams_acquired_total", "Streams taken."),
		released:   counter("streams_released_total", "Streams let go."),
		redirected: counter("redirects_total", "Calls answered with the location of another owner."),
		leases:     counter("leases_lost_total", "Leases lost."),
		records:    counter("records_total", "Records acknowledged."),
		bytes:      counter("record_bytes_total", "Payload bytes of records acknowledged."),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "loglode", Subsystem: "proxy", Name: "answers_not_ok_total",
			Help: "Answers other than success, by status code."}, []string{"code"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "loglode", Subsystem: "proxy", Name: "calls_total",
			Help: "Calls, by method."}, []string{"method"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "loglode", Subsystem: "proxy", Name: "connections",
			Help: "Open connections of clients."}),
	}
	if r == nil {
		return s, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{s.acquired, s.released, s.redirected, s.leases, s.records, s.bytes, s.refused, s.calls, s.connections,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "loglode", Subsystem: "proxy", Name: "unanswered_bytes",
			Help: "Payload bytes of calls without an answer."}, func() float64 { return float64(p.load.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "loglode", Subsystem: "proxy", Name: "streams",
			Help: "Streams in the table."}, func() float64 { return float64(p.tableSize()) }),
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of proxy: %w", err)
	}
	return s, nil
}

func (p *Proxy) refused(h *wire.ResponseHeader) {
	p.stats.refused.WithLabelValues(strconv.Itoa(int(h.Code))).Inc()
	if f := p.o.Events.Refused; f != nil {
		f(h.Code)
	}
}
