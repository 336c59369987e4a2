package zkstore

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/loglode/loglode/metadata"
)

// point is what one ZooKeeper watch looks at: a node, or the names of its
// children.
type point struct {
	key      string
	children bool
}

// trigger is one ZooKeeper watch that has not fired, or that is being set. All
// watches that wait for it share it.
type trigger struct {
	armed   bool
	names   []string // of the children, as they were when it was set; they are the same until it fires
	waiting []*watch
}

// arm makes w wait for p, and sets the ZooKeeper watch unless it is set. An
// event that comes while it is being set is not lost: it takes the trigger away
// and wakes w. A child must exist: one that has gone is the parent's event, and
// nobody would wait for it to come back.
func (s *Store) arm(ctx context.Context, w *watch, p point, child bool) error {
	s.mu.Lock()
	t := s.triggers[p]
	if t == nil {
		t = &trigger{}
		s.triggers[p] = t
	}
	if !slices.Contains(t.waiting, w) {
		t.waiting = append(t.waiting, w)
	}
	armed := t.armed
	s.mu.Unlock()
	if armed {
		return nil
	}
	names, err := read(ctx, s, s.l, func(c *zk.Conn) ([]string, error) {
		if p.children {
			names, _, _, err := c.ChildrenW(p.key)
			return names, err
		}
		if child {
			_, _, _, err := c.GetW(p.key)
			return nil, err
		}
		_, _, _, err := c.ExistsW(p.key)
		return nil, err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.leave(p, w)
		return err
	}
	if s.triggers[p] == t {
		t.armed, t.names = true, names
	} else {
		poke(w.wake) // it fired already
	}
	return nil
}

// namesAt gives the children as of when p was set. None if it has fired since:
// whoever waits for it is woken.
func (s *Store) namesAt(p point) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.triggers[p]; t != nil && t.armed {
		return slices.DeleteFunc(slices.Clone(t.names), func(n string) bool { return metadata.Child(p.key, n) == reserved })
	}
	return nil
}

// leave takes w from those that wait for p. It is called with the mutex held.
func (s *Store) leave(p point, w *watch) {
	t := s.triggers[p]
	if t == nil {
		return
	}
	t.waiting = slices.DeleteFunc(t.waiting, func(o *watch) bool { return o == w })
	if len(t.waiting) == 0 && !t.armed {
		delete(s.triggers, p)
	}
}

// forget takes a watch that has ended from all it waits for. The ZooKeeper
// watches stay until they fire.
func (s *Store) forget(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(point{key: w.key}, w)
	if !w.children {
		return
	}
	s.leave(point{key: w.key, children: true}, w)
	for _, name := range w.names {
		s.leave(point{key: metadata.Child(w.key, name)}, w)
	}
}

// fire takes an event of the server. It is called by the client's goroutine.
func (s *Store) fire(ev zk.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev.Type != zk.EventNodeChildrenChanged {
		s.release(point{key: ev.Path})
	}
	if ev.Type == zk.EventNodeChildrenChanged || ev.Type == zk.EventNodeDeleted {
		s.release(point{key: ev.Path, children: true})
	}
}

// release is called with the mutex held.
func (s *Store) release(p point) {
	t := s.triggers[p]
	if t == nil {
		return
	}
	delete(s.triggers, p)
	for _, w := range t.waiting {
		poke(w.wake)
	}
}

// fireAll fires all triggers, as the connection they were set on is gone.
func (s *Store) fireAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.triggers {
		s.release(p)
	}
}
