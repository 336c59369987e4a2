package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loglode/loglode/metadata"
	"github.com/loglode/loglode/stream"
)

// Lock is a member of a stream's write lock.
type Lock struct {
	s   *Stream
	key string
}

const memberPrefix = "member_"

// member is one node of a lock. Its key ends in a rising number.
type member struct {
	key     string
	number  int64
	client  string
	session metadata.SessionID
}

// memberKey is the key of a new member without its number:
// member_<client, URL-encoded>_s<session, at least 10 characters>_.
func memberKey(lock string, id metadata.SessionID, client string) string {
	// Java's form encoding and Go's differ in two characters.
	enc := strings.NewReplacer("~", "%7E", "%2A", "*").Replace(url.QueryEscape(client))
	return metadata.Child(lock, fmt.Sprintf("%s%s_s%10d_", memberPrefix, enc, int64(id)))
}

// members lists a lock, first in line first.
func members(ctx context.Context, st metadata.Store, lock string) ([]member, error) {
	var ms []member
	for n, err := range metadata.Children(ctx, st, lock, metadata.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		ms = append(ms, member{key: n.Key, number: memberNumber(n.Key), client: string(n.Value), session: n.Session})
	}
	slices.SortStableFunc(ms, func(a, b member) int { return cmp.Compare(a.number, b.number) })
	return ms, nil
}

// memberNumber is the number after the last underscore; a key without one comes
// last.
func memberNumber(key string) int64 {
	n, err := strconv.ParseInt(key[strings.LastIndexByte(key, '_')+1:], 10, 64)
	if err != nil {
		return 1<<63 - 1
	}
	return n
}

func firstMember(ctx context.Context, st metadata.Store, lock string) (*member, error) {
	ms, err := members(ctx, st, lock)
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	return &ms[0], nil
}

// Lock waits up to wait (0 = at once or not at all) to become the first member
// of the write lock. It fails with a *stream.OwnerError that names the holder.
// Two locks of one client id in one session both hold, as in DistributedLog.
// The lock is a hint: it keeps two owners from taking the stream from each
// other in turn, and protects nothing. It is lost with the session.
func (s *Stream) Lock(ctx context.Context, sess metadata.Session, clientID string, wait time.Duration) (*Lock, error) {
	l, err := s.acquire(ctx, sess, clientID, wait)
	return l, s.wrap("lock", err)
}

func (s *Stream) acquire(ctx context.Context, sess metadata.Session, client string, wait time.Duration) (*Lock, error) {
	mine := func(m member) bool { return m.session == sess.ID() && m.client == client }
	if wait == 0 {
		first, err := firstMember(ctx, s.store(), s.keys.lock)
		if err != nil {
			return nil, err
		}
		if first != nil && !mine(*first) {
			return nil, &stream.OwnerError{Stream: s.name, Owner: first.client}
		}
	}
	key, err := s.join(ctx, sess, client)
	if err != nil {
		return nil, err
	}
	l := &Lock{s: s, key: key}
	wctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	owner, err := s.waitFirst(wctx, key, mine, wait > 0)
	if err == nil && owner == nil {
		return l, nil
	}
	if rerr := l.Release(context.WithoutCancel(ctx)); rerr != nil {
		err = errors.Join(err, rerr)
	}
	if owner != nil && ctx.Err() == nil {
		return nil, &stream.OwnerError{Stream: s.name, Owner: owner.client}
	}
	return nil, errors.Join(err, ctx.Err())
}

// join makes a member. A lost answer is settled by looking for a member of this
// client and session that was not there before.
func (s *Stream) join(ctx context.Context, sess metadata.Session, client string) (string, error) {
	before, err := members(ctx, s.store(), s.keys.lock)
	if err != nil {
		return "", err
	}
	key := memberKey(s.keys.lock, sess.ID(), client)
	op := metadata.Create(key, []byte(client)).WithSession(sess.ID()).AsSequential()
	var lost error
	for range settleAttempts {
		res, err := s.store().Txn(ctx, op)
		if err == nil {
			return res.Nodes[0].Key, nil
		}
		if !errors.Is(err, metadata.ErrUnknownOutcome) {
			return "", errors.Join(lost, err)
		}
		lost = err
		after, err := members(ctx, s.store(), s.keys.lock)
		if err != nil {
			return "", errors.Join(lost, err)
		}
		for _, m := range after {
			isNew := !slices.ContainsFunc(before, func(b member) bool { return b.key == m.key })
			if isNew && strings.HasPrefix(m.key, key) && m.session == sess.ID() {
				return m.key, nil
			}
		}
	}
	return "", lost
}

// waitFirst waits until key is first in line, or all before it are of the same
// client and session. owner is who was first when the wait was over.
func (s *Stream) waitFirst(ctx context.Context, key string, mine func(member) bool, wait bool) (owner *member, err error) {
	var w metadata.Watch
	if wait {
		if w, err = s.store().Watch(ctx, s.keys.lock, metadata.WatchChildren); err != nil {
			return nil, err
		}
	}
	for {
		// Not bounded by the wait: the list tells who holds the lock.
		ms, err := members(context.WithoutCancel(ctx), s.store(), s.keys.lock)
		if err != nil {
			return nil, err
		}
		k := slices.IndexFunc(ms, func(m member) bool { return m.key == key })
		if k < 0 {
			return nil, fmt.Errorf("lock member %s: %w", key, metadata.ErrSessionLost)
		}
		other := slices.IndexFunc(ms[:k], func(m member) bool { return !mine(m) })
		if other < 0 {
			return nil, nil
		}
		if !wait {
			return &ms[other], nil
		}
		select {
		case _, ok := <-w.C():
			if !ok {
				return &ms[other], nil // the wait is over
			}
		case <-ctx.Done():
			return &ms[other], nil
		}
	}
}

// Key is the member's node.
func (l *Lock) Key() string { return l.key }

// Release gives the lock back. Releasing a lock that is gone is success.
func (l *Lock) Release(ctx context.Context) error {
	return l.s.wrap("release lock", metadata.Remove(ctx, l.s.store(), l.key, metadata.AnyVersion))
}
