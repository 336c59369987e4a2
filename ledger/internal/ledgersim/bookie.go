package ledgersim

import (
	"fmt"

	"github.com/loglode/loglode/bookie/bk"
)

// copyOf is one stored copy of an entry. Copies of one entry differ in lac
// only.
type copyOf struct {
	payload uint64 // 0 means: not stored
	lac     bk.EntryID
	length  int64
}

// stored is what a bookie holds of one ledger.
type stored struct {
	known   bool // an add or a fence has been here
	fenced  bool
	entries []copyOf // by entry id
}

func (l *stored) put(e bk.EntryID, c copyOf) {
	l.known = true
	for int(e) >= len(l.entries) {
		l.entries = append(l.entries, copyOf{})
	}
	l.entries[e] = c
}

func (l *stored) get(e bk.EntryID) (copyOf, bool) {
	if e < 0 || int(e) >= len(l.entries) || l.entries[e].payload == 0 {
		return copyOf{}, false
	}
	return l.entries[e], true
}

func (l *stored) last() (bk.EntryID, bool) {
	for e := len(l.entries) - 1; e >= 0; e-- {
		if l.entries[e].payload != 0 {
			return bk.EntryID(e), true
		}
	}
	return bk.InvalidEntryID, false
}

// bookie is a storage node: what it knows, what of that is on disk, and the
// journal between the two.
type bookie struct {
	s        *sim
	id       bk.BookieID
	n        int
	up       bool
	life     int // counts starts: events of an earlier life are void
	readOnly bool
	mem      []stored // by ledger
	disk     []stored
	explicit []bk.EntryID // explicit LAC, in memory only
	journal  []journalOp
	syncing  bool
}

// journalOp is one record not yet synced.
type journalOp struct {
	ledger int
	entry  bk.EntryID
	copy   copyOf
	fence  bool
	done   func()
}

func newBookie(s *sim, n int) *bookie {
	return &bookie{s: s, n: n, id: bk.BookieID(fmt.Sprintf("b%d", n)), up: true}
}

func grow(l []stored, n int) []stored {
	for n >= len(l) {
		l = append(l, stored{})
	}
	return l
}

func (b *bookie) of(l int) *stored {
	b.mem = grow(b.mem, l)
	return &b.mem[l]
}

func (b *bookie) onDisk(l int) *stored {
	b.disk = grow(b.disk, l)
	return &b.disk[l]
}

// op is the kind of a request to a bookie.
type op uint8

const (
	opAdd op = iota
	opRecoveryAdd
	opRead
	opFenceRead
	opLACRead // the last entry, with the fence
	opWriteLAC
	opCount
)

// request is one request to a bookie. A read of entry -1 asks for the last.
type request struct {
	op     op
	ledger int
	entry  bk.EntryID
	copy   copyOf // adds; explicit LAC in lac
}

// answer is a bookie's answer, or what a client makes of none.
type answer struct {
	err      error
	entry    bk.EntryID
	copy     copyOf
	explicit bk.EntryID
}

// serve handles one request. reply is called once, or never.
func (b *bookie) serve(r request, reply func(answer)) {
	st := b.of(r.ledger)
	switch r.op {
	case opAdd, opRecoveryAdd:
		switch {
		case r.op == opAdd && st.fenced:
			reply(answer{err: bk.ErrFenced})
		case r.op == opAdd && b.readOnly:
			reply(answer{err: bk.ErrReadOnly})
		default:
			st.put(r.entry, r.copy)
			if b.s.opts.Bug&BugAckBeforeSync != 0 {
				reply(answer{})
				reply = nil
			}
			b.write(journalOp{ledger: r.ledger, entry: r.entry, copy: r.copy, done: answerOK(reply)})
		}
	case opWriteLAC:
		for r.ledger >= len(b.explicit) {
			b.explicit = append(b.explicit, bk.InvalidEntryID)
		}
		b.explicit[r.ledger] = max(b.explicit[r.ledger], r.copy.lac)
		reply(answer{})
	case opRead:
		reply(b.read(r))
	case opFenceRead, opLACRead:
		b.fenceRead(r, st, reply)
	}
}

func answerOK(reply func(answer)) func() {
	if reply == nil {
		return func() {}
	}
	return func() { reply(answer{}) }
}

// fenceRead answers when the fence is on disk, also when another request set
// it and it is not there yet.
func (b *bookie) fenceRead(r request, st *stored, reply func(answer)) {
	st.known, st.fenced = true, true
	if b.onDisk(r.ledger).fenced {
		reply(b.read(r))
		return
	}
	if b.s.opts.Bug&BugFenceInMemory != 0 {
		reply(b.read(r))
		return
	}
	b.write(journalOp{ledger: r.ledger, fence: true, done: func() { reply(b.read(r)) }})
}

func (b *bookie) read(r request) answer {
	st := b.of(r.ledger)
	if !st.known {
		return answer{err: bk.ErrNoSuchLedger}
	}
	a := answer{entry: r.entry, explicit: bk.InvalidEntryID}
	if r.ledger < len(b.explicit) {
		a.explicit = b.explicit[r.ledger]
	}
	ok := true
	if r.entry == bk.InvalidEntryID {
		a.entry, ok = st.last()
	}
	if ok {
		a.copy, ok = st.get(a.entry)
	}
	if !ok {
		return answer{err: bk.ErrNoSuchEntry}
	}
	return a
}

// write journals an op: it is on disk, and answered, after the next sync.
func (b *bookie) write(o journalOp) {
	b.journal = append(b.journal, o)
	if b.syncing {
		return
	}
	b.syncing = true
	life := b.life
	b.s.after(1+b.s.rng.Int64N(b.s.prof.syncMax), func() {
		if b.life == life {
			b.sync()
		}
	})
}

func (b *bookie) sync() {
	b.syncing = false
	ops := b.journal
	b.journal = nil
	for _, o := range ops {
		b.persist(o)
	}
	for _, o := range ops {
		o.done()
	}
}

func (b *bookie) persist(o journalOp) {
	st := b.onDisk(o.ledger)
	if o.fence {
		st.known, st.fenced = true, true
		return
	}
	st.put(o.entry, o.copy)
}

// crash ends the process. Of the records not synced, a prefix survives.
func (b *bookie) crash() {
	if !b.up {
		return
	}
	b.s.stats.Crashes++
	b.up = false
	b.life++
	keep := b.s.rng.IntN(len(b.journal) + 1)
	b.s.tracef("%s crashes, %d of %d unsynced records survive", b.id, keep, len(b.journal))
	for _, o := range b.journal[:keep] {
		b.persist(o)
	}
	b.journal, b.syncing, b.explicit = nil, false, nil
}

// start replays the disk.
func (b *bookie) start() {
	if b.up {
		return
	}
	b.s.tracef("%s starts", b.id)
	b.up = true
	b.mem = nil
	for i := range b.disk {
		d := b.disk[i]
		d.entries = append([]copyOf(nil), d.entries...)
		b.mem = append(b.mem, d)
	}
}
