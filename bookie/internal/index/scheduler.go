package index

import "github.com/cockroachdb/pebble/v2"

// scheduler says when pebble may compact: one compaction at a time, none for
// retryPause after a failure (pebble would begin the same one again at once),
// and none once the index has stopped. The next flush asks again.
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
