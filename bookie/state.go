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
	Failed                // reads: a journal can no longer be trusted
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
	wish     bool          // the operator's
	disks    map[int]error // ledger directory → why it takes nothing
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

// setDisk says why a ledger directory takes nothing, nil once it does again.
func (s *stateBox) setDisk(dir int, err error) {
	s.update(func() {
		if s.disks == nil {
			s.disks = make(map[int]error)
		}
		if err == nil {
			delete(s.disks, dir)
		} else {
			s.disks[dir] = err
		}
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
	case len(s.disks) > 0:
		now = ReadOnly
		for _, err := range s.disks {
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
