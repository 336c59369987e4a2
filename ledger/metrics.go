package ledger

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counters of a client. Nothing here is counted per entry:
// batches add up.
type metrics struct {
	entriesAdded     prometheus.Counter
	bytesAdded       prometheus.Counter
	addsFailed       prometheus.Counter
	ensembleChanges  prometheus.Counter
	fenced           prometheus.Counter
	recoveries       prometheus.Counter
	entriesRead      prometheus.Counter
	readFailovers    prometheus.Counter
	speculativeReads prometheus.Counter
	lacWrites        prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{}
	for _, row := range []struct {
		to         *prometheus.Counter
		name, help string
	}{
		{&m.entriesAdded, "entries_added_total", "Entries confirmed to writers."},
		{&m.bytesAdded, "bytes_added_total", "Payload bytes confirmed to writers."},
		{&m.addsFailed, "adds_failed_total", "Entries failed to writers; recovery may still keep them."},
		{&m.ensembleChanges, "ensemble_changes_total", "Ensemble changes that are in the metadata."},
		{&m.fenced, "fenced_total", "Writers that found their ledger fenced."},
		{&m.recoveries, "recoveries_total", "Ledgers closed by recovery."},
		{&m.entriesRead, "entries_read_total", "Entries handed to readers."},
		{&m.readFailovers, "read_failovers_total", "Copies that failed a read, so that the next was asked."},
		{&m.speculativeReads, "speculative_reads_total", "Replicas asked because the one before was silent."},
		{&m.lacWrites, "lac_writes_total", "Times an idle writer told the bookies its LAC."},
	} {
		c := prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "loglode", Subsystem: "ledger", Name: row.name, Help: row.help,
		})
		*row.to = c
		if reg == nil {
			continue
		}
		err := reg.Register(c)
		var shared prometheus.AlreadyRegisteredError
		if errors.As(err, &shared) {
			// Clients of one process add up in one set of counters. It stays in
			// the registry: the sums of a client that is gone still count.
			if old, ok := shared.ExistingCollector.(prometheus.Counter); ok {
				*row.to = old
				continue
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}
