package ledger

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loglode/loglode/bookie/bk"
	"github.com/loglode/loglode/ledger/internal/conn"
	"github.com/loglode/loglode/ledger/internal/quorum"
)

// Pauses after a long poll that a bookie answered at once without news: one that
// never heard of the ledger does not wait. The longest keeps a reader below two
// requests a second, and its delay in seeing the first entry below one.
const (
	pollPauseMin = 2 * time.Millisecond
	pollPauseMax = 600 * time.Millisecond
	// pollHeld: a poll that took this long was really held by a bookie.
	pollHeld = 100 * time.Millisecond
)

// pace spaces out requests that bring nothing at once.
type pace struct{ pause time.Duration }

// next is the time to wait before the next request.
func (p *pace) next() time.Duration {
	d := p.pause
	p.pause = min(2*d, pollPauseMax)
	return d
}

func (p *pace) reset() { p.pause = pollPauseMin }

// WaitLAC waits until the LAC is past after, and gives it. It fails with
// bk.ErrLedgerClosed when the ledger is closed at or before after.
func (r *Reader) WaitLAC(ctx context.Context, after bk.EntryID) (bk.EntryID, error) {
	_, err := r.follow(ctx, after)
	if err != nil {
		return bk.InvalidEntryID, err
	}
	return r.LAC(), nil
}

// ReadLAC asks the bookies for the LAC, without waiting for it to move, and gives
// it. That of a closed ledger is known.
func (r *Reader) ReadLAC(ctx context.Context) (bk.EntryID, error) {
	for again := false; ; again = true {
		r.mu.Lock()
		lac, closed, meta := r.lac.LAC(), r.lac.Closed(), r.meta
		r.mu.Unlock()
		if closed {
			return lac, nil
		}
		a, err := r.c.readLAC(ctx, &storedMetadata{cluster: r.c.cluster, id: r.id, meta: meta}, r.digester)
		if err == nil {
			r.raise(a.LAC, a.Length)
			return r.LAC(), nil
		}
		if again || ctx.Err() != nil {
			return bk.InvalidEntryID, fmt.Errorf("read LAC of ledger %d: %w", r.id, err)
		}
		r.refreshOlder(ctx, 0) // it may be closed, or at other bookies
	}
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
	var pace pace
	pace.reset()
	var asked time.Time // for the LAC
	for {
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
		ent, held, err := r.poll(ctx, in, after, changed, &pace)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("wait for ledger %d entry %d: %w", r.id, after+1, context.Cause(ctx))
		case r.ctx.Err() != nil:
			return nil, fmt.Errorf("wait for ledger %d entry %d: %w", r.id, after+1, bk.ErrClosed)
		case ent != nil:
			return ent, nil
		case err == errMoved: //nolint:errorlint // never wrapped
			pace.reset()
			continue
		}
		// No news, or nobody to ask: perhaps because the news is elsewhere, or
		// too large.
		r.refreshOlder(ctx, r.c.opts.LongPollTimeout/2)
		if mayNotFit(err) && time.Since(asked) >= r.c.opts.SpeculativeReadTimeout {
			asked = time.Now()
			if _, err := r.ReadLAC(ctx); err != nil {
				r.c.opts.Logger.Debug("LAC not read", zap.Int64("ledger", int64(r.id)), zap.Error(err))
			}
		}
		if !held {
			r.pause(ctx, pace.next(), changed)
		}
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
// the handle; held tells that the last bookie answered after a while only.
// errMoved: the handle has news from elsewhere.
func (r *Reader) poll(
	ctx context.Context, in *inbox, after bk.EntryID, changed <-chan struct{}, pace *pace,
) (ent *bk.Entry, held bool, err error) {
	r.mu.Lock()
	ensemble, first := r.core.Last().Ensemble, r.pollAt
	r.mu.Unlock()
	first = r.c.firstGood(ensemble, first)
	p := poller{
		r: r, in: in, ensemble: ensemble, first: first, after: after, pace: pace,
		asked: make([]time.Time, len(ensemble)), next: time.NewTimer(0),
	}
	defer p.next.Stop()
	p.core.Start(r.q, after+1, first)
	opts := &r.c.opts
	speculate := time.NewTimer(opts.SpeculativeReadTimeout)
	defer speculate.Stop()
	for {
		select {
		case <-in.wake:
			for _, c := range in.take(nil) {
				if p.answer(c) {
					return p.entry, p.held, p.err
				}
			}
		case <-p.next.C:
			p.ask()
		case <-speculate.C:
			p.ask()
			speculate.Reset(opts.SpeculativeReadTimeout)
		case <-changed:
			return nil, false, errMoved
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-r.ctx.Done():
			return nil, false, bk.ErrClosed
		}
	}
}

// firstGood gives the first position from pos on whose bookie has not failed
// lately; pos if all have.
func (c *Client) firstGood(ensemble []bk.BookieID, pos int) int {
	for i := range ensemble {
		p := (pos + i) % len(ensemble)
		if c.pool.Bookie(ensemble[p]).Rank(false, 0) < conn.RankSlow {
			return p
		}
	}
	return pos
}

// poller is one long poll over the ensemble.
type poller struct {
	r        *Reader
	in       *inbox
	ensemble []bk.BookieID
	first    int
	after    bk.EntryID
	pace     *pace
	asked    []time.Time // by position
	next     *time.Timer // when to ask the next bookie
	core     quorum.Poll
	entry    *bk.Entry
	held     bool
	err      error
}

// ask sends the poll to the next bookie, if there is one left.
func (p *poller) ask() {
	pos, ok := p.core.Next()
	if !ok {
		return
	}
	p.asked[pos] = time.Now()
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
	if quorum.Classify(err) == quorum.Unknown {
		c.Bookie.NoteBadCopy()
	}
	if err == nil {
		p.r.raise(max(c.MaxLAC, a.Entry), ent.Length)
	}
	if p.held = time.Since(p.asked[c.Tag]) >= pollHeld; p.held {
		p.pace.reset()
	}
	switch p.core.Answer(c.Tag, a, err) {
	case quorum.PollEntry:
		p.entry = &ent
		p.r.pollFrom(c.Tag)
		return true
	case quorum.PollLAC:
		p.r.pollFrom(c.Tag)
		return true
	case quorum.PollEmpty:
		p.r.pollFrom(p.first + 1)
		return true
	case quorum.PollFailed:
		p.r.pollFrom(p.first + 1)
		p.err = p.core.Err()
		return true
	case quorum.PollAsk:
		if p.held || quorum.Classify(err) == quorum.Unknown {
			p.ask()
		} else {
			p.next.Reset(p.pace.next())
		}
	case quorum.PollPending:
	}
	return false
}

// pollFrom has the next poll begin with the bookie at a position: the one that
// had news, or another than the one that had none.
func (r *Reader) pollFrom(pos int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pollAt = pos % r.q.Ensemble
}
