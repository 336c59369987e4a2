package ledgersim

// Stats counts what happened in schedules.
type Stats struct {
	Schedules, Events, Pushed, Acked, Changes, Recoveries, Recovered, Read, Polls,
	Crashes, Lost, Ledgers, Deletes, Forces int
}

// Plus is the sum of both.
func (s Stats) Plus(o Stats) Stats {
	s.Schedules += o.Schedules
	s.Events += o.Events
	s.Pushed += o.Pushed
	s.Acked += o.Acked
	s.Changes += o.Changes
	s.Recoveries += o.Recoveries
	s.Recovered += o.Recovered
	s.Read += o.Read
	s.Polls += o.Polls
	s.Crashes += o.Crashes
	s.Lost += o.Lost
	s.Ledgers += o.Ledgers
	s.Deletes += o.Deletes
	s.Forces += o.Forces
	return s
}
