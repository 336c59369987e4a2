package conn

import (
	"time"

	"github.com/loglode/loglode/bookie/bk"
)

// Ack is a bookie's answer to one add.
type Ack struct {
	Entry  bk.EntryID
	Status bk.Status
}

// AddSink takes the answers to the adds of one ledger. Its methods run on a
// goroutine of the connection, with no lock of this package held.
type AddSink interface {
	// AddsDone hands over answers in the order they came. acks is not kept
	// after return.
	AddsDone(a *Adds, acks []Ack)
	// AddsLost says that no answer will come any more, for all that was sent
	// through a and is not answered, from first on. It comes at most once, and
	// a is of no more use then.
	AddsLost(a *Adds, first bk.EntryID, err error)
}

// Adds sends the adds of one ledger to one bookie, in protocol version 2, and
// tracks their answers.
type Adds struct {
	link    *link
	ledger  bk.LedgerID
	sink    AddSink
	timeout time.Duration

	// Tag is the caller's.
	Tag int
	Gen uint32

	// Guarded by link.mu.
	ring    ring
	dead    bool
	charged *Chunk // counted in link.queued, since
	batch   uint64 // link.batches was this
}

// Adds opens the way for adds of a ledger to the bookie. timeout is for each
// add. One Adds per ledger and bookie receives answers: the newest.
func (b *Bookie) Adds(l bk.LedgerID, timeout time.Duration, sink AddSink) *Adds {
	a := &Adds{link: b.links[v2], ledger: l, sink: sink, timeout: timeout}
	a.link.mu.Lock()
	defer a.link.mu.Unlock()
	if old := a.link.adds[l]; old != nil {
		old.dead = true
	}
	a.link.adds[l] = a
	return a
}

// Bookie is where the adds go.
func (a *Adds) Bookie() *Bookie { return a.link.bookie }

// Send queues the frame of the add of entry e; Flush sends it. Entries must
// come in rising order. An error means that this and later adds cannot be sent;
// AddsLost does not come for them.
func (a *Adds) Send(e bk.EntryID, c *Chunk, from, to int) error {
	l := a.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.dead {
		return errDetached
	}
	if err := l.ready(); err != nil {
		return err
	}
	// What a queue holds is whole chunks, however little of them is for this
	// bookie. Those of one ledger come one after another.
	cost := 0
	if a.charged != c || a.batch != l.batches {
		cost = c.Size()
	}
	if err := l.room(cost); err != nil {
		return err
	}
	if !a.ring.sent(e, l.pool.now()) {
		return errOrder
	}
	a.charged, a.batch = c, l.batches
	l.queue = appendSpan(l.queue, c, from, to)
	l.queued += cost
	return nil
}

// Flush sends what is queued on the connection, if that goes without waiting;
// else the connection's writer goroutine does.
func (a *Adds) Flush() { a.link.flush() }

// Kick has the connection's writer goroutine send what is queued.
func (a *Adds) Kick() { a.link.kick() }

// Epoch tells the connections of a's bookie apart: it is greater for each new
// one, and never 0. Within AddsDone it is that of the connection that brought
// the answers.
func (a *Adds) Epoch() uint64 {
	a.link.mu.Lock()
	defer a.link.mu.Unlock()
	return a.link.epoch
}

// Queued is how many bytes wait to be sent on the connection that a uses.
func (a *Adds) Queued() int {
	a.link.mu.Lock()
	defer a.link.mu.Unlock()
	return a.link.queued + a.link.sending
}

// Shed detaches a and gives up its connection, because of err, with all that
// waits to be sent there.
func (a *Adds) Shed(err error) {
	a.Detach()
	a.link.mu.Lock()
	defer a.link.mu.Unlock()
	a.link.giveUp(err)
}

// Detach ends the delivery of answers. None starts after it returns; one that
// has started may still be running.
func (a *Adds) Detach() {
	l := a.link
	l.mu.Lock()
	defer l.mu.Unlock()
	a.dead = true
	if l.adds[a.ledger] == a {
		delete(l.adds, a.ledger)
	}
}

// lost takes a, some of whose adds wait, out of the connection's table, and
// gives the first of these; false if there is nobody to tell. The caller holds
// link.mu.
func (a *Adds) lost() (first bk.EntryID, sent time.Duration, tell bool) {
	if a.link.adds[a.ledger] == a {
		delete(a.link.adds, a.ledger)
	}
	first, sent, waits := a.ring.oldest()
	tell = !a.dead && waits
	a.dead = true
	return first, sent, tell
}
