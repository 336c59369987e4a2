package storetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/loglode/loglode/metadata"
)

// Fault is what becomes of one call.
type Fault uint8

const (
	Pass        Fault = iota // as if nothing were there
	Refuse                   // not done, and the caller knows: metadata.ErrUnavailable
	LoseRequest              // not done; a Txn's caller cannot know: metadata.ErrUnknownOutcome
	LoseAnswer               // done; a Txn's caller cannot know: metadata.ErrUnknownOutcome
)

func (f Fault) String() string {
	return [...]string{"Pass", "Refuse", "LoseRequest", "LoseAnswer"}[f]
}

// Call is one call that a Faulty is asked about.
type Call struct {
	Method string        // "Get", "List", "Txn", "Watch", "Session"
	Key    string        // of Get, List and Watch; of the first operation of a Txn
	Ops    []metadata.Op // of a Txn
	N      int           // how many calls of this method came before
}

// Faulty is a metadata.Store whose calls can be made to fail. Its zero hook
// passes everything.
type Faulty struct {
	metadata.Store

	mu       sync.Mutex // guards what follows
	hook     func(context.Context, Call) Fault
	calls    map[string]int
	deaf     bool
	watches  map[*faultyWatch]struct{}
	sessions []metadata.Session
}

// NewFaulty wraps s.
func NewFaulty(s metadata.Store) *Faulty {
	return &Faulty{Store: s, calls: map[string]int{}, watches: map[*faultyWatch]struct{}{}}
}

// OnCall sets what decides about each call, and counts calls from 0 again. The
// hook is called with no lock held, by many goroutines; it delays a call by
// blocking, and ought to return when ctx ends.
func (f *Faulty) OnCall(hook func(ctx context.Context, c Call) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
	clear(f.calls)
}

// FailNth makes the n-th call of a method from now (0 = the next) fail, once.
func (f *Faulty) FailNth(method string, n int, fault Fault) {
	f.OnCall(func(_ context.Context, c Call) Fault {
		if c.Method == method && c.N == n {
			return fault
		}
		return Pass
	})
}

func (f *Faulty) decide(ctx context.Context, c Call) Fault {
	f.mu.Lock()
	c.N = f.calls[c.Method]
	f.calls[c.Method]++
	hook := f.hook
	f.mu.Unlock()
	if hook == nil {
		return Pass
	}
	return hook(ctx, c)
}

// read decides about a call that changes nothing: a lost answer is then as good
// as a refusal.
func (f *Faulty) read(ctx context.Context, method, key string) error {
	if fault := f.decide(ctx, Call{Method: method, Key: key}); fault != Pass {
		return fmt.Errorf("%s %q: fault %v: %w", method, key, fault, metadata.ErrUnavailable)
	}
	return nil
}

// Get is metadata.Store.Get.
func (f *Faulty) Get(ctx context.Context, key string) (metadata.Node, error) {
	if err := f.read(ctx, "Get", key); err != nil {
		return metadata.Node{}, err
	}
	return f.Store.Get(ctx, key)
}

// List is metadata.Store.List.
func (f *Faulty) List(ctx context.Context, key string, opts metadata.ListOptions) (metadata.Page, error) {
	if err := f.read(ctx, "List", key); err != nil {
		return metadata.Page{}, err
	}
	return f.Store.List(ctx, key, opts)
}

// Txn is metadata.Store.Txn. A refusal by the store itself gets lost like any
// other answer.
func (f *Faulty) Txn(ctx context.Context, ops ...metadata.Op) (metadata.Result, error) {
	c := Call{Method: "Txn", Ops: ops}
	if len(ops) > 0 {
		c.Key = ops[0].Key
	}
	fault := f.decide(ctx, c)
	var res metadata.Result
	var err error
	if fault == Pass || fault == LoseAnswer {
		res, err = f.Store.Txn(ctx, ops...)
	}
	switch fault {
	case Refuse:
		err = fmt.Errorf("txn on %q: fault %v: %w", c.Key, fault, metadata.ErrUnavailable)
	case LoseRequest, LoseAnswer:
		err = fmt.Errorf("txn on %q: fault %v: %w", c.Key, fault, metadata.ErrUnknownOutcome)
	default:
		return res, err
	}
	return metadata.Result{}, err
}

// Session is metadata.Store.Session.
func (f *Faulty) Session(ctx context.Context, opts metadata.SessionOptions) (metadata.Session, error) {
	if err := f.read(ctx, "Session", ""); err != nil {
		return nil, err
	}
	s, err := f.Store.Session(ctx, opts)
	if err == nil {
		f.mu.Lock()
		f.sessions = append(f.sessions, s)
		f.mu.Unlock()
	}
	return s, err
}

// ExpireSessions ends all sessions opened here, as if their TTL had passed
// unnoticed: their nodes go and each holder finds Done closed.
func (f *Faulty) ExpireSessions(ctx context.Context) error {
	f.mu.Lock()
	sessions := f.sessions
	f.sessions = nil
	f.mu.Unlock()
	for _, s := range sessions {
		if err := s.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// DropWatches makes all watches deaf, as during a network failure that nobody
// notices. HealWatches ends that; each watch then signals, as it may have
// missed something.
func (f *Faulty) DropWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = true
}

// HealWatches ends DropWatches.
func (f *Faulty) HealWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = false
	for w := range f.watches {
		w.signal()
	}
}

// faultyWatch passes signals on, unless its Faulty is deaf. Its goroutine ends
// with the watch behind it.
type faultyWatch struct {
	metadata.Watch
	f *Faulty
	c chan struct{}
}

func (w *faultyWatch) C() <-chan struct{} { return w.c }

// signal is called with the mutex held.
func (w *faultyWatch) signal() {
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// Watch is metadata.Store.Watch.
func (f *Faulty) Watch(ctx context.Context, key string, scope metadata.WatchScope) (metadata.Watch, error) {
	if err := f.read(ctx, "Watch", key); err != nil {
		return nil, err
	}
	inner, err := f.Store.Watch(ctx, key, scope)
	if err != nil {
		return nil, err
	}
	w := &faultyWatch{Watch: inner, f: f, c: make(chan struct{}, 1)}
	f.mu.Lock()
	f.watches[w] = struct{}{}
	f.mu.Unlock()
	go func() {
		for range inner.C() {
			f.mu.Lock()
			if !f.deaf {
				w.signal()
			}
			f.mu.Unlock()
		}
		f.mu.Lock()
		delete(f.watches, w)
		close(w.c)
		f.mu.Unlock()
	}()
	return w, nil
}
