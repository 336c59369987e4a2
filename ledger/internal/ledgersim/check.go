package ledgersim

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// swapper is the name under which re-replication writes metadata.
const swapper = "swap"

// checkTransition checks one write of a ledger's metadata before it is applied
// (I2, I6; rules 16, 37, 49).
func (s *sim) checkTransition(l *ledger, m quorum.Metadata, who string) {
	old := l.meta
	if m.State < old.State {
		s.violate("I2", "%s moves L%d from %s back to %s", who, l.n, old.State, m.State)
		return
	}
	if old.State == quorum.StateClosed && (m.LastEntry != old.LastEntry || m.Length != old.Length) {
		s.violate("I2", "%s closes L%d again: %s after %s", who, l.n, metaString(m), metaString(old))
		return
	}
	if err := checkSegments(old, m, who); err != nil {
		s.violate("I6", "%s writes L%d: %v: %s after %s", who, l.n, err, metaString(m), metaString(old))
		return
	}
	if m.State == quorum.StateClosed && old.State != quorum.StateClosed {
		s.checkClose(l, m, who)
	}
}

func checkSegments(old, m quorum.Metadata, who string) error {
	prev := bk.InvalidEntryID
	for _, seg := range m.Segments {
		if seg.First <= prev {
			return fmt.Errorf("segments do not go up")
		}
		prev = seg.First
	}
	if len(m.Segments) < len(old.Segments) {
		return fmt.Errorf("a segment was dropped")
	}
	for i, seg := range old.Segments {
		last := i == len(old.Segments)-1
		switch {
		case seg.First != m.Segments[i].First:
			return fmt.Errorf("segment %d was moved", i)
		case seg.Equal(m.Segments[i]) || who == swapper || last && m.State != quorum.StateInRecovery:
		default:
			return fmt.Errorf("segment %d was changed", i)
		}
	}
	if m.State == quorum.StateInRecovery && len(m.Segments) != len(old.Segments) {
		return fmt.Errorf("a segment was added in recovery")
	}
	return nil
}

// checkClose checks that a close keeps every acknowledged entry, and names an
// ensemble for every entry that holds an ack quorum of good copies.
func (s *sim) checkClose(l *ledger, m quorum.Metadata, who string) {
	if m.LastEntry < l.acked && !l.tainted {
		s.violate("I1", "%s closes L%d at %d, entry %d was acknowledged", who, l.n, m.LastEntry, l.acked)
		return
	}
	if int(m.LastEntry) >= len(l.pushed) {
		s.violate("I2", "%s closes L%d at %d, %d entries were pushed", who, l.n, m.LastEntry, len(l.pushed))
		return
	}
	var want int64
	if m.LastEntry >= 0 {
		want = l.pushed[m.LastEntry].length
	}
	if m.Length != want {
		s.violate("rule 38", "%s closes L%d at %d with length %d, want %d", who, l.n, m.LastEntry, m.Length, want)
		return
	}
	if m.LastEntry < l.readerLAC && !l.tainted {
		s.violate("I4", "%s closes L%d at %d, a reader was at %d", who, l.n, m.LastEntry, l.readerLAC)
		return
	}
	for e := range m.LastEntry + 1 {
		if n := s.copies(l, m, e); n < s.q.Ack {
			s.violate("I6", "%s closes L%d at %d with %d good copies of entry %d: %s", who, l.n, m.LastEntry, n, e, metaString(m))
			return
		}
	}
}

// copies counts the good copies of e on the disks that m names, with those on
// disks that were lost since.
func (s *sim) copies(l *ledger, m quorum.Metadata, e bk.EntryID) int {
	seg := &m.Segments[m.SegmentOf(e)]
	p := int(uint64(e) % uint64(s.q.Ensemble))
	n := 0
	for range s.q.Write {
		b := s.bookie(seg.Ensemble[p])
		if s.good(l, e, &b.disk) || s.lost > 0 && s.good(l, e, &b.lost) {
			n++
		}
		if p++; p == s.q.Ensemble {
			p = 0
		}
	}
	return n
}

func (s *sim) good(l *ledger, e bk.EntryID, on *shelf) bool {
	c, ok := on.of(l.n).get(e)
	return ok && c.payload == l.pushed[e].payload && c.length == l.pushed[e].length
}

// checkCalm checks, when faults are over and all that was under way had its
// time, that every writer and recovery got where it wanted to be (I7).
func (s *sim) checkCalm() {
	for _, w := range s.writers {
		switch {
		case s.broken != nil:
			return
		case w.c.dead || w.finished:
		case w.core.Err() != nil:
			s.violate("I7", "%s does not end with L%d in the calm: %v", w.c.name, w.l.n, w.core.Err())
		case w.core.Pending() > 0:
			s.violate("I7", "%s waits for entry %d of L%d in the calm", w.c.name, w.core.Completed()+1, w.l.n)
		}
	}
	for _, r := range s.recoverers {
		if done, _ := r.core.Finished(); !done && !r.c.dead {
			s.violate("I7", "%s does not end with its recovery of L%d in the calm", r.c.name, r.l.n)
		}
	}
}

// checkEnd checks the world after peace: every ledger was recovered, and all
// agree on it.
func (s *sim) checkEnd() {
	for _, l := range s.ledgers {
		if s.broken != nil {
			return
		}
		if l.deleted {
			continue
		}
		m := l.meta
		if m.State != quorum.StateClosed {
			if !l.tainted {
				s.violate("I7", "L%d is %s in peace", l.n, metaString(m))
			}
			continue
		}
		if (m.LastEntry < l.acked || m.LastEntry < l.readerLAC) && !l.tainted {
			s.violate("I1", "L%d is closed at %d; acknowledged %d, read %d", l.n, m.LastEntry, l.acked, l.readerLAC)
			return
		}
		for _, r := range l.recoveries {
			if r.State != m.State || r.LastEntry != m.LastEntry || r.Length != m.Length {
				s.violate("I2", "a recovery of L%d ended with %s, stored is %s", l.n, metaString(r), metaString(m))
				return
			}
		}
		s.checkReadable(l)
	}
}

// checkReadable reads every entry as a reader would, with the Read core, from
// what is on the disks.
func (s *sim) checkReadable(l *ledger) {
	var r quorum.Read
	for e := range l.meta.LastEntry + 1 {
		if n := s.copies(l, l.meta, e); n < s.q.Ack {
			s.violate("I1", "entry %d of L%d has %d good copies in the end: %s", e, l.n, n, metaString(l.meta))
			return
		}
		seg := l.meta.Segments[l.meta.SegmentOf(e)]
		r.Start(s.q, e, nil)
		verdict := quorum.ReadPending
		for pos, ok := r.Next(); ok; pos, ok = r.Next() {
			b := s.bookie(seg.Ensemble[pos])
			_, has := b.disk.of(l.n).get(e)
			switch {
			case b.gone:
				verdict = r.Answer(pos, bk.ErrBookieUnavailable)
			case has:
				verdict = r.Answer(pos, nil)
			default:
				verdict = r.Answer(pos, bk.ErrNoSuchEntry)
			}
		}
		if verdict != quorum.ReadDone {
			s.violate("I1", "entry %d of L%d cannot be read: %v", e, l.n, r.Err())
			return
		}
	}
}
