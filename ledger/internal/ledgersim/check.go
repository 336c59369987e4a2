package ledgersim

import (
	"errors"
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
	if m.LastEntry < l.acked {
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
	if m.LastEntry < l.readerLAC {
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

// copies counts the good copies of e on the disks that m names.
func (s *sim) copies(l *ledger, m quorum.Metadata, e bk.EntryID) int {
	seg := m.Segments[m.SegmentOf(e)]
	n := 0
	for k := range s.q.Write {
		b := s.bookie(seg.Ensemble[quorum.Position(s.q, e, k)])
		c, ok := b.onDisk(l.n).get(e)
		if ok && c.payload == l.pushed[e].payload && c.length == l.pushed[e].length {
			n++
		}
	}
	return n
}

// checkAck checks an entry that a writer reports as added.
func (s *sim) checkAck(l *ledger, e bk.EntryID, who string) {
	s.stats.Acked++
	s.tracef("%s acknowledges %d of L%d", who, e, l.n)
	if e != l.acked+1 {
		s.violate("I5", "%s acknowledges entry %d of L%d after %d", who, e, l.n, l.acked)
		return
	}
	l.acked = e
	if n := s.copies(l, l.meta, e); n < s.q.Ack {
		s.violate("I6", "%s acknowledges entry %d of L%d, %d good copies are where %s says", who, e, l.n, n, metaString(l.meta))
	}
	if l.meta.State == quorum.StateClosed && l.meta.LastEntry < e {
		s.violate("I3", "%s acknowledges entry %d of L%d, which is closed at %d", who, e, l.n, l.meta.LastEntry)
	}
	if l.fencedAt >= 0 && l.pushed[e].at > l.fencedAt {
		s.violate("I3", "%s acknowledges entry %d of L%d, pushed at %d after the fence at %d", who, e, l.n, l.pushed[e].at, l.fencedAt)
	}
}

// noteReading notes that a recovery reads entries: it has fenced every write
// set, so nothing pushed from now on may be acknowledged.
func (s *sim) noteReading(l *ledger, a quorum.Action) {
	if l.fencedAt < 0 && l.meta.State == quorum.StateInRecovery {
		s.tracef("L%d is fenced", l.n)
		l.fencedAt = s.now
	}
}

// checkWriterEnd checks what a writer believes at its end.
func (s *sim) checkWriterEnd(l *ledger, core *quorum.Writer, err error) {
	if err != nil {
		return
	}
	if l.meta.State != quorum.StateClosed || l.meta.LastEntry != core.LAC() || l.meta.Length != core.ConfirmedLength() {
		s.violate("I2", "a writer closed L%d at %d with %d bytes, stored is %s", l.n, core.LAC(), core.ConfirmedLength(), metaString(l.meta))
	}
}

// checkRead checks an entry that a reader delivers.
func (s *sim) checkRead(l *ledger, e bk.EntryID, c copyOf) {
	s.stats.Read++
	if int(e) >= len(l.pushed) || c.payload != l.pushed[e].payload {
		s.violate("I2", "a reader got entry %d of L%d that was never pushed", e, l.n)
		return
	}
	if l.meta.State == quorum.StateClosed && e > l.meta.LastEntry {
		s.violate("I4", "a reader got entry %d of L%d, closed at %d", e, l.n, l.meta.LastEntry)
	}
	l.readerLAC = max(l.readerLAC, e)
}

// checkEnd checks the world after peace: every ledger was recovered, and all
// agree on it.
func (s *sim) checkEnd() {
	for _, l := range s.ledgers {
		if s.broken != nil {
			return
		}
		m := l.meta
		if m.State != quorum.StateClosed {
			s.violate("I7", "L%d is %s in peace", l.n, metaString(m))
			return
		}
		if m.LastEntry < l.acked || m.LastEntry < l.readerLAC {
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
			_, has := s.bookie(seg.Ensemble[pos]).onDisk(l.n).get(e)
			if has {
				verdict = r.Answer(pos, nil)
			} else {
				verdict = r.Answer(pos, bk.ErrNoSuchEntry)
			}
		}
		if verdict != quorum.ReadDone {
			s.violate("I1", "entry %d of L%d cannot be read: %v", e, l.n, r.Err())
			return
		}
	}
}

// swapBookie is re-replication: it copies one position of an older segment to
// another bookie and swaps it in (rule 49).
func (s *sim) swapBookie() {
	if len(s.ledgers) == 0 {
		return
	}
	l := pick(s, s.ledgers)
	if len(l.meta.Segments) < 2 {
		return
	}
	i, p := s.rng.IntN(len(l.meta.Segments)-1), s.rng.IntN(s.q.Ensemble)
	to, ok := s.choose(1, l.meta.Segments[i].Ensemble)
	if !ok {
		return
	}
	for e := l.meta.Segments[i].First; e < l.meta.Segments[i+1].First; e++ {
		if _, in := quorum.CopyAt(s.q, e, p); !in {
			continue
		}
		c, err := s.goodCopy(l, i, e)
		if err != nil {
			return
		}
		b := s.bookie(to[0])
		b.of(l.n).put(e, c)
		b.onDisk(l.n).put(e, c)
	}
	m := l.meta
	m.Segments = append([]quorum.Segment(nil), m.Segments...)
	ens := append([]bk.BookieID(nil), m.Segments[i].Ensemble...)
	ens[p] = to[0]
	m.Segments[i].Ensemble = ens
	s.cas(l, l.version, m, swapper)
}

var errNoCopy = errors.New("no copy")

func (s *sim) goodCopy(l *ledger, seg int, e bk.EntryID) (copyOf, error) {
	for k := range s.q.Write {
		b := s.bookie(l.meta.Segments[seg].Ensemble[quorum.Position(s.q, e, k)])
		if c, ok := b.onDisk(l.n).get(e); ok {
			return c, nil
		}
	}
	return copyOf{}, errNoCopy
}
