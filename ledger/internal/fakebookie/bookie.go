package fakebookie

import (
	"bytes"
	"sync"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire"
)

// Request is what a hook sees.
type Request struct {
	Bookie   bk.BookieID
	Op       wire.Op
	V3       bool
	Ledger   bk.LedgerID
	Entry    bk.EntryID // of a batch read the first; of a long poll the previous LAC
	Fence    bool
	Recovery bool
	LongPoll bool
	Priority uint32
}

// Verdict says what becomes of a request.
type Verdict struct {
	kind   verdictKind
	status bk.Status
	until  <-chan struct{}
	forge  *func(frame []byte) []byte
}

type verdictKind uint8

const (
	pass verdictKind = iota
	silent
	drop
	refuse
	corrupt
	hold
	lose
	forged
)

// Pass serves the request.
func Pass() Verdict { return Verdict{} }

// Silent never answers; the request has no effect.
func Silent() Verdict { return Verdict{kind: silent} }

// Lose serves the request and never answers.
func Lose() Verdict { return Verdict{kind: lose} }

// Drop closes the connection.
func Drop() Verdict { return Verdict{kind: drop} }

// Refuse answers with a status; the request has no effect.
func Refuse(s bk.Status) Verdict { return Verdict{kind: refuse, status: s} }

// Corrupt flips a bit in the last byte of the entry that the answer carries.
func Corrupt() Verdict { return Verdict{kind: corrupt} }

// Hold serves the request and answers once until is closed.
func Hold(until <-chan struct{}) Verdict { return Verdict{kind: hold, until: until} }

// Late serves the request and answers after d.
func Late(d time.Duration) Verdict {
	until := make(chan struct{})
	time.AfterFunc(d, func() { close(until) })
	return Hold(until)
}

// Forge serves the request and answers with what lie makes of the answer's frame,
// its length included; lie may keep and change the frame.
func Forge(lie func(frame []byte) []byte) Verdict { return Verdict{kind: forged, forge: &lie} }

// ForgePoll is Forge for a long poll: the poll waits as it should.
func ForgePoll(lie func(frame []byte) []byte) Verdict { return Verdict{kind: pass, forge: &lie} }

// Bookie is one fake bookie. Its store outlives its connections.
type Bookie struct {
	ID bk.BookieID

	mu      sync.Mutex // guards all below
	hook    func(Request) Verdict
	ledgers map[bk.LedgerID]*ledger
	seen    []Request
	wake    chan struct{} // closed and replaced when a LAC moves
}

type ledger struct {
	key     []byte
	fenced  bool
	entries map[bk.EntryID][]byte
	highest bk.EntryID
	lac     bk.EntryID
	lacBody []byte
}

// New makes an empty bookie.
func New(id bk.BookieID) *Bookie {
	return &Bookie{ID: id, ledgers: map[bk.LedgerID]*ledger{}, wake: make(chan struct{})}
}

// SetHook makes hook decide on each request; nil serves all.
func (b *Bookie) SetHook(hook func(Request) Verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hook = hook
}

// Seen gives the requests that came, in their order.
func (b *Bookie) Seen() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Request(nil), b.seen...)
}

// Forget empties the list of requests seen.
func (b *Bookie) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = nil
}

// Entry gives the stored body of an entry, nil if there is none.
func (b *Bookie) Entry(l bk.LedgerID, e bk.EntryID) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if led := b.ledgers[l]; led != nil {
		return bytes.Clone(led.entries[e])
	}
	return nil
}

// Put stores an entry body as an add does, whatever the fence says.
func (b *Bookie) Put(l bk.LedgerID, key, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(b.ledger(l, key), body)
}

// PutLAC stores an explicit LAC.
func (b *Bookie) PutLAC(l bk.LedgerID, key, body []byte) { b.writeLAC(l, key, body) }

// Remove loses an entry.
func (b *Bookie) Remove(l bk.LedgerID, e bk.EntryID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if led := b.ledgers[l]; led != nil {
		delete(led.entries, e)
	}
}

// Fenced reports whether the ledger is fenced here.
func (b *Bookie) Fenced(l bk.LedgerID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledgers[l] != nil && b.ledgers[l].fenced
}

func (b *Bookie) judge(r Request) Verdict {
	b.mu.Lock()
	r.Bookie = b.ID
	b.seen = append(b.seen, r)
	hook := b.hook
	b.mu.Unlock()
	if hook == nil {
		return Pass()
	}
	return hook(r)
}

// ledger gives the ledger, made with key if it is new. The caller holds mu.
func (b *Bookie) ledger(l bk.LedgerID, key []byte) *ledger {
	led := b.ledgers[l]
	if led == nil {
		led = &ledger{
			key: bytes.Clone(key), entries: map[bk.EntryID][]byte{},
			highest: bk.InvalidEntryID, lac: bk.InvalidEntryID,
		}
		b.ledgers[l] = led
	}
	return led
}

// put stores a body. The caller holds mu.
func (b *Bookie) put(led *ledger, body []byte) {
	e := bk.BodyEntry(body)
	led.entries[e] = bytes.Clone(body)
	led.highest = max(led.highest, e)
	b.raise(led, bk.BodyLAC(body))
}

func (b *Bookie) raise(led *ledger, lac bk.EntryID) {
	if lac > led.lac {
		led.lac = lac
		close(b.wake)
		b.wake = make(chan struct{})
	}
}

func (b *Bookie) add(l bk.LedgerID, key, body []byte, recovery bool) bk.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	led := b.ledger(l, key)
	switch {
	case !bytes.Equal(led.key, key):
		return bk.StatusUnauthorized
	case led.fenced && !recovery:
		return bk.StatusFenced
	}
	b.put(led, body)
	return bk.StatusOK
}

func (b *Bookie) fence(l bk.LedgerID, key []byte) bk.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	led := b.ledger(l, key)
	if !bytes.Equal(led.key, key) {
		return bk.StatusUnauthorized
	}
	led.fenced = true
	return bk.StatusOK
}

func (b *Bookie) read(l bk.LedgerID, e bk.EntryID) (body []byte, maxLAC bk.EntryID, s bk.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	led := b.ledgers[l]
	if led == nil {
		return nil, bk.InvalidEntryID, bk.StatusNoLedger
	}
	if e == bk.InvalidEntryID {
		e = led.highest
	}
	body = led.entries[e]
	if body == nil {
		return nil, led.lac, bk.StatusNoEntry
	}
	return body, led.lac, bk.StatusOK
}

func (b *Bookie) writeLAC(l bk.LedgerID, key, body []byte) bk.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	led := b.ledger(l, key)
	if !bytes.Equal(led.key, key) {
		return bk.StatusUnauthorized
	}
	led.lacBody = bytes.Clone(body)
	b.raise(led, bk.BodyEntry(body))
	return bk.StatusOK
}

func (b *Bookie) readLAC(l bk.LedgerID) (lacBody, last []byte, s bk.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	led := b.ledgers[l]
	if led == nil || led.lacBody == nil && led.highest == bk.InvalidEntryID {
		return nil, nil, bk.StatusNoEntry
	}
	return led.lacBody, led.entries[led.highest], bk.StatusOK
}

// waitLAC waits until the LAC is past after, for at most d or until stop. It
// gives the LAC, and entry after+1 if it is confirmed and here.
func (b *Bookie) waitLAC(l bk.LedgerID, after bk.EntryID, d time.Duration, stop <-chan struct{}) (bk.EntryID, []byte, bk.Status) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		b.mu.Lock()
		led, wake := b.ledgers[l], b.wake
		if led == nil {
			b.mu.Unlock()
			return bk.InvalidEntryID, nil, bk.StatusNoLedger
		}
		lac, body := led.lac, led.entries[after+1]
		b.mu.Unlock()
		if lac > after {
			return lac, body, bk.StatusOK
		}
		select {
		case <-wake:
		case <-timer.C:
			return lac, nil, bk.StatusOK
		case <-stop:
			return lac, nil, bk.StatusOK
		}
	}
}
