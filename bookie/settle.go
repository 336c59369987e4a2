package bookie

import (
	"github.com/loglode/loglode/bookie/internal/journal"
)

// answer gathers the results of one sink.
type answer struct {
	sink    AddSink
	results []AddResult
}

// settled answers a journal group: each sink once, then whoever waits for
// records that are not adds. It runs on the journal's goroutine.
func (j *journalRef) settled(ws []journal.Waiter, g journal.Group, err error) {
	status, adds, n := statusOf(err), 0, 0
	for _, w := range ws {
		p, ok := w.(*pending)
		if !ok {
			continue
		}
		setStatus(p.results, status)
		adds += len(p.results)
		a := j.answerOf(p.sink, &n)
		a.results = append(a.results, p.results...)
		p.recycle()
	}
	for i := range j.answers[:n] {
		a := &j.answers[i]
		a.sink.AddsDone(a.results)
		a.sink, a.results = nil, a.results[:0]
	}
	for _, w := range ws {
		if _, ok := w.(*pending); !ok && w != nil {
			w.Done(err)
		}
	}
	j.b.metrics.group(g, adds, err)
	if err == nil && j.b.o.Events.Synced != nil {
		j.b.o.Events.Synced(SyncInfo{Journal: j.id, Adds: adds, Bytes: g.Bytes, Duration: g.Duration})
	}
}

// answerOf gives the answer of a sink among the first n, or a new one.
func (j *journalRef) answerOf(sink AddSink, n *int) *answer {
	for i := range j.answers[:*n] {
		if j.answers[i].sink == sink {
			return &j.answers[i]
		}
	}
	if *n == len(j.answers) {
		j.answers = append(j.answers, answer{})
	}
	a := &j.answers[*n]
	a.sink = sink
	*n++
	return a
}

// call waits for a record that is not an add.
type call struct {
	done chan error // buffered
	then func()     // on success, before done; may be nil
}

func newCall(then func()) *call { return &call{done: make(chan error, 1), then: then} }

// Done is called by the journal's goroutine.
func (c *call) Done(err error) {
	if err == nil && c.then != nil {
		c.then()
	}
	c.done <- err
}
