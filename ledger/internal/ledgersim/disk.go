package ledgersim

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// crash ends the process. Of the records not synced, a prefix survives.
func (b *bookie) crash() {
	if !b.up {
		return
	}
	b.s.stats.Crashes++
	b.up = false
	b.life++
	keep := b.s.rng.IntN(len(b.journal) + 1)
	b.s.tracef("%s crashes, %d of %d unsynced records survive", b.id, keep, len(b.journal))
	for i := range b.journal {
		o := &b.journal[i]
		if i < keep {
			b.persist(o)
		}
		if o.call >= 0 {
			b.s.release(o.call)
		}
	}
	b.journal, b.syncing = b.journal[:0], false
	b.s.hangUp(b)
}

// start replays the disk.
func (b *bookie) start() {
	if b.up || b.gone {
		return
	}
	b.s.tracef("%s starts", b.id)
	switch b.lostBy {
	case FeatLimbo:
		b.limbo()
	case FeatAmnesia:
		b.s.taint(b)
	}
	b.lostBy = 0
	b.up = true
	b.mem = b.mem[:0]
	for i := range b.disk {
		b.mem.of(i).assign(&b.disk[i])
		b.mem[i].explicit = 0
	}
}

// loseDisk empties the disk of a bookie, with what was not synced, and keeps
// what it held for the checker.
func (b *bookie) loseDisk() {
	b.crash()
	for n := range b.disk {
		d, lost := &b.disk[n], b.lost.of(n)
		for e := range d.entries {
			if c := d.entries[e]; c.payload != 0 {
				lost.put(bk.EntryID(e), c)
			}
		}
		d.clear()
	}
}

// loseBookie makes one bookie lose its disk, in a way that is on: it stays
// down, comes back and knows that it lost what it had, or comes back knowing
// nothing.
func (s *sim) loseBookie() {
	if s.lost >= s.prof.losses {
		return
	}
	b := s.bookies[s.rng.IntN(len(s.bookies))]
	var ways []Features
	for _, f := range []Features{FeatLimbo, FeatGone, FeatAmnesia} {
		if s.prof.on.has(f) {
			ways = append(ways, f)
		}
	}
	if b.gone || len(ways) == 0 {
		return
	}
	s.lost++
	s.stats.Lost++
	way := ways[s.rng.IntN(len(ways))]
	b.loseDisk()
	s.tracef("%s loses its disk: %s", b.id, way)
	b.gone = way == FeatGone
	b.lostBy = way
	s.after(1+s.rng.Int64N(s.prof.downMax), b.start)
}

// limbo marks every ledger whose metadata name the bookie: it may have held
// entries and a fence that are lost (before it serves anything).
func (b *bookie) limbo() {
	for _, l := range b.s.ledgers {
		if l.deleted || !names(l.meta, b) {
			continue
		}
		st := b.disk.of(l.n)
		st.known, st.limbo = true, true
		st.fenced = b.s.opts.Bug != BugLimboUnfenced
	}
}

// taint notes the ledgers that a bookie without a memory can break: those not
// closed that name it. What it had confirmed, and its fence, are gone, and it
// says so to nobody: no protocol can help.
func (s *sim) taint(b *bookie) {
	for _, l := range s.ledgers {
		if l.meta.State != quorum.StateClosed && names(l.meta, b) {
			l.tainted, l.taintedAt = true, s.now
		}
	}
}

// collect drops a deleted ledger, all but its fence.
func (b *bookie) collect(l *ledger) {
	for _, st := range []*stored{b.mem.of(l.n), b.disk.of(l.n)} {
		fenced := st.fenced && b.s.opts.Bug != BugNoTombstone
		st.clear()
		st.known, st.fenced = fenced, fenced
	}
}

func names(m quorum.Metadata, b *bookie) bool {
	for _, seg := range m.Segments {
		if containsBookie(seg.Ensemble, b.id) {
			return true
		}
	}
	return false
}
