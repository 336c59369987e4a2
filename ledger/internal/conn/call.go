package conn

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/loglode/loglode/bookie/bk"
)

// Op is what a Call asks for.
type Op uint8

// The operations, and the fields of Call they use.
const (
	OpRead          Op = iota + 1 // v2: Ledger, Entry (bk.InvalidEntryID: the highest held)
	OpBatchRead                   // v2: Ledger, Entry, Count, MaxBytes
	OpFenceRead                   // v3: Ledger, Entry, Key; high priority
	OpRecoveryAdd                 // v3: Ledger, Entry, Key, Payload = entry body; high priority
	OpDeferredAdd                 // v3: Ledger, Entry, Key, Payload = entry body
	OpLongPoll                    // v3: Ledger, Entry = previous LAC, Wait
	OpReadLAC                     // v3: Ledger
	OpWriteLAC                    // v3: Ledger, Entry = LAC, Key, Payload = LAC body
	OpForce                       // v3: Ledger
	OpFenceReadV2                 // v2: as OpFenceRead, for what does not fit a frame of version 3
	OpRecoveryAddV2               // v2: as OpRecoveryAdd, likewise
)

func (o Op) String() string {
	names := [...]string{"", "read", "batch read", "fencing read", "recovery add", "deferred add",
		"long poll", "read LAC", "write LAC", "force", "fencing read (version 2)", "recovery add (version 2)"}
	if int(o) < len(names) && o > 0 {
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Call is one request to one bookie and its answer. It goes to Done exactly
// once, on a goroutine of the connection with no lock held, or, if it could not
// be sent, within Start. Done must not block; nil if nobody wants the answer.
type Call struct {
	Op       Op
	Ledger   bk.LedgerID
	Entry    bk.EntryID
	Key      *[bk.MasterKeySize]byte
	Payload  []byte // not kept after Start returns
	Count    int32
	MaxBytes int64
	Wait     time.Duration // how long the bookie may hold a long poll
	Timeout  time.Duration // for the answer, from Start
	Tag      int           // the caller's, as is Owner
	Owner    any
	Done     func(*Call)

	Bookie *Bookie // who was asked

	// The answer. Err is nil when the bookie answered, whatever its status.
	Err     error
	Status  bk.Status
	Answer  bk.EntryID // entry id in the answer
	Body    []byte     // entry body; of a batch read size-prefixed bodies. The receiver's, until Free
	LACBody []byte     // read LAC: explicit LAC
	MaxLAC  bk.EntryID // bk.InvalidEntryID: not told

	wrong    error // what the answer lies about
	id       uint64
	deadline time.Duration
	next     *Call // in a chain of calls with one key
	pooled   *[]byte
}

// Failure is why the call gave no data: the lost connection, the timeout or the
// status, as a *bk.BookieError. nil after bk.StatusOK.
func (c *Call) Failure() error {
	err := c.Err
	if err == nil {
		err = c.Status.Err()
	}
	if err == nil {
		return nil
	}
	return &bk.BookieError{Bookie: c.Bookie.id, Err: err}
}

func (c *Call) v2() bool {
	switch c.Op {
	case OpRead, OpBatchRead, OpFenceReadV2, OpRecoveryAddV2:
		return true
	}
	return false
}

// byKey reports whether the call's answer names ledger and entry alone.
func (c *Call) byKey() bool { return c.v2() && c.Op != OpBatchRead }

// finish hands the call back.
func (c *Call) finish(err error) {
	c.Err = err
	if c.Done != nil {
		c.Done(c)
	}
}

// Free gives the memory of a batch read's Body back for use by others.
func (c *Call) Free() {
	if c.pooled != nil {
		*c.pooled = c.Body[:0]
		c.Bookie.links[v2].pool.bodies.Put(c.pooled)
		c.pooled, c.Body = nil, nil
	}
}

// callKey is what an answer of version 2 names.
type callKey struct {
	add    bool
	ledger bk.LedgerID
	entry  bk.EntryID
}

func keyOf(c *Call) callKey { return callKey{c.Op == OpRecoveryAddV2, c.Ledger, c.Entry} }

// calls are those without an answer on one connection.
type calls struct {
	byID  map[uint64]*Call
	byKey map[callKey]*Call
	adds  atomic.Int32 // OpRecoveryAddV2 among them; written under the link's mu
	// expired: a call of byKey was given up. Its answer may still come, and be
	// taken for that of another.
	expired bool
}

// clash refuses a call whose answer could be taken for that of another where
// that matters: a fence is set by a fencing read alone.
func (s *calls) clash(c *Call) bool {
	head := s.byKey[keyOf(c)]
	switch c.Op {
	case OpFenceReadV2, OpRecoveryAddV2:
		return head != nil || s.expired
	case OpRead:
		return head != nil && head.Op == OpFenceReadV2
	}
	return false
}

func (s *calls) add(c *Call) {
	if !c.byKey() {
		s.byID[c.id] = c
		return
	}
	if c.Op == OpRecoveryAddV2 {
		s.adds.Add(1)
	}
	k := keyOf(c)
	c.next = nil
	head := s.byKey[k]
	if head == nil {
		s.byKey[k] = c
		return
	}
	for head.next != nil {
		head = head.next
	}
	head.next = c
}

// takeID removes the call with this id; nil if there is none.
func (s *calls) takeID(id uint64) *Call {
	c := s.byID[id]
	delete(s.byID, id)
	return c
}

// takeKey removes the oldest call with this key; nil if there is none.
func (s *calls) takeKey(k callKey) *Call {
	c := s.byKey[k]
	if c == nil {
		return nil
	}
	if c.next == nil {
		delete(s.byKey, k)
	} else {
		s.byKey[k] = c.next
	}
	if c.Op == OpRecoveryAddV2 {
		s.adds.Add(-1)
	}
	return c
}

// takeDue removes all calls whose deadline is at or before now.
func (s *calls) takeDue(now time.Duration) []*Call {
	var due []*Call
	for id, c := range s.byID {
		if c.deadline <= now {
			due = append(due, c)
			delete(s.byID, id)
		}
	}
	for k, c := range s.byKey {
		var first, last *Call
		for ; c != nil; c = c.next {
			switch {
			case c.deadline <= now:
				due = append(due, c)
				s.expired = true
				if c.Op == OpRecoveryAddV2 {
					s.adds.Add(-1)
				}
			case first == nil:
				first, last = c, c
			default:
				last.next = c
				last = c
			}
		}
		if first == nil {
			delete(s.byKey, k)
			continue
		}
		last.next = nil
		s.byKey[k] = first
	}
	return due
}

const forever = time.Duration(1<<63 - 1)

// takeAll empties the set: the connection is over.
func (s *calls) takeAll() []*Call {
	all := s.takeDue(forever)
	s.expired = false
	return all
}
