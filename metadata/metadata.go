package metadata

import (
	"context"
	"time"
)

// Version is a store's own stamp of a node's content. It is only good for
// comparing: it changes with every write to the node, and a node that was
// deleted and made again may repeat one only on ZooKeeper.
type Version int64

// AnyVersion in an operation means: whatever the node's version is.
const AnyVersion Version = -1

// SessionID names a session in its store: an etcd lease, a ZooKeeper session.
// 0 means none.
type SessionID int64

// Node is what a store holds under one key.
type Node struct {
	Key     string
	Value   []byte
	Version Version
	Writes  int64     // how often the node was written since it was created, 1 at creation
	Session SessionID // owner of an ephemeral node, 0 if the node is persistent
}

// Store is one metadata store. Its methods may be called by any number of
// goroutines; each ends by its context's deadline.
type Store interface {
	// Get gives a node, ErrNotFound if there is none. It reads the newest
	// committed state.
	Get(ctx context.Context, key string) (Node, error)

	// List gives the direct children of key in key order, one page a call; see
	// Children for all of them. A child that exists only as a parent of others
	// is listed with Version 0 and no value, and sorts as if its name ended in
	// a slash. A key without children gives an empty page, no error. A page is
	// one moment of the store, a listing of several pages is not: a child that
	// was there all the time is in it exactly once.
	List(ctx context.Context, key string, opts ListOptions) (Page, error)

	// Txn does all operations or none.
	Txn(ctx context.Context, ops ...Op) (Result, error)

	// Watch signals changes at key until ctx ends or the store closes.
	Watch(ctx context.Context, key string, scope WatchScope) (Watch, error)

	// Session opens a session, or resumes the one that opts names.
	Session(ctx context.Context, opts SessionOptions) (Session, error)

	// Close ends all watches and sessions of this Store and waits for its
	// goroutines.
	Close() error
}

// ListOptions pages a List.
type ListOptions struct {
	After    string // Page.Next of the page before, or a child's name; "" for the first page
	Limit    int    // most children a page; 0 = 1000
	KeysOnly bool   // leave Value nil
}

// Page is a part of a listing.
type Page struct {
	Nodes []Node // sorted by key
	More  bool   // there may be children after the last of Nodes
	Next  string // for ListOptions.After, if More
}

// DefaultListLimit is the page size of a List without a limit.
const DefaultListLimit = 1000

// WatchScope says what a watch looks at.
type WatchScope uint8

const (
	WatchNode     WatchScope = iota // the node itself: created, written, deleted
	WatchChildren                   // the direct children: one created, written or deleted; nothing deeper
)

// Watch delivers signals.
type Watch interface {
	// C carries a signal after each change; signals that nobody took are
	// merged into one. It is closed when the watch ends.
	C() <-chan struct{}
	// Err tells why C was closed: the context's error or ErrClosed.
	Err() error
}

// SessionOptions sets up a session.
type SessionOptions struct {
	TTL    time.Duration // 0 = DefaultSessionTTL; stores may round up to whole seconds
	Resume SessionID     // continue this session if it still lives; ErrSessionLost if not
	Secret []byte        // what Session.Secret gave for the session to resume, where a store needs it
}

// DefaultSessionTTL is how long a session without a TTL of its own outlives its
// holder.
const DefaultSessionTTL = 10 * time.Second

// Session owns ephemeral nodes. It keeps itself alive until Close.
type Session interface {
	ID() SessionID
	Secret() []byte        // to resume it with, nil if the store needs none
	Done() <-chan struct{} // closed once the session is known to be lost or closed
	// Close ends the session at the store, which deletes its nodes.
	Close(ctx context.Context) error
	// Abandon stops keeping the session alive without ending it: its nodes stay
	// until the TTL is over, or until another resumes it. Done is closed, as
	// this holder will not learn when they go.
	Abandon()
}
