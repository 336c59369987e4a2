package ledger

import (
	"sync/atomic"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/conn"
)

// Pauses before the LAC is told again to bookies too few of which took it.
const (
	lacRetryMin = 50 * time.Millisecond
	lacRetryMax = 10 * time.Second
)

// idle is called when the last pending entry completed. The caller holds mu.
func (w *Writer) idle() {
	if w.chunk != nil {
		w.chunk.Release()
		w.chunk, w.grade = nil, 0
	}
	if w.c.opts.LACDelay < 0 || w.core.LAC() <= w.lacTold {
		return
	}
	w.idleSince = time.Now()
	w.lacRetry = lacRetryMin
	if !w.lacArmed {
		w.lacArmed = true
		w.lacTimer.Reset(w.c.opts.LACDelay)
	}
}

// lacTick runs when the writer may have been idle for LACDelay: it tells the
// bookies of the last entry's write set the LAC, which so far no entry carries
// (rule 13).
func (w *Writer) lacTick() {
	w.mu.Lock()
	lac := w.core.LAC()
	left := w.c.opts.LACDelay - time.Since(w.idleSince)
	switch {
	case w.core.Err() != nil || w.core.Pending() > 0 || lac <= w.lacTold:
		w.lacArmed = false
		w.mu.Unlock()
		return
	case left > 0:
		w.lacTimer.Reset(left)
		w.mu.Unlock()
		return
	}
	w.lacArmed = false
	w.lacTold = lac
	w.trim()
	var to []*conn.Bookie
	for k := range w.q.Write {
		to = append(to, w.slots[(int(lac%bk.EntryID(w.q.Ensemble))+k)%w.q.Ensemble].bookie)
	}
	w.mu.Unlock()
	w.c.metrics.lacWrites.Inc()
	body := w.digester.AppendLAC(nil, w.id, lac)
	var took, answers atomic.Int32
	done := func(c *conn.Call) {
		if c.Failure() == nil {
			took.Add(1)
		}
		if answers.Add(1) == int32(len(to)) && took.Load() < int32(w.q.Ack) {
			w.tellAgain(lac)
		}
	}
	for _, b := range to {
		b.Start(&conn.Call{
			Op: conn.OpWriteLAC, Ledger: w.id, Entry: lac, Key: &w.key, Payload: body,
			Timeout: w.c.opts.AddTimeout, Done: done,
		})
	}
}

// tellAgain has the LAC told once more, after a while, unless there is a newer
// one by then: fewer than Qa bookies took it, and readers ask only so many that
// one of Qa is among them.
func (w *Writer) tellAgain(lac bk.EntryID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.core.Err() != nil || w.lacTold != lac || w.lacArmed {
		return
	}
	w.lacTold = lac - 1
	w.lacArmed = true
	w.lacTimer.Reset(w.lacRetry)
	w.lacRetry = min(2*w.lacRetry, lacRetryMax)
}
