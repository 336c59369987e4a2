package conn

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// How long what is known of a bookie counts.
const (
	// shunned is how long reads ask a bookie last that failed one.
	shunned = 5 * time.Second
	// Bounds of a quarantine. It doubles when the bookie fails again within
	// quarantineMemory of the last one.
	quarantineMin    = 5 * time.Second
	quarantineMax    = 40 * time.Second
	quarantineMemory = time.Minute
	// probeEvery is how often one read tries a bookie that others are better
	// than.
	probeEvery = time.Second
	// A bookie is far when its answers take longer than farTimes those of the
	// best one, and farMore besides.
	farTimes = 3
	farMore  = 5 * time.Millisecond
)

// Rank says how good a choice a bookie is for a read, the lowest first.
type Rank uint8

// The ranks.
const (
	RankNear Rank = iota // nothing is wrong with it
	RankFar              // it answers, much slower than the best
	RankSlow             // a read did not wait for it, and it has answered none sent since
	RankBad              // it failed a short while ago
)

// health is what one client saw of a bookie.
type health struct {
	reads, batches latency

	// Times are nanoseconds since the pool was made, plus one; 0 = never.
	failedAt atomic.Int64 // a connection, an answer or a copy failed last
	slowAt   atomic.Int64 // a read did not wait for the bookie last
	heardAt  atomic.Int64 // the last read that was answered was sent
	probedAt atomic.Int64 // a read tried the bookie last

	mu     sync.Mutex // guards all below
	until  time.Duration
	period time.Duration
}

// fail notes a failure at now. Failures in the course of one quarantine are one.
func (h *health) fail(now time.Duration) {
	h.failedAt.Store(int64(now) + 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.period > 0 && now < h.until:
		return
	case h.period == 0 || now-h.until > quarantineMemory:
		h.period = quarantineMin
	default:
		h.period = min(2*h.period, quarantineMax)
	}
	h.until = now + h.period
}

func (h *health) quarantined(now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.period > 0 && now < h.until
}

// answered notes the answer to a read sent at sent; ok tells that it brought
// data. It is called by one goroutine at a time.
func (h *health) answered(batch bool, sent, now time.Duration, ok bool) {
	h.heardAt.Store(int64(sent) + 1)
	if !ok {
		return // how fast it fails is no matter
	}
	l := &h.reads
	if batch {
		l = &h.batches
	}
	l.add(now-sent, now)
}

func (h *health) rank(batch bool, best, now time.Duration) Rank {
	if at := h.failedAt.Load(); at != 0 && now-time.Duration(at) < shunned {
		return RankBad
	}
	if h.slowAt.Load() > h.heardAt.Load() {
		return RankSlow
	}
	if mean := h.meanOf(batch); best > 0 && mean > farTimes*best && mean > best+farMore {
		return RankFar
	}
	return RankNear
}

// probe is true once every probeEvery.
func (h *health) probe(now time.Duration) bool {
	at := h.probedAt.Load()
	return (at == 0 || now-time.Duration(at) >= probeEvery) && h.probedAt.CompareAndSwap(at, int64(now)+1)
}

func (h *health) meanOf(batch bool) time.Duration {
	if batch {
		return time.Duration(h.batches.mean.Load())
	}
	return time.Duration(h.reads.mean.Load())
}

// latency measures how long answers take. add is for one goroutine at a time,
// the results for any.
type latency struct {
	counts  [latencyBuckets]uint16
	total   int
	fresh   int // since the results were computed
	addedAt time.Duration

	mean atomic.Int64 // nanoseconds, moving; 0 = nothing measured
	tail atomic.Int64 // nanoseconds that 99 of 100 answers take at most; 0 = too few measured
}

const (
	// A bucket is a quarter of a power of two of microseconds.
	latencyBuckets = 4 * 27 // up to more than a minute
	latencyMin     = 32     // answers before the tail says anything
	latencyMax     = 1024   // answers remembered; then all weigh half
	latencyEvery   = 16     // answers between two computations
	// restart: a mean older than this says nothing about now.
	restart = probeEvery / 2
)

func (l *latency) add(d, now time.Duration) {
	if old := time.Duration(l.mean.Load()); old > 0 && now-l.addedAt < restart {
		d8 := old + (d-old)/8
		l.mean.Store(int64(max(d8, 1)))
	} else {
		l.mean.Store(int64(max(d, 1)))
	}
	l.addedAt = now
	l.counts[bucketOf(d)]++
	l.total++
	l.fresh++
	if l.total < latencyMin || l.fresh < latencyEvery && l.tail.Load() > 0 {
		return
	}
	l.fresh = 0
	l.tail.Store(int64(l.quantile()))
	if l.total >= latencyMax {
		l.total = 0
		for i := range l.counts {
			l.counts[i] /= 2
			l.total += int(l.counts[i])
		}
	}
}

// quantile is an upper bound of 99 of 100 answers.
func (l *latency) quantile() time.Duration {
	above := l.total / 100
	for i := latencyBuckets - 1; i > 0; i-- {
		if above -= int(l.counts[i]); above < 0 {
			return bucketEnd(i)
		}
	}
	return bucketEnd(0)
}

// bucketOf gives the bucket of a latency: exponent and two bits behind the first.
func bucketOf(d time.Duration) int {
	us := uint64(max(d, 0)/time.Microsecond) + 4
	exp := bits.Len64(us) - 3
	return min(exp*4+int(us>>uint(exp))&3, latencyBuckets-1)
}

// bucketEnd is the least latency above those of a bucket.
func bucketEnd(i int) time.Duration {
	return time.Duration(uint64(4+i%4+1)<<uint(i/4)-4) * time.Microsecond
}

// NoteFailure notes that the bookie failed just now: reads ask it last, and it is in
// quarantine.
func (b *Bookie) NoteFailure() { b.fail(b.now()) }

// NoteBadCopy notes that the bookie could not give a good copy of an entry:
// reads ask it last for a while.
func (b *Bookie) NoteBadCopy() { b.failedAt.Store(int64(b.now()) + 1) }

// NoteSlow notes that a read did not wait for the bookie any longer. It counts
// until the bookie answers a read sent later.
func (b *Bookie) NoteSlow() {
	now := int64(b.now()) + 1
	b.slowAt.Store(now)
	b.probedAt.Store(now)
}

// Quarantined reports whether the bookie failed so lately that others are to be
// preferred to it for new entries.
func (b *Bookie) Quarantined() bool { return b.quarantined(b.now()) }

// Rank says how good a choice the bookie is for a read, or a batch read, where
// answers of the best one take best on average (0: not known).
func (b *Bookie) Rank(batch bool, best time.Duration) Rank { return b.rank(batch, best, b.now()) }

// Probe reports whether to try the bookie though others are better: true for one
// read a second.
func (b *Bookie) Probe() bool { return b.probe(b.now()) }

// Mean is how long answers to reads, or batch reads, took lately on average; 0
// if that is not known.
func (b *Bookie) Mean(batch bool) time.Duration { return b.meanOf(batch) }

// Tail is how long 99 of 100 answers take at most; 0 if that is not known.
func (b *Bookie) Tail(batch bool) time.Duration {
	if batch {
		return time.Duration(b.batches.tail.Load())
	}
	return time.Duration(b.reads.tail.Load())
}

func (b *Bookie) now() time.Duration { return b.links[v2].pool.now() }
