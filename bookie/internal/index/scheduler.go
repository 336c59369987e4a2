package index

import "github.com/cockroachdb/pebble/v2"

// scheduler says when pebble may compact: one compaction at a time, none for
// retryPause after a failure (pebble would begin the same one again at once),
// none before the index is open, and none once it has stopped. What was refused
// waits for poke: pebble itself does not ask again.
type scheduler struct {
	*pebble.ConcurrencyLimitScheduler
	g *guardFS
}

// newScheduler leaves out pebble's goroutine that looks every 100 ms whether
// more compactions are allowed: the number is fixed, and the goroutine would
// stay behind after an Open that fails.
func newScheduler(g *guardFS) scheduler {
	return scheduler{pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest(), g}
}

func (s scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if s.g.resting() {
		return false, nil
	}
	return s.ConcurrencyLimitScheduler.TrySchedule()
}

// poke starts the compactions that wait. The caller holds nothing of pebble.
func (s scheduler) poke() {
	if s.g.resting() {
		return
	}
	// The end of one, even of one that did nothing, grants the next.
	if ok, h := s.ConcurrencyLimitScheduler.TrySchedule(); ok {
		h.Done()
	}
}

func (s scheduler) Register(perCompaction int, db pebble.DBForCompaction) {
	s.ConcurrencyLimitScheduler.Register(perCompaction, restingDB{db, s.g})
}

// restingDB has nothing to compact while the index rests.
type restingDB struct {
	pebble.DBForCompaction
	g *guardFS
}

func (d restingDB) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	if d.g.resting() {
		return false, pebble.WaitingCompaction{}
	}
	return d.DBForCompaction.GetWaitingCompaction()
}
