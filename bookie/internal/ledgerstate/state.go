package ledgerstate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/loglode/loglode/bookie/bk"
)

const (
	stateVersion   = 1 // on disk: do not renumber
	flagFenced     = 1
	flagUnordered  = 2
	flagHasHighest = 4
)

// Stored is the part of a state that is in the index.
type Stored struct {
	Fenced bool
	// Unordered says that an entry was flushed with an id not above all that
	// were flushed before: extents of the ledger may overlap.
	Unordered  bool
	HasHighest bool
	Highest    bk.EntryID // highest entry that was flushed, if HasHighest
	LAC        bk.EntryID
	Key        []byte
	LACBody    []byte // explicit LAC, nil if none was written
}

// Append appends the bytes of s.
func (s *Stored) Append(dst []byte) []byte {
	var flags byte
	for _, f := range []struct {
		on  bool
		bit byte
	}{{s.Fenced, flagFenced}, {s.Unordered, flagUnordered}, {s.HasHighest, flagHasHighest}} {
		if f.on {
			flags |= f.bit
		}
	}
	dst = append(dst, stateVersion, flags)
	dst = binary.AppendVarint(dst, int64(s.Highest))
	dst = binary.AppendVarint(dst, int64(s.LAC))
	dst = binary.AppendUvarint(dst, uint64(len(s.Key)))
	dst = append(dst, s.Key...)
	dst = binary.AppendUvarint(dst, uint64(len(s.LACBody)))
	return append(dst, s.LACBody...)
}

// Parse takes the bytes of a stored state; it keeps none of them.
func Parse(b []byte) (Stored, error) {
	bad := func(what string) (Stored, error) {
		return Stored{}, &bk.CorruptError{Where: "ledger state, " + what, Offset: -1, Want: "a stored state", Got: fmt.Sprintf("%x", b)}
	}
	if len(b) < 2 || b[0] != stateVersion {
		return bad("version")
	}
	s := Stored{Fenced: b[1]&flagFenced != 0, Unordered: b[1]&flagUnordered != 0, HasHighest: b[1]&flagHasHighest != 0}
	rest := b[2:]
	for _, to := range []*bk.EntryID{&s.Highest, &s.LAC} {
		v, n := binary.Varint(rest)
		if n <= 0 {
			return bad("ids")
		}
		*to, rest = bk.EntryID(v), rest[n:]
	}
	for _, to := range []*[]byte{&s.Key, &s.LACBody} {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return bad("bytes")
		}
		if size > 0 {
			*to = bytes.Clone(rest[n : n+int(size)])
		}
		rest = rest[n+int(size):]
	}
	if len(rest) != 0 {
		return bad("end")
	}
	return s, nil
}

// State is one ledger in memory. All fields below Mutex are guarded by it.
type State struct {
	ID bk.LedgerID

	sync.Mutex
	Exists bool // the ledger is known here
	Stored
	FenceSynced bool // the fence is durable

	hasLive bool       // an entry was added since the state was loaded
	live    bk.EntryID // highest of those

	waiters []*Waiter

	Attempt uint64 // of the flush that wrote the state last

	dirty   bool // in the table's list of changed ones
	taken   bool // by a flush that has not ended
	evicted bool
	used    uint32 // pass of Evict after which it was last used
}

// HighestEntry is the highest id stored, in the write cache or flushed.
func (s *State) HighestEntry() (bk.EntryID, bool) {
	switch {
	case s.hasLive && (!s.HasHighest || s.live > s.Highest):
		return s.live, true
	default:
		return s.Highest, s.HasHighest
	}
}

// Added notes that entry e was stored with the LAC that it carries.
func (s *State) Added(e, lac bk.EntryID) {
	if !s.hasLive || e > s.live {
		s.hasLive, s.live = true, e
	}
	s.MoveLAC(lac)
}

// MoveLAC raises the LAC.
func (s *State) MoveLAC(lac bk.EntryID) { s.LAC = max(s.LAC, lac) }

// Flushed notes that entries first to last are in the index from now on.
func (s *State) Flushed(first, last bk.EntryID) {
	if s.HasHighest && first <= s.Highest {
		s.Unordered = true
	}
	if !s.HasHighest || last > s.Highest {
		s.HasHighest, s.Highest = true, last
	}
}

// Waiter waits for a LAC.
type Waiter struct {
	After bk.EntryID
	Fn    func(lac bk.EntryID)
}

// Wait adds a waiter.
func (s *State) Wait(w *Waiter) { s.waiters = append(s.waiters, w) }

// Cancel takes a waiter back and tells whether it was still waiting.
func (s *State) Cancel(w *Waiter) bool {
	for i, x := range s.waiters {
		if x == w {
			last := len(s.waiters) - 1
			s.waiters[i] = s.waiters[last]
			s.waiters[last] = nil
			s.waiters = s.waiters[:last]
			return true
		}
	}
	return false
}

// Ready takes out the waiters that the LAC has passed, for the caller to call
// once the state is unlocked.
func (s *State) Ready(dst []*Waiter) []*Waiter {
	if len(s.waiters) == 0 {
		return dst
	}
	keep := s.waiters[:0]
	for _, w := range s.waiters {
		if s.LAC > w.After {
			dst = append(dst, w)
		} else {
			keep = append(keep, w)
		}
	}
	clear(s.waiters[len(keep):])
	s.waiters = keep
	return dst
}
