package ledgersim

import (
	"math/rand/v2"
	"strings"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// Features are what a schedule may hold. Every seed switches each on or off, so
// that what one feature hides in another shows in the seeds without it; a
// shrunk schedule has fewer of them.
type Features uint32

// The features.
const (
	FeatDrop       Features = 1 << iota // messages to and from bookies get lost
	FeatSlow                            // and take long, up to several time limits
	FeatTwice                           // and come twice
	FeatErrors                          // bookies answer with errors, having done the work or not
	FeatCrash                           // bookies crash and lose what is not synced
	FeatBurst                           // several crash at once
	FeatReadOnly                        // bookies take no adds for a while
	FeatCut                             // a client is cut off from some bookies
	FeatLag                             // a link holds its messages back
	FeatLateLink                        // a new client does not reach some bookies at first
	FeatPause                           // a client stands still, then goes on: a zombie
	FeatMetaLost                        // metadata requests or answers get lost: unknown outcomes
	FeatMetaSlow                        // and are applied late, after their time limit too
	FeatMetaTwice                       // a compare-and-set reaches the store twice
	FeatMetaStale                       // opens and watches read metadata of a while ago
	FeatSwap                            // re-replication swaps bookies of old segments
	FeatRecoverers                      // clients recover ledgers at any moment
	FeatRivals                          // two or three writers fight over the stream
	FeatReaders                         // readers tail, poll, and read closed ledgers
	FeatHedge                           // readers ask the next replica before one has answered
	FeatDelete                          // ledgers are deleted, also under their writer; bookies collect them
	FeatLimbo                           // a bookie loses its disk and knows it: "unknown"
	FeatGone                            // a bookie loses its disk and stays down
	FeatAmnesia                         // a bookie loses its disk and comes back with the same id, knowing nothing
	FeatDeferred                        // ledgers with deferred sync and forces
	FeatPublish                         // writers publish their LAC (explicit LAC)
	FeatLateChange                      // ensembles are changed late
	FeatConnection                      // links are connections: a restart of the bookie shows
	featEnd
)

var featureNames = [...]string{
	"drop", "slow", "twice", "errors", "crash", "burst", "read-only", "cut", "lag", "late-link", "pause", "meta-lost",
	"meta-slow", "meta-twice", "meta-stale", "swap", "recoverers", "rivals", "readers", "hedge", "delete", "limbo", "gone",
	"amnesia", "deferred", "publish", "late-change", "connection",
}

func (f Features) has(o Features) bool { return f&o != 0 }

func (f Features) String() string {
	var on []string
	for i, name := range featureNames {
		if f.has(1 << i) {
			on = append(on, name)
		}
	}
	return strings.Join(on, " ")
}

// duelQuorums are the sizes of duels.
var duelQuorums = []bk.Quorum{
	{Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 3, Write: 3, Ack: 2}, {Ensemble: 3, Write: 2, Ack: 2},
	{Ensemble: 2, Write: 2, Ack: 2}, {Ensemble: 4, Write: 2, Ack: 2}, {Ensemble: 4, Write: 3, Ack: 2},
	{Ensemble: 3, Write: 3, Ack: 3},
}

// bookiesMax is how many bookies a world has at most.
const bookiesMax = 10

// kind is what sort of story a schedule tells.
type kind uint8

const (
	fight   kind = iota // writers over a stream, for long
	duel                // a writer with recoverers that come while its adds are in flight
	zombie              // a writer stands still while the ledger is recovered, then goes on
	trouble             // a writer changes its ensemble again and again
)

// ticksMin is the shortest time of faults.
const ticksMin = 10

// profile is the weather of one schedule.
type profile struct {
	on           Features
	kind         kind
	quorum       bk.Quorum
	bookies      int
	writers      int
	losses       int              // bookies that may lose their disk: at most Qa - 1
	chaos        int64            // ticks until the faults end
	lives        int              // of a writer
	drop, slow   [opCount]float64 // of messages, by what they are about; slow takes up to slowMax
	twice        float64
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
	metaTwice    float64
	metaStale    float64
	pauseEvery   int64
	swapEvery    int64
	deleteEvery  int64
	loseEvery    int64
	readOnly     int64
	policy       quorum.Policy
	pushesMax    int
	outstanding  int
	pushGap      int64 // ticks between bursts of pushes, at most
	stealMax     int64 // ticks until a writer that lost the stream takes it back
	readers      int
	recoverEvery int64
	metaFast     bool // metadata answer at once
	windowMax    int
	requestLimit int64 // ticks until a request times out
}

// weather draws the profile of a seed. It draws everything and then leaves out
// what is off, so that a schedule without a feature has the weather of the seed
// in all else.
func (s *sim) weather() profile {
	r := s.rng
	var p profile
	switch n := r.IntN(10); {
	case n < 4:
		p = drawDuel(r)
	case n < 5:
		p = drawZombie(r)
	case n < 6:
		p = drawTrouble(r)
	default:
		p = drawFight(r)
	}
	p.on &^= s.opts.Off
	if p.on.has(FeatAmnesia|FeatDeferred) || p.on.has(FeatLimbo) && p.on.has(FeatDelete) {
		p.on |= FeatConnection // what is promised about these rests on connections
	}
	if s.opts.Ticks > 0 {
		p.chaos = max(s.opts.Ticks, ticksMin)
	}
	p.pushGap = 2*p.delayMax + 4
	if p.kind == zombie {
		p.pushGap *= 5
	}
	p.leaveOut()
	q := p.quorum
	spare := pick(r, 0, 1, 1, 2, 3)
	switch p.kind {
	case trouble:
		spare = 1
	case zombie:
		spare = 0
	}
	if p.on.has(FeatLimbo | FeatGone | FeatAmnesia) {
		p.losses = min(q.Ack-1, 3)
	}
	p.bookies = min(q.Ensemble+p.losses+spare, bookiesMax)
	return p
}

// leaveOut takes what is off out of the profile.
func (p *profile) leaveOut() {
	off := func(f Features) bool { return !p.on.has(f) }
	for o := range opCount {
		if off(FeatDrop) {
			p.drop[o] = 0
		}
		if off(FeatSlow) {
			p.slow[o] = 0
		}
	}
	for _, x := range []struct {
		feature Features
		chance  *float64
	}{
		{FeatTwice, &p.twice}, {FeatErrors, &p.fault}, {FeatLateLink, &p.lateLink}, {FeatMetaLost, &p.metaLost},
		{FeatMetaSlow, &p.metaSlow}, {FeatMetaTwice, &p.metaTwice}, {FeatMetaStale, &p.metaStale},
	} {
		if off(x.feature) {
			*x.chance = 0
		}
	}
	for _, x := range []struct {
		feature Features
		every   *int64
	}{
		{FeatCrash, &p.crashEvery}, {FeatReadOnly, &p.readOnly}, {FeatCut, &p.cutEvery}, {FeatLag, &p.lagEvery},
		{FeatPause, &p.pauseEvery}, {FeatSwap, &p.swapEvery}, {FeatRecoverers, &p.recoverEvery}, {FeatDelete, &p.deleteEvery},
		{FeatLimbo | FeatGone | FeatAmnesia, &p.loseEvery},
	} {
		if off(x.feature) {
			*x.every = 0
		}
	}
	if off(FeatReaders) {
		p.readers = 0
	}
	if off(FeatRivals) {
		p.writers = 1
	}
	if off(FeatLateChange) && p.policy == quorum.ReplaceLate {
		p.policy = quorum.ReplaceOrGoOn
	}
}

// drawFeatures switches each feature on or off. Half of all schedules are without
// the rarer troubles, which make others rare.
func drawFeatures(r *rand.Rand) Features {
	f := Features(r.Uint32()) & (featEnd - 1)
	if r.IntN(2) == 0 {
		f &^= FeatLimbo | FeatGone | FeatAmnesia | FeatDeferred | FeatDelete
	}
	return f
}

// drawFight draws a long fight of writers over a stream.
func drawFight(r *rand.Rand) profile {
	p := profile{
		on:          drawFeatures(r),
		chaos:       pick(r, int64(800), 1500, 3000),
		writers:     2 + r.IntN(2),
		lives:       6,
		twice:       pick(r, 0.02, 0.1),
		delayMax:    pick(r, int64(2), 10, 40),
		fault:       pick(r, 0.01, 0.05),
		refuse:      pick(r, 0, 0.7, 1),
		syncMax:     pick(r, int64(1), 10, 60),
		crashEvery:  pick(r, int64(150), 300, 800),
		downMax:     pick(r, int64(50), 300, 1000),
		cutEvery:    pick(r, int64(300), 800),
		metaLost:    pick(r, 0.1, 0.3),
		metaSlow:    pick(r, 0.1, 0.3, 0.5),
		metaTwice:   pick(r, 0.1, 0.5),
		metaStale:   pick(r, 0.1, 0.5),
		pauseEvery:  500,
		swapEvery:   400,
		deleteEvery: pick(r, int64(200), 600),
		loseEvery:   pick(r, int64(100), 400, 1000),
		readOnly:    pick(r, int64(200), 800),
		policy:      pick(r, quorum.ReplaceOrFail, quorum.ReplaceOrGoOn, quorum.ReplaceLate),
		pushesMax:   pick(r, 3, 30, 300),
		outstanding: pick(r, 1, 4, 10),
		stealMax:    pick(r, int64(100), 400, 1200),
		readers:     1 + r.IntN(2),
		lagEvery:    pick(r, int64(40), 200),
		lateLink:    pick(r, 0.2, 0.5),
		windowMax:   pick(r, 1, 2, 8),
	}
	p.recoverEvery = pick(r, int64(150), 500)
	p.quorum.Ensemble = 1 + r.IntN(6)
	p.quorum.Write = 1 + r.IntN(p.quorum.Ensemble)
	p.quorum.Ack = 1 + r.IntN(p.quorum.Write)
	if r.IntN(2) == 0 { // half of all as people use them
		p.quorum = pick(r, duelQuorums...)
	}
	drop := pick(r, 0.01, 0.05, 0.2)
	slow := pick(r, 0.01, 0.1, 0.3)
	for o := range opCount {
		p.drop[o] = drop * float64(r.IntN(3))
		p.slow[o] = slow * float64(r.IntN(3))
	}
	p.requestLimit = 2*p.delayMax + 2*p.syncMax + pick(r, int64(20), 80, 200)
	p.slowMax = pick(r, p.requestLimit/2, p.requestLimit, 4*p.requestLimit, 1500)
	return p
}

// drawDuel draws a short fight: one writer of a few entries and recoverers that
// come while its adds are in flight, with every message at its own speed and
// many fences lost. Whatever order of the messages can break, it finds.
func drawDuel(r *rand.Rand) profile {
	p := profile{
		on:          drawFeatures(r) | FeatDrop | FeatSlow,
		kind:        duel,
		quorum:      pick(r, duelQuorums...),
		chaos:       600,
		writers:     1,
		lives:       1,
		delayMax:    pick(r, int64(5), 20),
		syncMax:     1,
		refuse:      0.5,
		policy:      pick(r, quorum.ReplaceOrFail, quorum.ReplaceOrGoOn),
		pushesMax:   pick(r, 4, 30),
		outstanding: pick(r, 2, 8),
		stealMax:    100,
		readers:     1,
		windowMax:   pick(r, 1, 8),
		crashEvery:  pick(r, int64(0), 0, 40),
		downMax:     10,
		loseEvery:   pick(r, int64(15), 50),
		metaFast:    true,
	}
	p.drop[opLACRead] = pick(r, 0.1, 0.3, 0.6)
	p.slow[opAdd] = pick(r, 0.2, 0.5)
	p.slowMax = 10 * p.delayMax
	p.drop[opFenceRead] = pick(r, 0, 0.1, 0.5)
	p.drop[opAdd] = pick(r, 0, 0.05)
	p.drop[opRecoveryAdd] = pick(r, 0, 0, 0.3)
	p.requestLimit = 12*p.delayMax + 20
	return p
}

// drawZombie draws a duel in which the writer stands still after a few entries,
// and bookies lose what they knew, or the ledger is deleted, before it goes on.
func drawZombie(r *rand.Rand) profile {
	p := drawDuel(r)
	p.kind = zombie
	p.on = p.on&^(FeatDelete|FeatLimbo|FeatAmnesia|FeatCrash|FeatReadOnly) | pick(r, FeatAmnesia, FeatLimbo, FeatDelete, FeatCrash)
	if p.on.has(FeatCrash) && r.IntN(2) == 0 {
		p.on |= FeatDeferred
		p.syncMax = 60
	}
	p.chaos = 900
	p.pushesMax = 30
	p.slow[opAdd] = 0.1
	p.drop[opAdd] = 0
	p.drop[opLACRead] = pick(r, 0.3, 0.6)
	p.drop[opFenceRead] = pick(r, 0.1, 0.5, 0.7)
	p.loseEvery = 0
	p.crashEvery = pick(r, int64(40), 100)
	p.deleteEvery = pick(r, int64(60), 150)
	return p
}

// drawTrouble draws one writer whose bookies fail often, with one to spare, and
// whose metadata are often written after it has given up on them.
func drawTrouble(r *rand.Rand) profile {
	p := drawFight(r)
	p.kind = trouble
	p.on |= FeatCrash | FeatMetaSlow
	p.writers = 1
	p.policy = pick(r, quorum.ReplaceOrGoOn, quorum.ReplaceLate)
	p.crashEvery = pick(r, int64(60), 150)
	p.downMax = pick(r, int64(100), 300)
	p.metaSlow = 0.4
	p.slowMax = 4 * p.requestLimit
	p.pushesMax = 300
	p.quorum = pick(r, bk.Quorum{Ensemble: 3, Write: 3, Ack: 2}, bk.Quorum{Ensemble: 3, Write: 3, Ack: 1}, bk.Quorum{Ensemble: 4, Write: 3, Ack: 2})
	return p
}
