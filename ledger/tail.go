package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// Pauses between long polls that brought nothing at once: bookies that never
// heard of the ledger do not wait.
const (
	pollPauseMin = 2 * time.Millisecond
	pollPauseMax = 500 * time.Millisecond
	// pollHeld: a poll that took this long was really held by a bookie.
	pollHeld = 100 * time.Millisecond
)

// WaitLAC waits until the LAC is past after, and gives it. It fails with
// bk.ErrLedgerClosed when the ledger is closed at or before after.
func (r *Reader) WaitLAC(ctx context.Context, after bk.EntryID) (bk.EntryID, error) {
	_, err := r.follow(ctx, after)
	if err != nil {
		return bk.InvalidEntryID, err
	}
	return r.LAC(), nil
}

// ReadNext waits until entry after+1 is confirmed and gives it; in the usual
// case it comes with the answer to the wait. Its payload is the caller's. It
// fails with bk.ErrLedgerClosed when the ledger is closed at or before after,
// with bk.ErrNoSuchLedger when it was deleted meanwhile.
func (r *Reader) ReadNext(ctx context.Context, after bk.EntryID) (bk.Entry, error) {
	ent, err := r.follow(ctx, after)
	if err != nil {
		return bk.Entry{}, err
	}
	if ent != nil {
		r.c.metrics.entriesRead.Inc()
		return *ent, nil
	}
	return r.Read(ctx, after+1)
}

// follow waits until the LAC is past after. It gives entry after+1 if that came
// along.
func (r *Reader) follow(ctx context.Context, after bk.EntryID) (*bk.Entry, error) {
	in := newInbox()
	for pause := pollPauseMin; ; {
		r.mu.Lock()
		lac, closed, changed, gone := r.lac.LAC(), r.lac.Closed(), r.changed, r.gone
		r.mu.Unlock()
		if lac > after {
			return nil, nil
		}
		if closed {
			return nil, fmt.Errorf("wait for ledger %d entry %d, last entry is %d: %w", r.id, after+1, lac, bk.ErrLedgerClosed)
		}
		if gone != nil {
			return nil, fmt.Errorf("wait for ledger %d entry %d: it was deleted: %w", r.id, after+1, gone)
		}
		start := time.Now()
		ent, err := r.poll(ctx, in, after, changed)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("wait for ledger %d entry %d: %w", r.id, after+1, context.Cause(ctx))
		case r.ctx.Err() != nil:
			return nil, fmt.Errorf("wait for ledger %d entry %d: %w", r.id, after+1, bk.ErrClosed)
		case ent != nil:
			return ent, nil
		case err == errMoved || time.Since(start) >= pollHeld: //nolint:errorlint // never wrapped
			pause = pollPauseMin
			continue
		}
		r.pause(ctx, pause, changed)
		pause = min(2*pause, pollPauseMax)
	}
}

// pause waits a little, unless there is news before.
func (r *Reader) pause(ctx context.Context, d time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	case <-r.ctx.Done():
	}
}

// poll asks the bookies of the last segment, one after another, for news past
// after (rule 29). It gives the entry if it came, and what else it learned to
// the handle. errMoved: the handle has news from elsewhere.
func (r *Reader) poll(ctx context.Context, in *inbox, after bk.EntryID, changed <-chan struct{}) (*bk.Entry, error) {
	r.mu.Lock()
	ensemble, first := r.core.Last().Ensemble, r.pollAt
	r.mu.Unlock()
	p := poller{r: r, in: in, ensemble: ensemble, after: after}
	p.core.Start(r.q, after+1, first)
	p.ask()
	opts := &r.c.opts
	speculate := time.NewTimer(opts.SpeculativeReadTimeout)
	defer speculate.Stop()
	for {
		select {
		case <-in.wake:
			for _, c := range in.take(nil) {
				if p.answer(c) {
					return p.entry, p.err
				}
			}
		case <-speculate.C:
			p.ask()
			speculate.Reset(opts.SpeculativeReadTimeout)
		case <-changed:
			return nil, errMoved
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-r.ctx.Done():
			return nil, bk.ErrClosed
		}
	}
}

// poller is one long poll over the ensemble.
type poller struct {
	r        *Reader
	in       *inbox
	ensemble []bk.BookieID
	after    bk.EntryID
	core     quorum.Poll
	entry    *bk.Entry
	err      error
}

// ask sends the poll to the next bookie, if there is one left.
func (p *poller) ask() {
	pos, ok := p.core.Next()
	if !ok {
		return
	}
	opts := &p.r.c.opts
	p.r.c.pool.Bookie(p.ensemble[pos]).Start(&conn.Call{
		Op: conn.OpLongPoll, Ledger: p.r.id, Entry: p.after, Wait: opts.LongPollTimeout,
		Timeout: opts.LongPollTimeout + opts.ReadTimeout, Tag: pos, Done: p.in.done, Owner: p,
	})
}

// answer takes one bookie's answer; it reports whether the poll is over.
func (p *poller) answer(c *conn.Call) bool {
	if c.Owner != p {
		return false // of an earlier poll
	}
	a := quorum.PollAnswer{Entry: bk.InvalidEntryID, MaxLAC: c.MaxLAC}
	err := c.Failure()
	var ent bk.Entry
	if err == nil && c.Answer != bk.InvalidEntryID {
		if ent, err = p.r.digester.Verify(c.Body, p.r.id, c.Answer); err != nil {
			err = &bk.BookieError{Bookie: c.Bookie.ID(), Err: err}
		} else {
			a.Entry = ent.ID
		}
	}
	if err == nil {
		p.r.raise(max(c.MaxLAC, a.Entry), ent.Length)
	}
	switch p.core.Answer(c.Tag, a, err) {
	case quorum.PollEntry:
		p.entry = &ent
		p.r.answeredPoll(c.Tag)
		return true
	case quorum.PollLAC:
		p.r.answeredPoll(c.Tag)
		return true
	case quorum.PollEmpty:
		return true
	case quorum.PollFailed:
		p.err = p.core.Err()
		return true
	case quorum.PollAsk:
		p.ask()
	case quorum.PollPending:
	}
	return false
}

// answeredPoll has the next poll begin with the bookie that had news.
func (r *Reader) answeredPoll(pos int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pollAt = pos
}
