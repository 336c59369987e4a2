package server

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/loglode/loglode/bookie/wire"
)

// metrics are what a server counts; they exist without a registerer too.
type metrics struct {
	reg  prometheus.Registerer
	list []prometheus.Collector

	requests   [wire.OpBatchRead + 1]prometheus.Counter // by operation; nil: no such
	refused    prometheus.Counter
	broken     prometheus.Counter
	turnedAway prometheus.Counter
}

func newMetrics(s *Server, reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{reg: reg}
	requests := prometheus.NewCounterVec(opts("requests_total", "Requests taken, by operation."), []string{"op"})
	m.list = append(m.list, requests)
	for op := range m.requests {
		if wire.Op(op).Known() {
			m.requests[op] = requests.WithLabelValues(wire.Op(op).String())
		}
	}
	m.refused = prometheus.NewCounter(opts("connections_refused_total", "Connections closed at once for want of room."))
	m.broken = prometheus.NewCounter(opts("connections_broken_total", "Connections the server closed: malformed frames, stalls, network errors."))
	m.turnedAway = prometheus.NewCounter(opts("connections_turned_away_total", "Connections whose client failed to authenticate."))
	m.list = append(m.list, m.refused, m.broken, m.turnedAway,
		gauge("connections", "Open connections.", s.Conns), gauge("long_polls", "Long polls that wait.", s.LongPolls))
	if reg == nil {
		return m, nil
	}
	for i, c := range m.list {
		if err := reg.Register(c); err != nil {
			m.list = m.list[:i]
			m.unregister()
			return nil, fmt.Errorf("server metrics: %w", err)
		}
	}
	return m, nil
}

func opts(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: "loglode", Subsystem: "bookie_server", Name: name, Help: help}
}

func gauge(name, help string, value func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), func() float64 { return float64(value()) })
}

func (m *metrics) unregister() {
	if m.reg == nil {
		return
	}
	for _, c := range m.list {
		m.reg.Unregister(c)
	}
}

// count adds what one read brought, by operation.
func (m *metrics) count(ops *[wire.OpBatchRead + 1]int) {
	for op, n := range ops {
		if n > 0 {
			m.requests[op].Add(float64(n))
			ops[op] = 0
		}
	}
}
