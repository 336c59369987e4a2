package ledgersim

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// quorums are the sizes simulated; the first six are for duels.
var quorums = []bk.Quorum{
	{Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 3, Write: 2, Ack: 2},
	{Ensemble: 2, Write: 2, Ack: 2}, {Ensemble: 4, Write: 2, Ack: 2}, {Ensemble: 4, Write: 3, Ack: 2},
	{Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 5, Write: 3, Ack: 3},
	{Ensemble: 5, Write: 5, Ack: 3}, {Ensemble: 2, Write: 2, Ack: 1}, {Ensemble: 5, Write: 3, Ack: 2},
}

// profile is the weather of one schedule: every seed has its own, so that rare
// combinations are common in some seeds.
type profile struct {
	chaos        int64            // ticks until peace
	lives        int              // of a writer
	drop, slow   [opCount]float64 // of messages, by what they are about; slow takes up to slowMax
	dup          float64
	delayMax     int64
	slowMax      int64
	fault        float64 // of requests a bookie answers with an error
	refuse       float64 // of requests to a down bookie that fail at once
	syncMax      int64
	crashEvery   int64 // mean ticks between bookie crashes, 0 for none
	downMax      int64
	cutEvery     int64   // mean ticks between partitions, 0 for none
	lagEvery     int64   // mean ticks between links that hold back, 0 for none
	lateLink     float64 // of links that work only a while after the client has come
	metaLost     float64
	metaSlow     float64
	pauseEvery   int64
	swapEvery    int64
	policy       quorum.Policy
	pushesMax    int
	outstanding  int
	stealMax     int64 // ticks until a writer that lost the stream takes it back
	readers      int
	recoverEvery int64
	metaFast     bool // metadata answer at once
	windowMax    int
	requestLimit int64 // ticks until a request times out
}

// weather draws a long fight over a stream, with all kinds of faults.
func (s *sim) weather() profile {
	p := profile{
		chaos: 4000, lives: 6,
		dup:          pick(s, []float64{0, 0, 0.05}),
		delayMax:     pick(s, []int64{2, 10, 40}),
		fault:        pick(s, []float64{0, 0, 0.01, 0.05}),
		refuse:       pick(s, []float64{0, 0.7, 1}),
		syncMax:      pick(s, []int64{1, 10, 60}),
		crashEvery:   pick(s, []int64{0, 300, 800}),
		downMax:      pick(s, []int64{50, 300, 1000}),
		cutEvery:     pick(s, []int64{0, 300, 800}),
		metaLost:     pick(s, []float64{0, 0, 0.1, 0.3}),
		metaSlow:     pick(s, []float64{0, 0.1, 0.3}),
		pauseEvery:   pick(s, []int64{0, 0, 500}),
		swapEvery:    pick(s, []int64{0, 0, 400}),
		policy:       pick(s, []quorum.Policy{quorum.ReplaceOrFail, quorum.ReplaceOrGoOn, quorum.ReplaceLate}),
		pushesMax:    pick(s, []int{3, 30, 300}),
		outstanding:  pick(s, []int{1, 4, 10}),
		stealMax:     pick(s, []int64{100, 400, 1200}),
		readers:      s.rng.IntN(3),
		recoverEvery: pick(s, []int64{0, 150, 500}),
		lagEvery:     pick(s, []int64{0, 40, 200}),
		lateLink:     pick(s, []float64{0, 0.2, 0.5}),
		windowMax:    pick(s, []int{1, 2, 8}),
	}
	drop := pick(s, []float64{0, 0.01, 0.05, 0.2})
	slow := pick(s, []float64{0, 0.01, 0.1, 0.3})
	for o := range opCount {
		p.drop[o] = drop * float64(s.rng.IntN(3))
		p.slow[o] = slow * float64(s.rng.IntN(3))
	}
	p.requestLimit = 2*p.delayMax + 2*p.syncMax + pick(s, []int64{20, 80, 200})
	p.slowMax = pick(s, []int64{p.requestLimit / 2, p.requestLimit, 4 * p.requestLimit, 1500})
	return p
}

// duel draws a short fight: one writer of a few entries and recoverers that come
// while its adds are in flight, with every message at its own speed and many
// fences lost. Whatever order of the messages can break, it finds.
func (s *sim) duel() profile {
	p := profile{
		chaos: 600, lives: 1,
		delayMax:    pick(s, []int64{5, 20}),
		syncMax:     1,
		refuse:      0.5,
		policy:      pick(s, []quorum.Policy{quorum.ReplaceOrFail, quorum.ReplaceOrGoOn}),
		pushesMax:   pick(s, []int{4, 30}),
		outstanding: pick(s, []int{2, 8}),
		stealMax:    100,
		readers:     s.rng.IntN(2),
		windowMax:   pick(s, []int{1, 8}),
		crashEvery:  pick(s, []int64{0, 0, 40}),
		downMax:     10,
		metaFast:    true,
	}
	p.drop[opLACRead] = pick(s, []float64{0.1, 0.3, 0.6})
	p.slow[opAdd] = pick(s, []float64{0.2, 0.5})
	p.slowMax = 10 * p.delayMax
	p.drop[opFenceRead] = pick(s, []float64{0, 0.1, 0.5})
	p.drop[opAdd] = pick(s, []float64{0, 0.05})
	p.drop[opRecoveryAdd] = pick(s, []float64{0, 0, 0.3})
	p.requestLimit = 12*p.delayMax + 20
	return p
}
