package memstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/loglode/loglode/metadata"
)

// session is the tree's side of a session, guarded by the tree's mutex.
type session struct {
	id     metadata.SessionID
	ttl    time.Duration
	nodes  map[string]struct{}
	expiry *time.Timer // runs while nobody holds the session
	holder *handle     // nil while nobody holds it
}

// handle is one holder's side of a session.
type handle struct {
	store *Store
	s     *session
	done  chan struct{}
	over  bool // done is closed
}

func (h *handle) ID() metadata.SessionID { return h.s.id }

func (h *handle) Secret() []byte { return nil }

func (h *handle) Done() <-chan struct{} { return h.done }

// Close ends the session. It never fails.
func (h *handle) Close(context.Context) error {
	t := h.store.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if !h.over {
		t.expire(h.s)
	}
	return nil
}

func (h *handle) Abandon() {
	t := h.store.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if !h.over {
		t.abandon(h.s)
	}
}

// release takes the session from its holder, with the tree's mutex held.
func (s *session) release() {
	if h := s.holder; h != nil {
		s.holder = nil
		h.over = true
		delete(h.store.sessions, s)
		close(h.done)
	}
}

// abandon starts the TTL of a session, with the mutex held.
func (t *Tree) abandon(s *session) {
	s.release()
	s.expiry = time.AfterFunc(s.ttl, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.sessions[s.id] == s && s.holder == nil {
			t.expire(s)
		}
	})
}

// expire ends a session and deletes its nodes, with the mutex held. A node that
// has children stays in place for them, without a value.
func (t *Tree) expire(s *session) {
	s.release()
	if s.expiry != nil {
		s.expiry.Stop()
	}
	var changes []change
	for _, key := range slices.Sorted(maps.Keys(s.nodes)) {
		n := t.find(key)
		changes = append(changes, change{key: key, n: n, before: *n})
		n.exists, n.value, n.version, n.writes, n.session = false, nil, 0, 0, 0
	}
	delete(t.sessions, s.id)
	t.commit(changes)
}

// Expire ends a session as if its holder had missed the TTL: its nodes go and
// the holder's Done is closed. Unknown sessions are ignored.
func (t *Tree) Expire(id metadata.SessionID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[id]; s != nil {
		t.expire(s)
	}
}

// Session is metadata.Store.Session.
func (s *Store) Session(ctx context.Context, opts metadata.SessionOptions) (metadata.Session, error) {
	t := s.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	ttl := opts.TTL
	if ttl <= 0 {
		ttl = metadata.DefaultSessionTTL
	}
	ses := t.sessions[opts.Resume]
	switch {
	case opts.Resume == 0:
		t.lastID++
		ses = &session{id: t.lastID, ttl: ttl, nodes: map[string]struct{}{}}
		t.sessions[ses.id] = ses
	case ses == nil:
		return nil, metadata.ErrSessionLost
	default:
		ses.release()
		if ses.expiry != nil {
			ses.expiry.Stop()
			ses.expiry = nil
		}
	}
	h := &handle{store: s, s: ses, done: make(chan struct{})}
	ses.holder = h
	s.sessions[ses] = struct{}{}
	return h, nil
}
