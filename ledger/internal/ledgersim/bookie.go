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
	known    bool // an add or a fence has been here
	fenced   bool
	limbo    bool       // the disk was lost: what is not here may have been
	lac      bk.EntryID // largest LAC in an entry, plus one
	explicit bk.EntryID // explicit LAC, plus one; in memory only
	entries  []copyOf   // by entry id
}

func (l *stored) put(e bk.EntryID, c copyOf) {
	l.known = true
	for int(e) >= len(l.entries) {
		l.entries = append(l.entries, copyOf{})
	}
	l.entries[e] = c
	l.lac = max(l.lac, c.lac+1)
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

// clear forgets everything and keeps the memory.
func (l *stored) clear() { *l = stored{entries: l.entries[:0]} }

// assign makes l a copy of o.
func (l *stored) assign(o *stored) {
	entries := append(l.entries[:0], o.entries...)
	*l = *o
	l.entries = entries
}

// shelf is what a bookie holds, by ledger.
type shelf []stored

// of gives ledger l, from memory kept of an earlier schedule where there is some.
func (h *shelf) of(l int) *stored {
	for l >= len(*h) {
		if n := len(*h); n < cap(*h) {
			*h = (*h)[:n+1]
			(*h)[n].clear()
		} else {
			*h = append(*h, stored{})
		}
	}
	return &(*h)[l]
}

// bookie is a storage node: what it knows, what of that is on disk, and the
// journal between the two.
type bookie struct {
	s        *sim
	id       bk.BookieID
	n        int
	up       bool
	gone     bool     // for good
	lostBy   Features // how it lost its disk, until it starts again
	life     int      // counts starts: events of an earlier life are void
	readOnly bool
	mem      shelf
	disk     shelf
	lost     shelf // good copies that were on the disk when it was lost
	journal  []journalOp
	syncing  bool
}

// journalOp is one record not yet synced. call is answered when it is, -1 for
// none.
type journalOp struct {
	ledger int
	entry  bk.EntryID
	copy   copyOf
	what   journalWhat
	call   int32
}

type journalWhat uint8

const (
	journalAdd journalWhat = iota
	journalFence
	journalForce // nothing to write: the answer comes with the sync
)

func newBookie(s *sim, n int) *bookie {
	return &bookie{s: s, n: n, id: bookieIDs[n]}
}

var bookieIDs = func() (ids [bookiesMax]bk.BookieID) {
	for n := range ids {
		ids[n] = bk.BookieID(fmt.Sprintf("b%d", n))
	}
	return ids
}()

// reset makes an empty bookie that is up, with the memory of the one before.
func (b *bookie) reset() {
	*b = bookie{
		s: b.s, id: b.id, n: b.n, up: true,
		mem: b.mem[:0], disk: b.disk[:0], lost: b.lost[:0], journal: b.journal[:0],
	}
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
	opForce
	opPoll
	opCount
)

// request is one request to a bookie. A read of entry -1 asks for the last.
type request struct {
	op       op
	deferred bool // an add of a deferred-sync ledger
	ledger   int
	entry    bk.EntryID
	copy     copyOf // adds; explicit LAC in lac
}

// answer is a bookie's answer, or what a client makes of none.
type answer struct {
	err    error
	entry  bk.EntryID
	copy   copyOf
	maxLAC bk.EntryID
}

// serve handles the request of call i.
func (b *bookie) serve(i int32) {
	r := &b.s.calls[i].request
	st := b.mem.of(r.ledger)
	switch r.op {
	case opAdd, opRecoveryAdd:
		b.add(i, r, st)
	case opWriteLAC:
		st.explicit = max(st.explicit, r.copy.lac+1)
		b.s.reply(i, answer{})
	case opForce:
		if b.s.opts.Bug == BugForceUnsynced {
			b.s.reply(i, answer{})
			return
		}
		b.write(journalOp{what: journalForce, call: i})
	case opFenceRead, opLACRead:
		b.fenceRead(i, r, st)
	default:
		b.s.reply(i, b.read(r))
	}
}

func (b *bookie) add(i int32, r *request, st *stored) {
	switch {
	case r.op == opAdd && st.fenced:
		b.s.reply(i, answer{err: bk.ErrFenced})
		return
	case r.op == opAdd && b.readOnly:
		b.s.reply(i, answer{err: bk.ErrReadOnly})
		return
	}
	st.put(r.entry, r.copy)
	o := journalOp{ledger: r.ledger, entry: r.entry, copy: r.copy, call: i}
	if r.deferred || b.s.opts.Bug == BugAckBeforeSync {
		b.s.reply(i, answer{})
		o.call = -1
	}
	b.write(o)
}

// fenceRead answers when the fence is on disk, also when another request set
// it and it is not there yet.
func (b *bookie) fenceRead(i int32, r *request, st *stored) {
	st.known, st.fenced = true, true
	if b.disk.of(r.ledger).fenced || b.s.opts.Bug == BugFenceInMemory {
		b.s.reply(i, b.read(r))
		return
	}
	b.write(journalOp{ledger: r.ledger, what: journalFence, call: i})
}

func (b *bookie) read(r *request) answer {
	st := b.mem.of(r.ledger)
	if !st.known {
		return answer{err: bk.ErrNoSuchLedger}
	}
	a := answer{entry: r.entry, maxLAC: max(st.lac, st.explicit) - 1}
	ok := true
	switch {
	case r.op == opPoll:
		// The entry wanted comes along once the LAC has reached it.
		if a.copy, ok = st.get(r.entry); !ok || r.entry > a.maxLAC {
			a.entry, a.copy = bk.InvalidEntryID, copyOf{}
		}
		return a
	case r.entry == bk.InvalidEntryID:
		if st.limbo && b.s.opts.Bug != BugLimboMissing {
			return answer{err: bk.ErrUnknownLedgerState}
		}
		a.entry, ok = st.last()
	}
	if ok {
		a.copy, ok = st.get(a.entry)
	}
	switch {
	case ok:
		return a
	case st.limbo && b.s.opts.Bug != BugLimboMissing:
		return answer{err: bk.ErrUnknownLedgerState}
	default:
		return answer{err: bk.ErrNoSuchEntry}
	}
}

// write journals an op: it is on disk, and answered, after the next sync.
func (b *bookie) write(o journalOp) {
	if o.call >= 0 {
		b.s.calls[o.call].refs++
	}
	b.journal = append(b.journal, o)
	if b.syncing {
		return
	}
	b.syncing = true
	b.s.push(b.s.now+1+b.s.rng.Int64N(b.s.prof.syncMax), evSync, int32(b.n), int32(b.life))
}

func (b *bookie) sync() {
	b.syncing = false
	for i := range b.journal {
		b.persist(&b.journal[i])
	}
	for i := range b.journal {
		o := &b.journal[i]
		if o.call < 0 {
			continue
		}
		if o.what == journalFence {
			b.s.reply(o.call, b.read(&b.s.calls[o.call].request))
		} else {
			b.s.reply(o.call, answer{})
		}
		b.s.release(o.call)
	}
	b.journal = b.journal[:0]
}

func (b *bookie) persist(o *journalOp) {
	switch o.what {
	case journalAdd:
		b.disk.of(o.ledger).put(o.entry, o.copy)
	case journalFence:
		st := b.disk.of(o.ledger)
		st.known, st.fenced = true, true
	case journalForce:
	}
}
