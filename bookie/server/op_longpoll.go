package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/bookie/wire/bkpb"
)

// longPoll is a version 3 read that waits until its ledger is confirmed beyond
// previous_lac, or its time is up. While it waits it is one registration at
// the store and one timer.
type longPoll struct {
	c     *conn
	t     task
	over  atomic.Bool // won by whoever ends the wait
	woken bool        // ended by the LAC; written by the winner before it submits

	mu     sync.Mutex // guards all below
	timer  *time.Timer
	cancel func() bool
}

// doLongPoll answers a read with previous_lac, or makes it wait.
func doLongPoll(w *worker, c *conn, t *task) {
	q := t.v3.ReadRequest
	lac, s := w.s.store.LAC(t.ledger)
	switch {
	case s != bk.StatusOK:
		w.statusV3(t, s)
		return
	case piggyback(q) && t.entry != bk.InvalidEntryID:
		w.statusV3(t, bk.StatusBadRequest)
		return
	}
	previous := bk.EntryID(q.GetPreviousLac())
	if lac > previous || q.GetTimeOut() <= 0 {
		w.answerLongPoll(t, false)
		return
	}
	if w.s.longPolls.Add(1) > int64(w.s.opts.LongPollsMax) {
		w.s.longPolls.Add(-1)
		w.statusV3(t, bk.StatusTooManyRequests)
		return
	}
	p := &longPoll{c: c, t: *t}
	if !c.addPoll(p) {
		w.s.longPolls.Add(-1)
		w.answerLongPoll(t, false)
		return
	}
	wait := w.s.opts.LongPollMax
	if ms := q.GetTimeOut(); ms < wait.Milliseconds() {
		wait = time.Duration(ms) * time.Millisecond
	}
	p.wait(wait, previous)
}

// piggyback reports whether the answer is to bring entry previous_lac + 1.
func piggyback(q *bkpb.ReadRequest) bool {
	return q.Flag != nil && q.GetFlag() == bkpb.ReadRequest_ENTRY_PIGGYBACK
}

// wait arms the timer and the registration. Either may fire before it returns,
// and so may the end of the connection.
func (p *longPoll) wait(d time.Duration, previous bk.EntryID) {
	timer := time.AfterFunc(d, func() { p.end(false) })
	cancel := p.c.s.store.WaitLAC(p.t.ledger, previous, func(bk.EntryID) { p.end(true) })
	p.mu.Lock()
	p.timer, p.cancel = timer, cancel
	p.mu.Unlock()
	if p.over.Load() { // whoever ended it may not have seen the two
		timer.Stop()
		cancel()
	}
}

// claim makes the caller the one that ends the wait, and takes back the rest.
func (p *longPoll) claim(woken bool) bool {
	if !p.over.CompareAndSwap(false, true) {
		return false
	}
	p.woken = woken
	p.mu.Lock()
	timer, cancel := p.timer, p.cancel
	p.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	if cancel != nil && !woken {
		cancel()
	}
	return true
}

// end sends the poll back to the read workers for its answer.
func (p *longPoll) end(woken bool) {
	if !p.claim(woken) {
		return
	}
	p.c.removePoll(p)
	t := p.t
	t.do, t.poll = doLongPollEnded, p
	p.c.reads.pool.submitEnded(&p.c.reads, t)
}

func doLongPollEnded(w *worker, _ *conn, t *task) {
	w.s.longPolls.Add(-1)
	w.answerLongPoll(t, t.poll.woken)
}

// answerLongPoll answers with what is there now. With the piggyback flag that
// is the entry behind previous_lac, if it is confirmed and on this bookie; its
// id in the answer, or "none", tells the client which.
func (w *worker) answerLongPoll(t *task, woken bool) {
	q := t.v3.ReadRequest
	if !piggyback(q) {
		w.answerReadV3(t)
		return
	}
	lac, s := w.s.store.LAC(t.ledger)
	if s != bk.StatusOK {
		w.statusV3(t, s)
		return
	}
	answer := &bkpb.ReadResponse{MaxLac: (*int64)(&lac)}
	e := bk.InvalidEntryID
	if next := bk.EntryID(q.GetPreviousLac()) + 1; lac >= next {
		body, s := w.read(t.ledger, next, w.body[:0])
		switch {
		case s == bk.StatusOK:
			w.body, e, answer.Body = body, next, body
		case !s.Missing():
			w.statusV3(t, s)
			return
		}
		if woken {
			now := time.Now().UnixMilli()
			answer.LacUpdateTimestamp = &now
		}
	}
	w.answerRead(t, e, answer)
	w.shrink()
}

// addPoll keeps a waiting poll, unless the connection is on its end.
func (c *conn) addPoll(p *longPoll) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.draining.Load() {
		return false
	}
	c.polls[p] = struct{}{}
	return true
}

func (c *conn) removePoll(p *longPoll) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.polls, p)
}

func (c *conn) waitingPolls() []*longPoll {
	c.mu.Lock()
	defer c.mu.Unlock()
	polls := make([]*longPoll, 0, len(c.polls))
	for p := range c.polls {
		polls = append(polls, p)
	}
	return polls
}

// wakePolls answers all waiting polls as if their time was up.
func (c *conn) wakePolls() {
	for _, p := range c.waitingPolls() {
		p.end(false)
	}
}

// dropPolls forgets all waiting polls: nobody is left to answer.
func (c *conn) dropPolls() {
	for _, p := range c.waitingPolls() {
		if p.claim(false) {
			c.removePoll(p)
			c.s.longPolls.Add(-1)
		}
	}
}
