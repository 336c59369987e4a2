package bookie

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/internal/journal"
	"github.com/loglode/loglode/bookie/internal/ledgerstate"
)

// AddFlags modify one add.
type AddFlags uint8

const (
	AddRecovery     AddFlags = 1 << iota // allowed on a fenced ledger
	AddHighPriority                      // allowed on a read-only bookie
	AddDeferredSync                      // durable only after Force; this bookie syncs it all the same
)

// Add is one entry to store. Ledger and Entry are the ids of the request and
// are only echoed: the ids in the body rule.
type Add struct {
	Ledger    bk.LedgerID
	Entry     bk.EntryID
	MasterKey []byte
	Body      []byte
	Flags     AddFlags
	Tag       uint64 // the caller's own, echoed
}

// AddResult is the answer to one Add.
type AddResult struct {
	Ledger bk.LedgerID
	Entry  bk.EntryID
	Tag    uint64
	Status bk.Status
}

// AddSink takes the results of adds. AddsDone is called by a journal goroutine
// or inside AddBatch, with no lock held; it must not block or call the bookie,
// and may not keep results. Results of one journal group come in one call. Use
// a pointer as sink: sinks are compared.
type AddSink interface {
	AddsDone(results []AddResult)
}

// BodySizeMax is the size in bytes of the largest body a bookie stores; frames
// are smaller.
const BodySizeMax = 16 << 20

// runBytesMax bounds what is stored under one lock of a ledger.
const runBytesMax = 512 << 10

// pending is a run of adds of one ledger on its way through a journal. It
// comes from Bookie.pendings and returns there once it was answered.
type pending struct {
	b       *Bookie
	sink    AddSink
	results []AddResult

	// Of the goroutine that adds.
	bodies  [][]byte
	recs    []journal.Record
	key     []byte // of the ledger; not owned
	keyRec  []byte
	waiters []*ledgerstate.Waiter
}

func (p *pending) recycle() {
	clear(p.bodies)
	clear(p.recs)
	clear(p.waiters)
	p.sink, p.key = nil, nil
	p.results, p.bodies, p.recs, p.waiters = p.results[:0], p.bodies[:0], p.recs[:0], p.waiters[:0]
	p.b.pendings.Put(p)
}

// Done is not used: the journal's Settled takes pendings together.
func (p *pending) Done(err error) {
	setStatus(p.results, statusOf(err))
	p.sink.AddsDone(p.results)
	p.recycle()
}

func statusOf(err error) bk.Status {
	if err != nil {
		return bk.StatusIO
	}
	return bk.StatusOK
}

func setStatus(rs []AddResult, s bk.Status) {
	for i := range rs {
		rs[i].Status = s
	}
}

// refusals are results that are known before the journal has a part in it.
type refusals []AddResult

func (r *refusals) add(a *Add, s bk.Status) {
	*r = append(*r, AddResult{Ledger: a.Ledger, Entry: a.Entry, Tag: a.Tag, Status: s})
}

// AddBatch stores adds. Each gets exactly one result at sink. Body and
// MasterKey are copied before AddBatch returns. It waits, up to
// Options.AddWait for the whole batch, for room in the write cache and in the
// journal's queue.
func (b *Bookie) AddBatch(sink AddSink, adds []Add) {
	var refused refusals
	wait := patience{most: b.o.AddWait}
	if b.enter() {
		for len(adds) > 0 {
			n := runLength(adds)
			if n == 0 {
				refused.add(&adds[0], bk.StatusBadRequest)
				n = 1
			} else {
				b.addRun(sink, adds[:n], &refused, &wait)
			}
			adds = adds[n:]
		}
		b.leave()
	}
	for i := range adds { // closed
		refused.add(&adds[i], bk.StatusIO)
	}
	if len(refused) > 0 {
		sink.AddsDone(refused)
	}
}

// patience is how long a batch may still wait, from its first wait on.
type patience struct {
	most  time.Duration
	until time.Time
}

func (p *patience) left() time.Duration {
	if p.until.IsZero() {
		p.until = time.Now().Add(p.most)
	}
	return time.Until(p.until)
}

// runLength tells how many adds from the first on are good and of one ledger.
func runLength(adds []Add) int {
	var l bk.LedgerID
	size := 0
	for i := range adds {
		body := adds[i].Body
		if len(body) < bk.MinBodySize || len(body) > BodySizeMax {
			return i
		}
		if i == 0 {
			if l = bk.BodyLedger(body); l < 0 {
				return 0
			}
		}
		size += len(body)
		if bk.BodyLedger(body) != l || i > 0 && size > runBytesMax {
			return i
		}
	}
	return len(adds)
}

// addRun stores adds of one ledger. The lock of its state is held from the
// check of the fence until the records are queued, so a fence is behind every
// add that it did not refuse, in the write cache and in the journal.
func (b *Bookie) addRun(sink AddSink, run []Add, refused *refusals, wait *patience) {
	l := bk.BodyLedger(run[0].Body)
	s, j := b.shardOf(l), b.journalOf(l)
	p := b.pendings.Get().(*pending)
	p.sink = sink
	size := 0
	for i := range run {
		size += len(run[i].Body)
	}
	fail := func(status bk.Status) {
		for i := range run {
			refused.add(&run[i], status)
		}
		p.recycle()
	}
	if j.Stalled() {
		fail(bk.StatusReadOnly)
		return
	}
	if !j.Room(size) && !j.WaitRoom(size, wait.left()) {
		fail(bk.StatusTooManyRequests)
		return
	}
	for {
		st, err := s.table.Lock(l)
		if err != nil {
			b.logError("ledger state", l, err)
			fail(bk.StatusIO)
			return
		}
		mark := len(*refused)
		b.check(st, run, p, refused)
		if len(p.bodies) == 0 {
			st.Unlock()
			p.recycle()
			return
		}
		if s.cache.Put(p.bodies) {
			b.queue(s, j, st, p, refused)
			return
		}
		room := s.cache.Room()
		st.Unlock()
		*refused = (*refused)[:mark]
		p.results, p.bodies = p.results[:0], p.bodies[:0]
		if !s.waitRoom(room, wait.left()) {
			fail(bk.StatusTooManyRequests)
			return
		}
	}
}

// check sorts adds into those to store, in p, and those refused. The state is
// locked.
func (b *Bookie) check(st *ledgerstate.State, run []Add, p *pending, refused *refusals) {
	known, state := st.Exists, b.state.get()
	p.key = st.Key
	for i := range run {
		a := &run[i]
		if state != Writable && a.Flags&AddHighPriority == 0 {
			refused.add(a, bk.StatusReadOnly)
			continue
		}
		if state == Failed {
			refused.add(a, bk.StatusIO)
			continue
		}
		if !known {
			known, p.key = true, a.MasterKey
		}
		switch {
		case !sameKey(p.key, a.MasterKey):
			refused.add(a, bk.StatusUnauthorized)
		case st.Fenced && a.Flags&AddRecovery == 0:
			refused.add(a, bk.StatusFenced)
		default:
			p.bodies = append(p.bodies, a.Body)
			p.results = append(p.results, AddResult{Ledger: a.Ledger, Entry: a.Entry, Tag: a.Tag})
		}
	}
}

func sameKey(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }

// queue hands adds that are in the write cache to the journal, and unlocks the
// state.
func (b *Bookie) queue(s *shard, j *journalRef, st *ledgerstate.State, p *pending, refused *refusals) {
	if !st.Exists {
		p.recs = append(p.recs, b.create(s, st, p.key, p))
	}
	for _, body := range p.bodies {
		st.Added(bk.BodyEntry(body), bk.BodyLAC(body))
		p.recs = append(p.recs, journal.Record{Type: journal.TypeAdd, Body: body})
	}
	s.table.MarkDirty(st)
	// From here on p belongs to the journal, which may answer and recycle it at
	// once; waiters are taken out of it before.
	p.waiters = st.Ready(p.waiters)
	lac, waiters := st.LAC, p.waiters
	p.waiters = nil
	err := j.Append(p, p.recs)
	st.Unlock()
	if err != nil {
		for i := range p.results {
			r := p.results[i]
			r.Status = bk.StatusIO
			*refused = append(*refused, r)
		}
		p.recycle()
	}
	for _, w := range waiters {
		w.Fn(lac)
	}
}

// create makes a ledger known and gives the journal record of its key. The
// state is locked.
func (b *Bookie) create(s *shard, st *ledgerstate.State, key []byte, p *pending) journal.Record {
	st.Exists, st.Key = true, bytes.Clone(key)
	s.table.MarkDirty(st)
	p.keyRec = keyRecord(p.keyRec[:0], st.ID, key)
	return journal.Record{Type: journal.TypeKey, Body: p.keyRec}
}

func keyRecord(dst []byte, l bk.LedgerID, key []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(l)), key...)
}
