package zkstore

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loglode/loglode/metadata"
)

// session is one ZooKeeper session that owns nodes, on a link of its own.
type session struct {
	s      *Store
	l      *link
	id     metadata.SessionID
	secret []byte
	turn   chan struct{} // held by who closes it
}

func (h *session) ID() metadata.SessionID { return h.id }

// Secret is the session's password.
func (h *session) Secret() []byte { return append([]byte(nil), h.secret...) }

func (h *session) Done() <-chan struct{} { return h.l.done }

// Session is metadata.Store.Session. The server rounds the TTL to what it
// allows, 2 to 20 of its ticks by default. Resuming needs the secret; another
// holder of the session that is still there takes it back when it notices.
func (s *Store) Session(ctx context.Context, opts metadata.SessionOptions) (metadata.Session, error) {
	ctx, cancel, err := s.call(ctx)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	defer cancel()
	ttl := opts.TTL
	if ttl <= 0 {
		ttl = metadata.DefaultSessionTTL
	}
	l := newLink(s.opts, ttl, s.log)
	if opts.Resume != 0 {
		l.id.session = int64(opts.Resume)
		copy(l.id.password[:], opts.Secret)
	}
	h := &session{s: s, l: l, turn: make(chan struct{}, 1)}
	l.start()
	// A session whose answer is lost is one that nobody uses.
	if _, err := l.use(ctx); err != nil {
		l.abandon()
		if opts.Resume != 0 {
			return nil, fmt.Errorf("resume session %x: %w", opts.Resume, err)
		}
		return nil, fmt.Errorf("session: %w", err)
	}
	id := l.identity()
	h.id, h.secret = metadata.SessionID(id.session), id.password[:]
	s.mu.Lock()
	if !s.closed {
		s.sessions[h.id] = h
		s.wg.Go(h.forget)
	}
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, errors.Join(fmt.Errorf("session: %w", metadata.ErrClosed), l.finish(ctx))
	}
	return h, nil
}

// forget takes the session out of its store when it has ended.
func (h *session) forget() {
	<-h.l.done
	h.remove()
	if errors.Is(h.l.err, metadata.ErrSessionLost) && !h.l.over {
		h.s.log.Warn("session lost", zap.Int64("session", int64(h.id)))
	}
}

// Close ends the session at the server. One that is over already is success.
func (h *session) Close(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return fmt.Errorf("end session %x: %w: %w", int64(h.id), metadata.ErrUnavailable, ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, h.s.opts.RequestTimeout)
	defer cancel()
	l := h.l
	if h.abandoned() {
		l = newLink(h.s.opts, h.l.timeout, h.s.log)
		l.id = h.l.identity()
		l.id.zxid = 0
		l.start()
	}
	if err := l.finish(ctx); err != nil {
		return fmt.Errorf("end session %x: %w", int64(h.id), err)
	}
	return nil
}

// abandoned says that nobody keeps the session any more, but it may be alive.
func (h *session) abandoned() bool {
	select {
	case <-h.l.done:
		return errors.Is(h.l.err, metadata.ErrClosed) && !h.l.over
	default:
		return false
	}
}

func (h *session) remove() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if h.s.sessions[h.id] == h {
		delete(h.s.sessions, h.id)
	}
}

// Abandon lets go of the session.
func (h *session) Abandon() {
	h.l.abandon()
	h.remove() // so that closing the store does not end it
}
