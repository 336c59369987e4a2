package ledgerstate

import (
	"math"
	"sync"

	"github.com/loglode/loglode/bookie/bk"
)

// Load reads a stored state; ok is false if there is none.
type Load func(l bk.LedgerID) (s Stored, ok bool, err error)

// Table holds the states of the ledgers of one ledger directory.
type Table struct {
	load Load

	mu        sync.RWMutex // guards what follows
	states    map[bk.LedgerID]*State
	dirty     []*State
	evictions uint64 // a load that began before one may be stale
	passes    uint32 // calls of Evict
}

// NewTable makes an empty table over load.
func NewTable(load Load) *Table {
	return &Table{load: load, states: make(map[bk.LedgerID]*State)}
}

// Lock gives the state of a ledger, locked, from memory or the index. A ledger
// that is not known is made with Exists false.
func (t *Table) Lock(l bk.LedgerID) (*State, error) { return t.lock(l, true) }

// LockKnown is Lock that gives nil for a ledger that is not known.
func (t *Table) LockKnown(l bk.LedgerID) (*State, error) {
	s, err := t.lock(l, false)
	if s != nil && !s.Exists {
		s.Mutex.Unlock()
		return nil, nil
	}
	return s, err
}

func (t *Table) lock(l bk.LedgerID, create bool) (*State, error) {
	for {
		t.mu.RLock()
		s := t.states[l]
		seen, pass := t.evictions, t.passes
		t.mu.RUnlock()
		if s == nil {
			var again bool
			var err error
			if s, again, err = t.fetch(l, seen, create); again {
				continue
			}
			if s == nil || err != nil {
				return nil, err
			}
		}
		s.Mutex.Lock()
		if !s.evicted {
			s.used = pass
			return s, nil
		}
		s.Mutex.Unlock()
	}
}

// Update calls fn with the locked state of a ledger, if it is in memory.
func (t *Table) Update(l bk.LedgerID, fn func(s *State)) {
	t.mu.RLock()
	s := t.states[l]
	t.mu.RUnlock()
	if s == nil {
		return
	}
	s.Mutex.Lock()
	defer s.Mutex.Unlock()
	if !s.evicted {
		fn(s)
	}
}

// fetch loads a state that is not in memory.
func (t *Table) fetch(l bk.LedgerID, seen uint64, create bool) (s *State, again bool, err error) {
	stored, ok, err := t.load(l)
	if err != nil {
		return nil, false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.states[l]; s != nil {
		return s, false, nil
	}
	if t.evictions != seen {
		return nil, true, nil // what was loaded may be from before a change
	}
	if !ok && !create {
		return nil, false, nil
	}
	s = &State{ID: l, Exists: ok, Stored: stored, FenceSynced: stored.Fenced}
	if !ok {
		s.LAC = bk.InvalidEntryID
	}
	t.states[l] = s
	return s, false, nil
}

// MarkDirty has the next flush store a state. The state is locked, and is
// changed before its journal record is appended.
func (t *Table) MarkDirty(s *State) {
	if s.dirty {
		return
	}
	s.dirty = true
	t.mu.Lock()
	t.dirty = append(t.dirty, s)
	t.mu.Unlock()
}

// Dirty reports whether a state waits to be stored.
func (t *Table) Dirty() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.dirty) > 0
}

// TakeDirty begins a flush: it gives the states that changed since the last
// one. They stay in memory until Settle. A change after it is for the next
// flush, even if this one stores it too: call TakeDirty before the write cache
// is frozen, so that an entry of the next arena always has a dirty state.
func (t *Table) TakeDirty() []*State {
	t.mu.Lock()
	d := t.dirty
	t.dirty = nil
	t.mu.Unlock()
	for _, s := range d {
		s.Mutex.Lock()
		s.dirty, s.taken = false, true
		s.Mutex.Unlock()
	}
	return d
}

// Settle ends a flush: what TakeDirty gave is stored.
func (t *Table) Settle(states []*State) {
	for _, s := range states {
		s.Mutex.Lock()
		s.taken = false
		s.Mutex.Unlock()
	}
}

// Drop forgets a ledger of which everything was stored before the flush that is
// under way took its changes; it reports false if that is not so, or the ledger
// is not known. The state stays in memory until Settle: what the index has of
// it goes with this flush. A ledger that is added to meanwhile begins anew.
func (t *Table) Drop(l bk.LedgerID) (*State, bool, error) {
	return t.DropBefore(l, math.MaxUint64)
}

// DropBefore is Drop of a ledger whose state was not stored by the flush with
// that attempt or a later one: outside a flush, what the last one stored may
// still have records above the mark.
func (t *Table) DropBefore(l bk.LedgerID, attempt uint64) (*State, bool, error) {
	s, err := t.LockKnown(l)
	if s == nil || err != nil {
		return nil, false, err
	}
	defer s.Mutex.Unlock()
	if s.Attempt >= attempt {
		return nil, false, nil
	}
	if s.dirty || s.taken || s.Fenced && !s.FenceSynced {
		return nil, false, nil
	}
	s.Exists, s.FenceSynced, s.hasLive, s.live, s.taken = false, false, false, 0, true
	s.Stored = Stored{LAC: bk.InvalidEntryID}
	return s, true, nil
}

// Evict forgets states that are stored, have no waiter and were not used since
// the call before the last one, until at most keep are left. Those that the
// flush with that attempt stored, or a later one, stay: see DropBefore.
func (t *Table) Evict(keep int, attempt uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes++
	if len(t.states) <= keep {
		return
	}
	t.evictions++
	for l, s := range t.states {
		if len(t.states) <= keep {
			return
		}
		// TryLock: whoever holds it is using the state, and may want t.mu.
		if !s.Mutex.TryLock() {
			continue
		}
		if !s.dirty && !s.taken && s.Attempt < attempt && len(s.waiters) == 0 && t.passes-s.used > 2 {
			s.evicted = true
			delete(t.states, l)
		}
		s.Mutex.Unlock()
	}
}

// Len is the number of states in memory.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.states)
}
