package ledgersim

import (
	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// checkProgress checks what a writer has reported as added since the last look:
// in order, each once (I5), not after the fence or the close (I3), and what is
// promised to stay is where the stored metadata say (I6).
func (s *sim) checkProgress(l *ledger, core *quorum.Writer, who string) {
	for l.completed < core.Completed() {
		l.completed++
		e := l.completed
		s.stats.Acked++
		if s.opts.Trace != nil {
			s.tracef("%s acknowledges %d of L%d", who, e, l.n)
		}
		if l.meta.State == quorum.StateClosed && l.meta.LastEntry < e && !l.deferred && !l.excused(e) {
			s.violate("I3", "%s acknowledges entry %d of L%d, which is closed at %d", who, e, l.n, l.meta.LastEntry)
		}
		if l.fencedAt >= 0 && l.pushed[e].at > l.fencedAt {
			s.violate("I3", "%s acknowledges entry %d of L%d, pushed at %d after the fence at %d", who, e, l.n, l.pushed[e].at, l.fencedAt)
		}
	}
	if l.completed != core.Completed() {
		s.violate("I5", "%s takes back entries of L%d: %d after %d", who, l.n, core.Completed(), l.completed)
	}
	if core.LAC() > l.completed {
		s.violate("I4", "%s has LAC %d of L%d, %d is complete", who, core.LAC(), l.n, l.completed)
		return
	}
	for l.acked < core.LAC() && s.broken == nil {
		l.acked++
		e := l.acked
		if l.deleted || l.excused(e) {
			continue
		}
		if n := s.copies(l, l.meta, e); n < s.q.Ack {
			s.violate("I6", "%s confirms entry %d of L%d, %d good copies are where %s says", who, e, l.n, n, metaString(l.meta))
		}
		if l.meta.State == quorum.StateClosed && l.meta.LastEntry < e {
			s.violate("I3", "%s confirms entry %d of L%d, which is closed at %d", who, e, l.n, l.meta.LastEntry)
		}
	}
}

// excused reports whether entry e was in flight when a bookie forgot the ledger:
// a copy it had acknowledged may count although recovery did not find it.
func (l *ledger) excused(e bk.EntryID) bool { return l.tainted && l.pushed[e].at <= l.taintedAt }

// checkFailed checks that the entries reported as failed are just those that
// were pushed and not reported as added (I5).
func (s *sim) checkFailed(l *ledger, first, last bk.EntryID, who string) {
	if first != l.completed+1 || int(last) != len(l.pushed)-1 {
		s.violate("I5", "%s fails %d..%d of L%d; complete is %d, pushed %d", who, first, last, l.n, l.completed, len(l.pushed)-1)
	}
}

// noteReading notes that a recovery reads entries: it has fenced every write
// set, so nothing pushed from now on may be acknowledged.
func (s *sim) noteReading(l *ledger) {
	if l.fencedAt < 0 && l.meta.State == quorum.StateInRecovery {
		s.tracef("L%d is fenced", l.n)
		l.fencedAt = s.now
	}
}

// checkWriterEnd checks what a writer believes at its end (I2).
func (s *sim) checkWriterEnd(l *ledger, core *quorum.Writer, err error) {
	if err != nil || l.deleted {
		return
	}
	if l.meta.State != quorum.StateClosed || l.meta.LastEntry != core.LAC() || l.meta.Length != core.ConfirmedLength() {
		s.violate("I2", "a writer closed L%d at %d with %d bytes, stored is %s", l.n, core.LAC(), core.ConfirmedLength(), metaString(l.meta))
	}
}

// checkRead checks an entry that a reader delivers: it is the one that was
// pushed (I2), and confirmed: acknowledged, or kept by the close (I4).
func (s *sim) checkRead(l *ledger, e bk.EntryID, c copyOf) {
	s.stats.Read++
	if int(e) >= len(l.pushed) || c.payload != l.pushed[e].payload {
		s.violate("I2", "a reader got entry %d of L%d that was never pushed", e, l.n)
		return
	}
	if e > l.acked && (l.meta.State != quorum.StateClosed || e > l.meta.LastEntry) {
		s.violate("I4", "a reader got entry %d of L%d; acknowledged %d, stored %s", e, l.n, l.acked, metaString(l.meta))
	}
	l.readerLAC = max(l.readerLAC, e)
}

// checkLAC checks the LAC that the handle of a reader has after it learned one:
// it never goes back, and never passes what is confirmed (I4).
func (s *sim) checkLAC(l *ledger, before, lac bk.EntryID, news bool) {
	switch {
	case lac < before && !l.tainted:
		s.violate("I4", "the LAC of a reader of L%d goes back from %d to %d", l.n, before, lac)
	case news && lac > l.acked && (l.meta.State != quorum.StateClosed || lac > l.meta.LastEntry):
		s.violate("I4", "a reader of L%d believes LAC %d; acknowledged %d, stored %s", l.n, lac, l.acked, metaString(l.meta))
	}
}

// checkMissing looks at a read that no replica could serve, begun when the
// stored version was began. A confirmed entry is missing nowhere (I1), unless the
// reader's metadata were not those stored all the while.
func (s *sim) checkMissing(l *ledger, began int, seen quorum.Metadata, e bk.EntryID, err error) {
	if quorum.Classify(err) != quorum.Missing || l.deleted || l.tainted {
		return
	}
	for _, m := range l.history[began:] {
		if !m.Segments[m.SegmentOf(e)].Equal(seen.Segments[seen.SegmentOf(e)]) {
			return
		}
	}
	s.violate("I1", "confirmed entry %d of L%d is missing on its whole write set", e, l.n)
}
