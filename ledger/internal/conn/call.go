package conn

import (
	"fmt"
	"time"

	"github.com/loglode/loglode/bookie/bk"
)

// Op is what a Call asks for.
type Op uint8

// The operations, and the fields of Call they use.
const (
	OpRead        Op = iota + 1 // v2: Ledger, Entry (bk.InvalidEntryID: the highest held)
	OpBatchRead                 // v2: Ledger, Entry, Count, MaxBytes
	OpFenceRead                 // v3: Ledger, Entry, Key; high priority
	OpRecoveryAdd               // v3: Ledger, Entry, Key, Payload = entry body; high priority
	OpDeferredAdd               // v3: Ledger, Entry, Key, Payload = entry body
	OpLongPoll                  // v3: Ledger, Entry = previous LAC, Wait
	OpReadLAC                   // v3: Ledger
	OpWriteLAC                  // v3: Ledger, Entry = LAC, Key, Payload = LAC body
	OpForce                     // v3: Ledger
)

func (o Op) String() string {
	names := [...]string{"", "read", "batch read", "fencing read", "recovery add", "deferred add",
		"long poll", "read LAC", "write LAC", "force"}
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

func (c *Call) v2() bool { return c.Op == OpRead || c.Op == OpBatchRead }

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

type readKey struct {
	ledger bk.LedgerID
	entry  bk.EntryID
}

// calls are those without an answer on one connection.
type calls struct {
	byID  map[uint64]*Call
	reads map[readKey]*Call
}

func (s *calls) add(c *Call) {
	if c.Op != OpRead {
		s.byID[c.id] = c
		return
	}
	k := readKey{c.Ledger, c.Entry}
	c.next = nil
	head := s.reads[k]
	if head == nil {
		s.reads[k] = c
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

// takeRead removes the oldest read with this key; nil if there is none.
func (s *calls) takeRead(k readKey) *Call {
	c := s.reads[k]
	if c == nil {
		return nil
	}
	if c.next == nil {
		delete(s.reads, k)
	} else {
		s.reads[k] = c.next
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
	for k, c := range s.reads {
		var first, last *Call
		for ; c != nil; c = c.next {
			switch {
			case c.deadline <= now:
				due = append(due, c)
			case first == nil:
				first, last = c, c
			default:
				last.next = c
				last = c
			}
		}
		if first == nil {
			delete(s.reads, k)
			continue
		}
		last.next = nil
		s.reads[k] = first
	}
	return due
}

const forever = time.Duration(1<<63 - 1)

// takeAll empties the set.
func (s *calls) takeAll() []*Call { return s.takeDue(forever) }
