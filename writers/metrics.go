package writers

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what writers do. Writers that share a Registerer share the
// metrics; no label names a stream.
type metrics struct {
	records, entries, bytes prometheus.Counter
	segments, completions   *prometheus.CounterVec
	stall                   prometheus.Histogram
}

// newMetrics registers the metrics, or finds those of an earlier writer. It
// gives nil without a Registerer.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	if r == nil {
		return nil, nil
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "loglode", Subsystem: "writer", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "loglode", Subsystem: "writer", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		records:     counter("records_total", "Records acknowledged."),
		entries:     counter("entries_total", "Entries acknowledged."),
		bytes:       counter("bytes_total", "Bytes of records acknowledged, headers included."),
		segments:    vec("segments_started_total", "Segments started, by whether they replaced another.", "roll"),
		completions: vec("segments_completed_total", "Attempts to complete a segment, by outcome.", "outcome"),
		stall: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "loglode", Subsystem: "writer", Name: "start_stall_seconds",
			Help: "How long records waited for a segment to start.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)}),
	}
	var errs []error
	m.records = register(r, m.records, &errs)
	m.entries = register(r, m.entries, &errs)
	m.bytes = register(r, m.bytes, &errs)
	m.segments = register(r, m.segments, &errs)
	m.completions = register(r, m.completions, &errs)
	m.stall = register(r, m.stall, &errs)
	return m, errors.Join(errs...)
}

func register[C prometheus.Collector](r prometheus.Registerer, c C, errs *[]error) C {
	err := r.Register(c)
	var are prometheus.AlreadyRegisteredError
	if errors.As(err, &are) {
		if old, ok := are.ExistingCollector.(C); ok {
			return old
		}
	}
	if err != nil {
		*errs = append(*errs, err)
	}
	return c
}

func (m *metrics) acked(records int, bytes int64) {
	if m != nil {
		m.entries.Inc()
		m.records.Add(float64(records))
		m.bytes.Add(float64(bytes))
	}
}

func (m *metrics) started(roll bool, stall time.Duration) {
	if m != nil {
		label := "no"
		if roll {
			label = "yes"
		}
		m.segments.WithLabelValues(label).Inc()
		m.stall.Observe(stall.Seconds())
	}
}

func (m *metrics) completed(err error) {
	if m != nil {
		label := "ok"
		if err != nil {
			label = "failed"
		}
		m.completions.WithLabelValues(label).Inc()
	}
}
