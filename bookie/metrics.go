package bookie

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/loglode/loglode/bookie/internal/journal"
)

// metrics are what a bookie counts; they exist without a registerer too.
type metrics struct {
	reg  prometheus.Registerer
	list []prometheus.Collector

	adds, groups, groupBytes, journalErrors prometheus.Counter
	syncSeconds, groupAdds                  prometheus.Histogram
	flushes, flushErrors, flushBytes        prometheus.Counter
	flushSeconds                            prometheus.Histogram
	readErrors, corrupt                     prometheus.Counter
	collections, collectErrors              prometheus.Counter
	ledgersDropped, logBytesFreed, moved    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{reg: reg}
	m.adds = m.counter("adds_total", "Entries made durable by a journal.")
	m.groups = m.counter("journal_groups_total", "Journal groups, each one write and one sync.")
	m.groupBytes = m.counter("journal_bytes_total", "Bytes written to journals, padding included.")
	m.journalErrors = m.counter("journal_errors_total", "Journals that ended by a failed write or sync.")
	m.syncSeconds = m.histogram("journal_sync_seconds", "Write and sync of one journal group.", prometheus.ExponentialBuckets(50e-6, 2, 16))
	m.groupAdds = m.histogram("journal_group_adds", "Entries in one journal group.", prometheus.ExponentialBuckets(1, 2, 13))
	m.flushes = m.counter("flushes_total", "Flushes of a write cache.")
	m.flushErrors = m.counter("flush_errors_total", "Flushes that failed and are tried again.")
	m.flushBytes = m.counter("flush_bytes_total", "Bytes of entries moved to entry logs.")
	m.flushSeconds = m.histogram("flush_seconds", "One flush of a write cache.", prometheus.ExponentialBuckets(1e-3, 2, 15))
	m.readErrors = m.counter("read_errors_total", "Reads answered with an I/O error.")
	m.corrupt = m.counter("corrupt_total", "Damaged entries and index records met by reads.")
	m.collections = m.counter("collections_total", "Passes of the garbage collection.")
	m.collectErrors = m.counter("collection_errors_total", "Passes of the garbage collection that an error ended.")
	m.ledgersDropped = m.counter("ledgers_dropped_total", "Ledgers dropped, as the metadata did not have them any more.")
	m.logBytesFreed = m.counter("entrylog_freed_bytes_total", "Bytes of entry logs removed.")
	m.moved = m.counter("compaction_moved_bytes_total", "Bytes of entries moved by compaction.")
	if reg == nil {
		return m, nil
	}
	for i, c := range m.list {
		if err := reg.Register(c); err != nil {
			m.list = m.list[:i]
			m.unregister()
			return nil, fmt.Errorf("bookie metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "loglode", Subsystem: "bookie", Name: name, Help: help})
	m.list = append(m.list, c)
	return c
}

func (m *metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "loglode", Subsystem: "bookie", Name: name, Help: help, Buckets: buckets})
	m.list = append(m.list, h)
	return h
}

func (m *metrics) unregister() {
	if m.reg == nil {
		return
	}
	for _, c := range m.list {
		m.reg.Unregister(c)
	}
}

func (m *metrics) group(g journal.Group, adds int, err error) {
	if err != nil {
		return
	}
	m.adds.Add(float64(adds))
	m.groups.Inc()
	m.groupBytes.Add(float64(g.Bytes))
	m.syncSeconds.Observe(g.Duration.Seconds())
	m.groupAdds.Observe(float64(adds))
}

func (m *metrics) flushed(f FlushInfo) {
	if f.Err != nil {
		m.flushErrors.Inc()
		return
	}
	m.flushes.Inc()
	m.flushBytes.Add(float64(f.Bytes))
	m.flushSeconds.Observe(f.Duration.Seconds())
}

func (m *metrics) collected(i CollectInfo, err error) {
	m.collections.Inc()
	if err != nil {
		m.collectErrors.Inc()
	}
	m.ledgersDropped.Add(float64(i.Deleted))
	m.logBytesFreed.Add(float64(i.Freed))
	m.moved.Add(float64(i.Moved))
}
