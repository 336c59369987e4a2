package layout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/metadata"
)

// Mode says which of the two lists a bookie is in.
type Mode uint8

const (
	Writable Mode = iota // takes new ledgers
	ReadOnly             // serves what it has
)

// Bookies lists the registered bookies, each list sorted. A bookie that is in
// both (it is changing over) is only in Writable.
type Bookies struct {
	Writable, ReadOnly []bk.BookieID
}

// listAttempts bounds how often Bookies reads again because bookies changed
// over meanwhile.
const listAttempts = 4

// Bookies gives the bookies registered now. A bookie that changes from one list
// to the other meanwhile is not missed.
func (c *Cluster) Bookies(ctx context.Context) (Bookies, error) {
	writable, err := c.bookieList(ctx, c.keys.writable)
	if err != nil {
		return Bookies{}, err
	}
	for range listAttempts {
		readOnly, err := c.bookieList(ctx, c.keys.readOnly)
		if err != nil {
			return Bookies{}, err
		}
		again, err := c.bookieList(ctx, c.keys.writable)
		if err != nil {
			return Bookies{}, err
		}
		same := slices.Equal(writable, again)
		writable = again
		if same {
			readOnly = slices.DeleteFunc(readOnly, func(id bk.BookieID) bool {
				_, both := slices.BinarySearch(writable, id)
				return both
			})
			return Bookies{Writable: writable, ReadOnly: readOnly}, nil
		}
	}
	return Bookies{}, fmt.Errorf("list bookies: they kept changing: %w", metadata.ErrConflict)
}

func (c *Cluster) bookieList(ctx context.Context, key string) ([]bk.BookieID, error) {
	var ids []bk.BookieID
	for n, err := range metadata.Children(ctx, c.store, key, metadata.ListOptions{KeysOnly: true}) {
		if err != nil {
			return nil, fmt.Errorf("list bookies: %w", err)
		}
		// A node that cannot be a bookie ("readonly" below ZooKeeper's
		// "available", or foreign) is not one.
		if id, err := bk.ParseBookieID(metadata.Name(n.Key)); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// WatchBookies signals when a bookie comes, goes, changes its mode or its
// address; see metadata.Watch.
func (c *Cluster) WatchBookies(ctx context.Context) (metadata.Watch, error) {
	w, err := watchBoth(ctx, c.store, metadata.WatchChildren, c.keys.writable, c.keys.readOnly)
	if err != nil {
		return nil, fmt.Errorf("watch bookies: %w", err)
	}
	return w, nil
}

// Resolve gives the address ("host:port") to dial a bookie at: from its service
// info if it published one, else the id itself, also for a bookie that is not
// registered. bk.ErrBookieUnavailable if neither gives one.
func (c *Cluster) Resolve(ctx context.Context, id bk.BookieID) (string, error) {
	unresolved := func(err error) (string, error) {
		return "", fmt.Errorf("resolve bookie %s: %w: %w", id, bk.ErrBookieUnavailable, err)
	}
	var value []byte
	for _, list := range []string{c.keys.writable, c.keys.readOnly} {
		n, err := c.store.Get(ctx, metadata.Child(list, string(id)))
		if err == nil {
			value = n.Value
			break
		}
		if !errors.Is(err, metadata.ErrNotFound) {
			return "", fmt.Errorf("resolve bookie %s: %w", id, err)
		}
	}
	if len(value) == 0 {
		addr, err := splitHostPort(string(id))
		if err != nil {
			return unresolved(err)
		}
		return addr, nil
	}
	info, err := ParseServiceInfo(value)
	if err != nil {
		return unresolved(err)
	}
	for _, e := range info.Endpoints {
		if e.Protocol == ProtocolBookie {
			return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)), nil
		}
	}
	return unresolved(fmt.Errorf("service info has no %s endpoint", ProtocolBookie))
}

// Register lists the bookie under sess, moving it over in one step if sess
// holds it in the other list. Be ready to serve before. If another session
// holds the id, Register waits for that one to end as long as ctx allows (give
// it two session TTLs: a bookie that was killed and restarted finds its own old
// session), then it fails with metadata.ErrExists.
func (c *Cluster) Register(ctx context.Context, sess metadata.Session, id bk.BookieID, info ServiceInfo, mode Mode) error {
	if err := c.register(ctx, sess, id, info, mode); err != nil {
		return fmt.Errorf("register bookie %s: %w", id, err)
	}
	return nil
}

func (c *Cluster) register(ctx context.Context, sess metadata.Session, id bk.BookieID, info ServiceInfo, mode Mode) error {
	if _, err := bk.ParseBookieID(string(id)); err != nil {
		return err
	}
	value, err := c.form.registration(id, info)
	if err != nil {
		return err
	}
	to, from := metadata.Child(c.keys.writable, string(id)), metadata.Child(c.keys.readOnly, string(id))
	if mode == ReadOnly {
		to, from = from, to
	}
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := watchBoth(wctx, c.store, metadata.WatchNode, to, from)
	if err != nil {
		return err
	}
	foreign := false
	for {
		select {
		case <-sess.Done():
			return metadata.ErrSessionLost
		case _, ok := <-w.C():
			if !ok && foreign {
				return fmt.Errorf("another session holds the id: %w: %w", metadata.ErrExists, w.Err())
			}
			if !ok {
				return fmt.Errorf("%w: %w", metadata.ErrUnavailable, w.Err())
			}
		}
		if foreign, err = c.tryRegister(ctx, sess.ID(), to, from, value); !foreign {
			return err
		}
	}
}

// tryRegister reads both nodes and brings them to the wanted state, unless one
// belongs to another session.
func (c *Cluster) tryRegister(ctx context.Context, sess metadata.SessionID, to, from string, value []byte) (foreign bool, err error) {
	for {
		var ops []metadata.Op
		n, err := c.store.Get(ctx, to)
		switch {
		case errors.Is(err, metadata.ErrNotFound):
			ops = append(ops, metadata.Create(to, value).WithSession(sess).WithParents())
		case err != nil:
			return false, err
		case n.Session != sess:
			return true, nil
		case !bytes.Equal(n.Value, value):
			ops = append(ops, metadata.Set(to, value, n.Version))
		}
		n, err = c.store.Get(ctx, from)
		switch {
		case errors.Is(err, metadata.ErrNotFound):
		case err != nil:
			return false, err
		case n.Session != sess:
			return true, nil
		default:
			ops = append(ops, metadata.Delete(from, n.Version))
		}
		if len(ops) == 0 {
			return false, nil
		}
		// A lost answer or a change meanwhile: look again.
		_, err = c.store.Txn(ctx, ops...)
		retry := errors.Is(err, metadata.ErrUnknownOutcome) || errors.Is(err, metadata.ErrExists) ||
			errors.Is(err, metadata.ErrConflict) || errors.Is(err, metadata.ErrNotFound)
		if !retry {
			return false, err
		}
	}
}

// Registrable checks that clients could dial a bookie that registers like this;
// bk.ErrInvalidBookieID.
func (c *Cluster) Registrable(id bk.BookieID, info ServiceInfo) error {
	if _, err := bk.ParseBookieID(string(id)); err != nil {
		return err
	}
	_, err := c.form.registration(id, info)
	return err
}

// Unregister takes the bookie out of both lists, as far as sess holds it.
func (c *Cluster) Unregister(ctx context.Context, sess metadata.Session, id bk.BookieID) error {
	for _, list := range []string{c.keys.writable, c.keys.readOnly} {
		n, err := c.store.Get(ctx, metadata.Child(list, string(id)))
		if err == nil && n.Session == sess.ID() {
			err = metadata.Remove(ctx, c.store, n.Key, n.Version)
		}
		if err != nil && !errors.Is(err, metadata.ErrNotFound) {
			return fmt.Errorf("unregister bookie %s: %w", id, err)
		}
	}
	return nil
}

// Cookie gives the stored cookie of a bookie and its version for a later
// update; metadata.ErrNotFound if the bookie never had one.
func (c *Cluster) Cookie(ctx context.Context, id bk.BookieID) ([]byte, metadata.Version, error) {
	n, err := c.store.Get(ctx, metadata.Child(c.keys.cookies, string(id)))
	if err != nil {
		return nil, 0, fmt.Errorf("cookie of bookie %s: %w", id, err)
	}
	return n.Value, n.Version, nil
}

// CreateCookie stores the first cookie of a bookie; metadata.ErrExists.
func (c *Cluster) CreateCookie(ctx context.Context, id bk.BookieID, cookie []byte) error {
	if _, err := bk.ParseBookieID(string(id)); err != nil {
		return err
	}
	op := metadata.Create(metadata.Child(c.keys.cookies, string(id)), cookie).WithParents()
	if _, err := metadata.CreateOnce(ctx, c.store, op, nil); err != nil {
		return fmt.Errorf("create cookie of bookie %s: %w", id, err)
	}
	return nil
}

// UpdateCookie overwrites a cookie that has version v; metadata.ErrConflict.
func (c *Cluster) UpdateCookie(ctx context.Context, id bk.BookieID, cookie []byte, v metadata.Version) error {
	if _, err := metadata.CompareAndSet(ctx, c.store, metadata.Child(c.keys.cookies, string(id)), cookie, v); err != nil {
		return fmt.Errorf("update cookie of bookie %s: %w", id, err)
	}
	return nil
}

// DeleteCookie removes the cookie that has version v; none there is success.
func (c *Cluster) DeleteCookie(ctx context.Context, id bk.BookieID, v metadata.Version) error {
	if err := metadata.Remove(ctx, c.store, metadata.Child(c.keys.cookies, string(id)), v); err != nil {
		return fmt.Errorf("delete cookie of bookie %s: %w", id, err)
	}
	return nil
}
