package bookie

import (
	"sync"
	"sync/atomic"
)

// State says what a bookie takes.
type State uint8

const (
	Writable State = iota // everything
	ReadOnly              // reads, fences, and adds of high priority
	Failed                // reads: a journal or an index can no longer be trusted
	Closed                // nothing
)

func (s State) String() string {
	switch s {
	case Writable:
		return "writable"
	case ReadOnly:
		return "read-only"
	case Failed:
		return "failed"
	default:
		return "closed"
	}
}

// stateBox works out the state from its causes.
type stateBox struct {
	current atomic.Uint32
	changed func(State, error) // called with no lock held

	mu       sync.Mutex // guards what follows
	failed   error
	wish     bool // the operator's
	blocked  map[cause]error
	closed   bool
	watchers map[int]func()
	next     int
}

func (s *stateBox) get() State { return State(s.current.Load()) }

func (s *stateBox) fail(err error) {
	s.update(func() {
		if s.failed == nil {
			s.failed = err
		}
	})
}

func (s *stateBox) setWish(on bool) { s.update(func() { s.wish = on }) }

// cause is one reason to take nothing for a while.
type cause struct {
	kind causeKind
	dir  int // of the ledger or journal directories
}

type causeKind uint8

const (
	flushFailed    causeKind = iota // a write cache could not be flushed
	diskFull                        // a ledger directory has too little space
	noJournalFile                   // a journal has no file after the one it writes
	journalStalled                  // a journal has no file to go on in
)

// block says why the bookie takes nothing, nil once that is over.
func (s *stateBox) block(c cause, err error) {
	s.update(func() {
		if err == nil {
			delete(s.blocked, c)
			return
		}
		if s.blocked == nil {
			s.blocked = make(map[cause]error)
		}
		s.blocked[c] = err
	})
}

func (s *stateBox) close() { s.update(func() { s.closed = true }) }

func (s *stateBox) update(change func()) {
	s.mu.Lock()
	change()
	old, now := s.get(), Writable
	var cause error
	switch {
	case s.closed:
		now = Closed
	case s.failed != nil:
		now, cause = Failed, s.failed
	case len(s.blocked) > 0:
		now = ReadOnly
		for _, err := range s.blocked {
			cause = err
		}
	case s.wish:
		now = ReadOnly
	}
	s.current.Store(uint32(now))
	var call []func()
	if now != old {
		for _, w := range s.watchers {
			call = append(call, w)
		}
	}
	s.mu.Unlock()
	if now != old && s.changed != nil {
		s.changed(now, cause)
	}
	for _, w := range call {
		w()
	}
}

// watch has fn called after each change of state, until cancel.
func (s *stateBox) watch(fn func()) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers == nil {
		s.watchers = make(map[int]func())
	}
	id := s.next
	s.next++
	s.watchers[id] = fn
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, id)
	}
}

// State is what the bookie takes now.
func (b *Bookie) State() State { return b.state.get() }

// SetReadOnly asks for read-only, or takes the wish back.
func (b *Bookie) SetReadOnly(on bool) { b.state.setWish(on) }
